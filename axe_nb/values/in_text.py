"""A value within a text for a model: text and numbers in the line, data on lines of its own.

Source: product.md "Models can do more than text" (values), "Notebook" (interpolation).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from axe_nb.text import cut_chars
from axe_nb.values.render import write_text

LONGEST_VALUE = 200_000
"""Maximum characters of a text in a prompt; a note tells how much is left out. Data has a limit of
its own."""

_LINE_IS_OVER = re.compile(r"[ \t]*(\n|\Z)")


@dataclass(frozen=True, slots=True)
class Written:
    """A value as text."""

    text: str
    is_block: bool
    """True for data of several lines, which stands on lines of its own."""


def write_value(value: object) -> Written:
    """Writes a value for a place in a text.

    Raises:
        NoText: it has no text form.
        Exception: whatever the value's own methods raise.
    """
    text = format_value(value)
    is_text = isinstance(value, str) or hasattr(type(value), "__axe_text__")
    return Written(text, is_block="\n" in text and not is_text)


def format_value(value: object) -> str:
    """Formats a value for a model: text unchanged, tables as CSV, other data as JSON.

    Raises:
        NoText: it has no text form.
        Exception: whatever the value's own methods raise.
    """
    text = value if isinstance(value, str) else write_text(value, indent=2)
    return cut_chars(text, LONGEST_VALUE, "\n[{more} more characters left out]")


def append_value(pieces: list[str], before: str, value: Written, text: str, end: int) -> None:
    """Appends a value, and the text before it.

    Args:
        pieces: the text so far.
        before: the text between them and the value.
        value: the value.
        text: the whole template.
        end: where the template goes on after the value.
    """
    if value.is_block:
        before = _end_line(pieces, before)
    pieces += [before, value.text]
    if value.is_block and not _LINE_IS_OVER.match(text, end):
        pieces.append("\n")


def _end_line(pieces: Sequence[str], text: str) -> str:
    """Returns the text with a line break, if its last line has any words."""
    shorter = text.rstrip(" \t")
    before = shorter or next((piece for piece in reversed(pieces) if piece), "\n")
    return shorter if before.endswith("\n") else f"{shorter}\n"
