"""A value as text for a model: text unchanged, tables as CSV, all other data as JSON.

CSV is read well by models, loses nothing and takes the fewest tokens: a missing value is an empty
cell, an empty text `""`, and data within a cell is JSON. What does not fit is cut, and says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from axe_nb.conversion.value_kinds import (
    Entries,
    Items,
    Leaf,
    Table,
    find_picture,
    open_value,
)
from axe_nb.text import count_bytes, cut_chars, describe, one_line, plural, type_name

LONGEST_DATA = 100_000
"""Maximum size of a value in a prompt, in bytes of UTF-8; text has a limit of its own."""

LONGEST_VALUE = 200_000
"""Maximum characters of a text in a prompt; longer ones are cut, with the number left out."""

LONGEST_CELL = 1000
"""Maximum bytes of a cell in a table that is cut, of a key, and of the text by which members of
a set are sorted."""

MAX_DEPTH = 100
"""Maximum nesting; deeper values are left out."""

NOTE = 300
"""Bytes reserved for the note about omitted data."""

_SPECIAL = re.compile(r'[",\n\r]|^\s|\s$|^$')

_NO_DATA = (
    type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Iterator, AsyncIterator
)  # fmt: skip
"""Types of which only the name could be written."""

_END = object()


class NoText(Exception):
    """A value cannot stand alone in a text; the message says why: `is a generator, which …`."""

    def __init__(self, problem: str, step: str = "") -> None:
        super().__init__(problem)
        self.step = step
        """Advice on what to write instead; empty if there is none."""


def encode(data: object, indent: int | None = None) -> str:
    """The text of JSON data."""
    return json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False)


def to_data(value: object, limit: int) -> Any:
    """Converts any value to JSON data, whole if its text on one line fits, else cut.

    The limit is in bytes of UTF-8, at least 1000.
    """
    room = limit
    while True:
        data = _Conversion(room).convert(value, 0)
        size = count_bytes(encode(data))
        if size <= limit or not room:
            return data
        room = max(0, room * limit // size - NOTE)  # notes and escapes take room, too


class _Conversion:
    """One conversion, and the characters that are left for it."""

    def __init__(self, room: int) -> None:
        self._left = room
        self._around: set[int] = set()
        """Ids of the lists and objects around the value that is being converted."""

    def convert(self, value: Any, depth: int) -> Any:
        """Returns a value's data, as far as there is room for it."""
        try:
            opened = open_value(value)
        except Exception:  # of the value's own methods
            opened = Leaf(describe(value))
        if isinstance(opened, Leaf):
            return self._convert_leaf(opened.value)
        if id(value) in self._around:
            return self._convert_leaf(f"… contains itself ({type_name(value)})")
        if depth >= MAX_DEPTH:
            return self._convert_leaf(f"… nested deeper than {MAX_DEPTH} levels: left out")
        if isinstance(opened, Table):
            width = len(opened.labels)
            rows = opened.rows(width)
            if width == 1:
                opened = Items((row[0] for row in rows), opened.height)
            else:
                columns = Items(iter(opened.labels), width)
                lines = Items(map(list, rows), opened.height)
                opened = Entries(iter((("columns", columns), ("rows", lines))), 2)
        self._left -= 2
        self._around.add(id(value))
        data: Any = []
        if isinstance(opened, Entries):
            data = self._convert_entries(opened, depth + 1)
        else:
            values = opened.values
            if opened.is_set:  # in the order of its values, which is the same in every process
                members = list(values)
                kinds = {type(member) for member in members}
                is_plain = kinds <= {str} or kinds <= {int, bool}
                values = iter(sorted(members) if is_plain else sorted(members, key=_order))
            while self._left > 0 and (item := _take(values)) is not _END:
                self._left -= 2 if data else 0
                data.append(self.convert(item, depth + 1))
            if missing := opened.size - len(data):
                data.append(f"… {missing:,} of {opened.size:,} items left out")
        self._around.discard(id(value))
        return data

    def _convert_entries(self, entries: Entries, depth: int) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        while self._left > 0 and (pair := _take(entries.pairs)) is not _END:
            name = _make_name(pair[0], converted)
            self._left -= len(name) + (6 if converted else 4)
            converted[name] = self.convert(pair[1], depth)
        if missing := entries.size - len(converted):
            pairs = islice(iter(lambda: _take(entries.pairs), _END), 3)
            names = [one_line(_make_name(key, converted), 20) for key, _ in pairs]
            note = f"{missing:,} of {entries.size:,} entries left out"
            note += f": {', '.join(names)}" if names else ""
            note += f" and {missing - len(names):,} more" if missing > len(names) > 0 else ""
            converted[_make_name("…", converted)] = note
        return converted

    def _convert_leaf(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) > max(0, self._left):
            kept = value[: max(0, self._left)]
            value = f"{kept}… [{len(value) - len(kept):,} more characters left out]"
        self._left -= len(value) + 2 if isinstance(value, str) else len(encode(value))
        return value


def _take(values: Iterator[Any]) -> Any:
    """The next value; `_END` behind the last, or if the iterator fails."""
    try:
        return next(values, _END)
    except Exception:  # an iterator of the user's
        return _END


def _order(member: Any) -> str:
    return encode([to_data(member, LONGEST_CELL), type_name(member)])


