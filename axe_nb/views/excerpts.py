"""The texts of a tree: cut, cleaned, the same for two equal runs. Pure.

Source: product.md "Notebook" (deterministic, cut with a pointer); design README; D-6, D-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from axe_nb.messages import ToolCall
from axe_nb.text import clean, one_line

LINE = 72
"""Maximum length of a row's task or arguments in characters."""

WHO = 32
"""Maximum length of a name in characters."""

POINTER = 60
"""Length of a pointer in characters; it takes the place of no text that is shorter."""

LINES = 12
"""Maximum number of lines of a text."""

NOT_NOTED = frozenset({"task_id", "depth", "token_estimate", "duration_ms"})
"""Metadata that the tree shows elsewhere, or that differs between equal runs."""


def indent_json(text: str) -> str:
    """JSON text with an indentation that people read; what is not JSON stays as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def line(text: str, size: int = LINE) -> str:
    """The beginning of a text in one line."""
    return one_line(text[: 8 * size], size)


def cut_beginning(text: str, max_chars: int) -> tuple[str, int]:
    """The beginning of a text, and how many characters of it are left out.

    Args:
        text: output of a model or a tool.
        max_chars: characters; a text that is hardly longer is shown whole.
    """
    text = text.strip("\n")
    end = len(text) if len(text) <= max(max_chars * 5 // 4, max_chars + POINTER) else max_chars
    lines = text[: end + 1].split("\n", LINES)
    if len(lines) > LINES:
        end = min(end, sum(map(len, lines[:LINES])) + LINES - 1)
    return clean(text[:end]), len(text) - end


def cut_end(text: str, max_chars: int) -> str:
    """The end of a text that is still being written.

    Args:
        text: output of a model; of a long one, its end is enough.
        max_chars: characters; what is left out is marked.
    """
    if len(text) <= max_chars:
        return clean(text).strip("\n")
    end = text[-max_chars:]
    words = re.split(r"\s", end, maxsplit=1)  # not from the middle of a word, unless it is huge
    return "… " + clean(words[-1] if len(words[-1]) > max_chars // 2 else end).strip("\n")


def last_words(text: str, size: int) -> str:
    """The end of a text that is still being written, in one line."""
    return one_line(cut_end(text, max(size - 2, 0)), max(size, 0))


def format_arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them (D-11)."""
    return call.raw or json.dumps(call.arguments, ensure_ascii=False)


def format_metadata(metadata: Mapping[str, str]) -> str:
    """A child's metadata in one line, without entries that the tree shows or that vary by run."""
    return " · ".join(f"{key} {value}" for key, value in metadata.items() if key not in NOT_NOTED)
