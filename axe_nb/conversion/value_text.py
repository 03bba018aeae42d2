"""A value as text for a model: text unchanged, tables as CSV, all other data as JSON.

CSV is read well by models, loses nothing and takes the fewest tokens: a missing value is an empty
cell, an empty text `""`, and data within a cell is JSON.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from axe_nb.conversion.bounded_json import (
    TooLarge,
    count_columns_within,
    encode,
    to_data,
    to_whole_data,
)
from axe_nb.conversion.opened import find_picture, open_value
from axe_nb.conversion.own_text import describe, type_name
from axe_nb.conversion.parts import Entries, Items, Leaf, Table
from axe_nb.text import count_bytes, cut_chars, one_line, plural

LONGEST_DATA = 100_000
"""Maximum size of a value in a prompt, in bytes of UTF-8; text has a limit of its own."""

LONGEST_VALUE = 200_000
"""Maximum characters of a text in a prompt; a note tells how much is left out."""

LONGEST_CELL = 1000
"""Maximum bytes of a cell in a table that does not fit whole."""

NOTE = 300
"""Bytes kept free for the note below a table."""

_SPECIAL = re.compile(r'[",\n\r]|^\s|\s$|^$')

_LINE_IS_OVER = re.compile(r"[ \t]*(\n|\Z)")

_NO_DATA = (
    type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Iterator, AsyncIterator
)  # fmt: skip
"""Types of which only the name could be written."""


class NoText(Exception):
    """A value cannot stand alone in a text; the message says why: `is a generator, which …`."""

    def __init__(self, problem: str, step: str = "") -> None:
        super().__init__(problem)
        self.step = step
        """Advice on what to write instead; empty if there is none."""


def write_text(value: object, limit: int = LONGEST_DATA, indent: int | None = None) -> str:
    """Writes a value for a prompt: a single one as its text, a table as CSV, all else as JSON.

    Args:
        value: any value; text is not cut.
        limit: maximum size of data in bytes.
        indent: spaces for each level of JSON; None = on one line.

    Raises:
        NoText: it is bytes, a picture, or has nothing but a type. Within other data such a value is
            written as its type or size.
        Exception: whatever the value's own methods raise.
    """
    _refuse_bytes(value)
    if issubclass(type(value), _NO_DATA):
        raise _make_no_text(value)
    opened = open_value(value)
    if not isinstance(opened, Leaf):
        return _write_data(value, opened, limit, indent)
    if opened.value == describe(value) and not isinstance(value, str):
        raise _make_no_text(value)
    is_text = value is None or isinstance(opened.value, str | bool)
    return str(opened.value) if is_text else encode(opened.value)


def write_json(value: object, limit: int = LONGEST_DATA) -> str:
    """Writes a tool's result: a table as CSV, a run as its answer, all else as JSON on one line.

    Raises:
        NoText: it is bytes or a picture.
        Exception: whatever the value's own methods raise.
    """
    _refuse_bytes(value)
    opened = open_value(value)
    if not isinstance(opened, Leaf):
        return _write_data(value, opened, limit, None)
    if hasattr(type(value), "__axe_text__"):
        return str(opened.value)
    return encode(to_data(opened.value, limit))


def _refuse_bytes(value: object) -> None:
    """Refuses what is never written as text. Raises NoText if the value is bytes or a picture."""
    if picture := find_picture(value):
        raise NoText(f"is a picture ({picture}), which cannot be sent as text")
    if isinstance(value, bytes | bytearray | memoryview):
        raise NoText(
            f"is of type {type(value).__name__}, which cannot be converted to text: decode it"
        )


def _make_no_text(value: object) -> NoText:
    kind = type(value)
    if issubclass(kind, Iterator):
        step = "wrap it in list(…)"
    elif issubclass(kind, FunctionType | BuiltinFunctionType | MethodType):
        step = "call it"
    elif callable(getattr(kind, "collect", None)):
        step = "call its collect() method"
    else:
        step = "name the part of it that you mean"
    return NoText(f"is of type {type_name(value)}, which cannot be converted to text", step)


def _write_data(
    value: object, opened: Items | Entries | Table, limit: int, indent: int | None
) -> str:
    if isinstance(opened, Table):
        return write_table(opened, limit)
    data = to_data(value, limit)
    if indent is not None and not hasattr(type(value), "__array__"):
        text = encode(data, indent)
        if count_bytes(text) <= limit:
            return text
    return encode(data)


def write_table(table: Table, limit: int) -> str:
    """Writes a table as CSV: whole if it fits into `limit` bytes, else cut, with a note."""
    try:
        return _write_whole(table, limit)
    except TooLarge:
        return _write_beginning(table, limit)


def _write_whole(table: Table, limit: int) -> str:
    """Writes all of a table. Raises TooLarge if it does not fit."""
    if not table.width:
        return f"(an empty table: {plural(table.height, 'row')}, no columns)"
    if table.width * (table.height + 1) > limit:
        raise TooLarge
    lines = []
    for line in _write_lines(table, table.width, limit, is_cut=False):
        limit -= count_bytes(line) + 1
        if limit < 0:
            raise TooLarge
        lines.append(line)
    return "\n".join(lines)


def _write_beginning(table: Table, limit: int) -> str:
    width = count_columns_within(table, limit // 20)
    first_row = next(islice(_write_cells(table, width, LONGEST_CELL, True), 1, None), ())
    room = limit // 10
    for count, cell in enumerate(first_row):
        room -= count_bytes(cell) + 1
        if room < 0:
            width = max(1, count)
            break
    limit -= NOTE
    lines: list[str] = []
    for line in _write_lines(table, width, LONGEST_CELL, is_cut=True):
        limit -= count_bytes(line) + 1
        if limit < 0:
            break
        lines.append(line)
    return "\n".join([*lines, _make_note(table, max(0, len(lines) - 1), width)])


def _make_note(table: Table, height: int, width: int) -> str:
    missing = []
    if height < table.height:
        missing.append(f"{table.height - height:,} of {table.height:,} rows")
    if more := table.width - width:
        names = [one_line(name, 20) for name in table.label(width + 2)[width:]]
        shown = ", ".join(names) + (f" and {more - len(names):,} more" if more > 2 else "")
        missing.append(f"{more:,} of {table.width:,} columns ({shown})")
    return f"… {' and '.join(missing) or 'long texts'} left out"


def _write_lines(table: Table, width: int, limit: int, *, is_cut: bool) -> Iterator[str]:
    return map(",".join, _write_cells(table, width, limit, is_cut))


def _write_cells(table: Table, width: int, limit: int, is_cut: bool) -> Iterator[list[str]]:
    """The header and the rows, cell by cell."""
    yield [_write_cell(label, limit, is_cut) for label in table.label(width)]
    for row in table.rows(width):
        cells, left = [], limit
        for value in row:
            cells.append(_write_cell(value, left, is_cut))
            left -= 0 if is_cut else count_bytes(cells[-1])
        yield cells


def _write_cell(value: Any, limit: int, is_cut: bool) -> str:
    """Writes one value. Raises TooLarge if it does not fit, and must not be cut."""
    data = to_data(value, limit) if is_cut else to_whole_data(value, limit)
    if data is None:
        return ""
    text = data if isinstance(data, str) else encode(data)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


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
    if value.is_block:  # which begins a line, unless the last line has no words
        before = before.rstrip(" \t")
        last = before or next((piece for piece in reversed(pieces) if piece), "\n")
        before += "" if last.endswith("\n") else "\n"
    pieces += [before, value.text]
    if value.is_block and not _LINE_IS_OVER.match(text, end):
        pieces.append("\n")