def _make_name(key: Any, others: dict[str, Any]) -> str:
    """Makes the name of an entry; different keys with the same text also show their types."""
    data = key if isinstance(key, str) else to_data(key, LONGEST_CELL)
    name = data if isinstance(data, str) else encode(data)
    while name in others:
        name += f" ({type_name(key)})"
    return name


def write_text(value: object, limit: int = LONGEST_DATA, indent: int | None = None) -> str:
    """Writes a value for a prompt: a single one as its text, a table as CSV, all else as JSON.

    Text is not cut; data has at most `limit` bytes. Raises NoText if it is bytes, a picture, or has
    nothing but a type (within other data its type or size is written), and whatever the value's own
    methods raise.
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

    Raises NoText if it is bytes or a picture, and whatever the value's own methods raise.
    """
    _refuse_bytes(value)
    opened = open_value(value)
    if not isinstance(opened, Leaf):
        return _write_data(value, opened, limit, None)
    if hasattr(type(value), "__axe_text__"):
        return str(opened.value)
    return encode(to_data(opened.value, limit))


def _refuse_bytes(value: object) -> None:
    """Raises NoText if the value is bytes or a picture, which are never written as text."""
    if picture := find_picture(value):
        raise NoText(f"is a picture ({picture}), which cannot be sent as text")
    if isinstance(value, bytes | bytearray | memoryview):
        raise NoText(
            f"is of type {type(value).__name__}, which cannot be converted to text: decode it"
        )


def _make_no_text(value: object) -> NoText:
    step = "name the part of it that you mean"
    if isinstance(value, Iterator):
        step = "wrap it in list(…)"
    elif isinstance(value, FunctionType | BuiltinFunctionType | MethodType):
        step = "call it"
    return NoText(f"is of type {type_name(value)}, which cannot be converted to text", step)


def _write_data(
    value: object, opened: Items | Entries | Table, limit: int, indent: int | None
) -> str:
    if isinstance(opened, Table):
        return _write_table(opened, limit)
    data = to_data(value, limit)
    if indent is not None and not hasattr(type(value), "__array__"):
        text = encode(data, indent)
        if count_bytes(text) <= limit:
            return text
    return encode(data)


def _write_table(table: Table, limit: int) -> str:
    """Writes a table as CSV: whole if it fits into `limit` bytes, else cut, with a note."""
    width = len(table.labels)
    if not width:
        return f"(an empty table: {plural(table.height, 'row')}, no columns)"
    lines, is_whole = _write_lines(table, width, limit, 2 * limit)  # a cell that is cut is too long
    if is_whole:
        return "\n".join(lines)
    first = [_write_cell(value, LONGEST_CELL) for value in next(table.rows(width), ())]
    width = _count_fitting(table.labels, limit // 20)
    width = min(width, _count_fitting(first or table.labels, limit // 10))
    lines, _ = _write_lines(table, width, limit - NOTE, LONGEST_CELL)
    missing = []
    if rows := table.height - max(0, len(lines) - 1):
        missing.append(f"{rows:,} of {table.height:,} rows")
    if more := len(table.labels) - width:
        names = [one_line(name, 20) for name in table.labels[width : width + 2]]
        shown = ", ".join(names) + (f" and {more - len(names):,} more" if more > 2 else "")
        missing.append(f"{more:,} of {len(table.labels):,} columns ({shown})")
    return "\n".join([*lines, f"… {' and '.join(missing) or 'long texts'} left out"])


def _count_fitting(cells: Sequence[str], room: int) -> int:
    """Returns the number of leading cells, at least one, that fit into `room` bytes."""
    for count, cell in enumerate(cells):
        room -= count_bytes(cell) + 1
        if room < 0:
            return max(1, count)
    return len(cells)


def _write_lines(table: Table, width: int, limit: int, cell: int) -> tuple[list[str], bool]:
    """Returns the lines that fit into `limit` bytes, `cell` for each cell; true if all do."""
    lines: list[str] = []
    for row in chain([tuple(table.labels[:width])], table.rows(width)):
        line = ",".join(_write_cell(value, cell) for value in row)
        limit -= count_bytes(line) + 1
        if limit < 0:
            return lines, False
        lines.append(line)
    return lines, True


def _write_cell(value: Any, limit: int) -> str:
    data = to_data(value, limit)
    if data is None:
        return ""
    text = data if isinstance(data, str) else encode(data)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


@dataclass(frozen=True, slots=True)
class Written:
    """A value as text."""

    text: str
    is_block: bool
    """True for data of several lines, which is set off on lines of its own."""


def write_value(value: object) -> Written:
    """Writes a value for a place in a text. Raises as `write_text`."""
    text = format_value(value)
    is_text = isinstance(value, str) or hasattr(type(value), "__axe_text__")
    return Written(text, is_block="\n" in text and not is_text)


def format_value(value: object) -> str:
    """Formats a value for a model, cut if it is a long text. Raises as `write_text`."""
    text = value if isinstance(value, str) else write_text(value, indent=2)
    return cut_chars(text, LONGEST_VALUE, "\n[{more} more characters left out]")


def append_value(pieces: list[str], before: str, value: Written, text: str, end: int) -> None:
    """Appends a value, and the text before it; the template `text` goes on at `end`."""
    if value.is_block:  # which begins a line, unless the last line has no words
        before = before.rstrip(" \t")
        last = before or next((piece for piece in reversed(pieces) if piece), "\n")
        before += "" if last.endswith("\n") else "\n"
    pieces += [before, value.text]
    if value.is_block and text[end:].partition("\n")[0].strip():
        pieces.append("\n")
