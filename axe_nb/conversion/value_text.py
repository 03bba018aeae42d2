"""Conversion of values to text for a model: text unchanged, tables as CSV, other data as JSON.

Models read CSV well, and CSV takes the fewest tokens. In CSV, a missing value is an empty cell, an
empty text is `""`, and data within a cell is JSON. Data that exceeds a limit is truncated, with a
note. Libraries such as pandas are not imported; a library not yet loaded has no values to convert.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
    ValuesView,
)
from datetime import date, time
from enum import Enum
from itertools import accumulate, chain, islice
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodType,
    ModuleType,
    NoneType,
    SimpleNamespace,
)
from typing import Any, NamedTuple, TypeAlias

from axe_nb.pictures.picture import METHODS, find_figure, find_format
from axe_nb.text import count_bytes, cut_chars, describe, one_line, own_text, plural, type_name

LONGEST_DATA = 100_000
"""Maximum size of a non-text value in a prompt, in bytes of UTF-8."""

LONGEST_VALUE = 200_000
"""Maximum length of a text value in a prompt, in characters; a longer text is cut, with a note."""

LONGEST_CELL = 1000
"""Maximum size in bytes of a cell in a truncated table, of a key, or of a sort key for sets."""

MAX_DEPTH = 100
"""Maximum nesting depth; deeper values are left out."""

NOTE = 300
"""Bytes reserved for the note about omitted data."""

_SPECIAL = re.compile(r'[",\n\r]|^\s|\s$|^$')

_NO_DATA = (
    type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Iterator, AsyncIterator
)  # fmt: skip
"""Types whose values hold no data; `write_text` refuses such values."""

_END: Any = object()

BLOCK = 4096
"""Maximum number of values to read at once from a table or an array."""


class Leaf(NamedTuple):
    """A single value of a JSON type."""

    value: str | int | float | bool | None


class Items(NamedTuple):
    """A list that is read lazily, only as far as the size limit allows."""

    values: Iterator[Any]
    size: int
    is_set: bool = False
    """True if the order of the values is arbitrary and may differ between processes."""


class Entries(NamedTuple):
    """An object with keys of any type, read lazily, only as far as the size limit allows."""

    pairs: Iterator[tuple[Any, Any]]
    size: int


class Table(NamedTuple):
    """A table that is read lazily, only as far as the size limit allows."""

    labels: Sequence[str]
    height: int
    read: Callable[[int, int, int], Iterable[Sequence[Any]]]
    """Function that yields the values of each column. Arguments: the first row, the row after the
    last, and the number of columns."""

    def rows(self, width: int) -> Iterator[tuple[Any, ...]]:
        """Yields the first `width` values of each row, reading many rows at once."""
        block = max(1, BLOCK // max(1, width))
        for start in range(0, self.height, block):
            stop = min(start + block, self.height)
            yield from zip(*self.read(start, stop, width), strict=True)

    def as_data(self) -> Items | Entries:
        """Returns a one-column table as a list, others as an object with `columns` and `rows`."""
        width = len(self.labels)
        if width == 1:
            return Items((row[0] for row in self.rows(1)), self.height)
        columns = Items(iter(self.labels), width)
        lines = Items(map(list, self.rows(width)), self.height)
        return Entries(iter((("columns", columns), ("rows", lines))), 2)


Opened: TypeAlias = Leaf | Items | Entries | Table


def find_picture(value: object) -> str:
    """Returns the picture type of a value, such as `PNG` or `Figure`; empty for other values."""
    if isinstance(value, bytes | bytearray | memoryview):
        return find_format(bytes(value[:16]))
    kind = type(value)
    shows_itself = any(callable(getattr(kind, name, None)) for name in METHODS)
    return kind.__name__ if shows_itself or find_figure(value) is not None else ""


def key_of(member: Enum) -> str:
    """Returns an enum member's value if all values of the enum are strings; otherwise its name."""
    by_value = all(isinstance(other.value, str) for other in type(member))
    return str(member.value if by_value else member.name)


def open_value(value: Any) -> Opened:
    """Wraps a value so that its parts can be read lazily.

    Raises any exception that the value's own methods raise.
    """
    kind = type(value)
    if kind is dict:
        return Entries(iter(value.items()), len(value))
    if kind in (list, tuple):
        return Items(iter(value), len(value))
    is_plain = kind in (str, int, float, bool, NoneType)
    if not is_plain and (opened := _open_of_library(value)) is not None:
        return opened
    match value:
        case Items() | Table():
            return value
        case Enum():
            return Leaf(key_of(value))
        case None | bool():
            return Leaf(value)
        case str():
            return Leaf(str.__str__(value))
        case int() if value.bit_length() > 13_000:  # Python refuses to write 4,300 digits
            return Leaf(f"<an integer of {value.bit_length():,} bits>")
        case int():
            return Leaf(int(value))
        case float() if not math.isfinite(value):
            return Leaf(None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
        case float():
            return Leaf(float(value))
    if picture := find_picture(value):
        return Leaf(f"<a picture: {picture}>")
    match value:
        case bytes() | bytearray() | memoryview():
            return Leaf(f"<{plural(memoryview(value).nbytes, 'byte')}>")
        case date() | time():
            return Leaf(value.isoformat())
        case tuple() if hasattr(value, "_fields"):
            return Entries(zip(value._fields, value, strict=True), len(value))
        case SimpleNamespace():
            return Entries(iter(vars(value).items()), len(vars(value)))
        case BaseException():
            return Leaf(f"{kind.__name__}: {own_text(value)}".removesuffix(": "))
        case Mapping():
            return Entries(iter(value.items()), len(value))
        case Sequence() | Set() | ValuesView():
            return Items(iter(value), len(value), is_set=isinstance(value, set | frozenset))
    if hasattr(kind, "__axe_text__"):  # an object of axe_nb that stands for a text
        return Leaf(value.__axe_text__())
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return Entries(((name, getattr(value, name)) for name in names), len(names))
    if hasattr(kind, "is_nan") and value.is_nan():  # a Decimal
        return Leaf(None)
    return Leaf(own_text(value))


def _open_of_library(value: Any) -> Opened | None:
    """Wraps a value from numpy, pandas, polars or pydantic; returns None for other values."""
    kinds = {f"{str(k.__module__).partition('.')[0]}.{k.__name__}" for k in type(value).__mro__}
    if kinds & {"pandas.NaTType", "pandas.NAType", "numpy.MaskedConstant"}:
        return Leaf(None)
    if "pandas.DataFrame" in kinds:
        return _open_frame(value, value.columns)
    if "pandas.Series" in kinds:
        return _open_frame(value.to_frame(), ["value" if value.name is None else value.name])
    if kinds & {"pandas.Index", "pandas.ExtensionArray"}:
        return Items(iter(value), len(value))
    if "polars.LazyFrame" in kinds:
        return Leaf(describe(value))
    if kinds & {"polars.DataFrame", "polars.Series"}:
        is_frame = "polars.DataFrame" in kinds
        frame = value if is_frame else value.to_frame()

        def read_columns(start: int, stop: int, width: int) -> Iterator[Sequence[Any]]:
            columns = frame.slice(start, stop - start).get_columns()[:width]
            return (column.to_list() for column in columns)

        labels = value.columns if is_frame else [value.name or "value"]
        return Table(labels, frame.height, read_columns)
    if (serializer := getattr(type(value), "__pydantic_serializer__", None)) is not None:
        try:
            return open_value(serializer.to_python(value, by_alias=True, warnings=False))
        except Exception:  # a model that contains itself, or a faulty serializer
            return open_value(dict(vars(value)))
    if "numpy.ndarray" in kinds:
        if value.ndim == 0:
            return open_value(value[()])
        is_masked = hasattr(value, "mask")
        items = value if is_masked else sys.modules["numpy"].asarray(value)
        is_plain = is_masked or items.dtype.kind in "biu" or items.dtype == "f8"

        def read_items() -> Iterator[Any]:
            for start in range(0, len(items), BLOCK):
                block = items[start : start + BLOCK]
                yield from block.tolist() if is_plain and items.ndim == 1 else block

        return Items(read_items(), len(items))
    if "numpy.generic" not in kinds or isinstance(value, str | bytes):
        return None
    match value.dtype.kind:
        case "m" | "M":
            return Leaf(None if str(value) == "NaT" else str(value))
        case "f":  # without digits that a 32-bit float lacks
            return open_value(float(str(value)))
        case "V" if names := value.dtype.names:
            return Entries(((name, value[name]) for name in names), len(names))
    return open_value(value.item())


def _open_frame(frame: Any, columns: Iterable[Any]) -> Table:
    """Opens a pandas DataFrame as a table, leaving out an unnamed default RangeIndex."""
    index = frame.index
    counts = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    levels = 0 if counts and index.name is None else index.nlevels
    named = [name or "index" if levels == 1 else name or f"level {at}"
             for at, name in enumerate(index.names)]  # fmt: skip

    def read(start: int, stop: int, width: int) -> Iterator[Sequence[Any]]:
        block = frame.iloc[start:stop]
        for at in range(min(levels, width)):
            yield list(block.index.get_level_values(at))
        for at in range(width - levels):
            column = block.iloc[:, at]
            yield list(column.to_numpy() if str(column.dtype) == "float32" else column)

    return Table([_label(label) for label in (*named[:levels], *columns)], len(frame), read)


def _label(label: Any) -> str:
    if isinstance(label, tuple):
        return " / ".join(part for part in map(_label, label) if part)
    return own_text(label)


class NoText(Exception):
    """Raised if a value cannot be written as text; the message says why: `is a generator, …`."""


def encode(data: object, indent: int | None = None) -> str:
    return json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False)


def to_data(value: object, limit: int) -> Any:
    """Converts any value to JSON data that takes up at most `limit` (≥ 1000) bytes on one line."""
    room = limit
    while True:
        data = _Conversion(room).convert(value, ())
        size = count_bytes(encode(data))
        if size <= limit or not room:
            return data
        room = max(0, room * limit // size - NOTE)  # notes and escapes take room, too


class _Conversion:
    """A conversion to JSON data with a limited number of characters."""

    def __init__(self, room: int) -> None:
        self._left = room

    def convert(self, value: Any, around: tuple[int, ...]) -> Any:
        """Converts a value; `around` holds the ids of the enclosing lists and objects."""
        try:
            opened = open_value(value)
        except Exception:  # raised by the value's own methods
            opened = Leaf(describe(value))
        if isinstance(opened, Leaf):
            return self._convert_leaf(opened.value)
        if id(value) in around:
            return self._convert_leaf(f"… contains itself ({type_name(value)})")
        if len(around) >= MAX_DEPTH:
            return self._convert_leaf(f"… nested deeper than {MAX_DEPTH} levels: left out")
        if isinstance(opened, Table):
            opened = opened.as_data()
        self._left -= 2
        inner = (*around, id(value))
        if isinstance(opened, Entries):
            return self._convert_entries(opened, inner)
        values = opened.values
        if opened.is_set:  # sorted by value, as the order differs between processes
            members = list(values)
            kinds = {type(member) for member in members}
            is_plain = kinds <= {str} or kinds <= {int, bool}
            values = iter(sorted(members) if is_plain else sorted(members, key=_order))
        data: list[Any] = []
        while self._left > 0 and (item := next(values, _END)) is not _END:
            self._left -= 2 if data else 0
            data.append(self.convert(item, inner))
        if missing := opened.size - len(data):
            data.append(f"… {missing:,} of {opened.size:,} items left out")
        return data

    def _convert_entries(self, entries: Entries, inner: tuple[int, ...]) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        while self._left > 0 and (pair := next(entries.pairs, _END)) is not _END:
            name = _make_name(pair[0], converted)
            self._left -= len(name) + (6 if converted else 4)
            converted[name] = self.convert(pair[1], inner)
        if missing := entries.size - len(converted):
            pairs = islice(entries.pairs, 3)
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


def _order(member: Any) -> str:
    return encode([to_data(member, LONGEST_CELL), type_name(member)])


def _make_name(key: Any, others: dict[str, Any]) -> str:
    data = key if isinstance(key, str) else to_data(key, LONGEST_CELL)
    name = data if isinstance(data, str) else encode(data)
    while name in others:
        name += f" ({type_name(key)})"  # different keys may have the same text
    return name


def write_text(value: object, limit: int = LONGEST_DATA, indent: int | None = None) -> str:
    """Formats a value for a prompt: a single value as text, a table as CSV, other data as JSON.

    Tables and other data are cut to `limit` bytes; text is not cut. Raises NoText if the value is
    bytes, a picture or an object without data. An error raised by the value's methods is passed on.
    """
    _refuse_bytes(value)
    opened = Leaf(describe(value)) if issubclass(type(value), _NO_DATA) else open_value(value)
    if not isinstance(opened, Leaf):
        return _write_data(value, opened, limit, indent)
    if opened.value == describe(value) and not isinstance(value, str):
        raise NoText(f"is of type {type_name(value)}, which cannot be converted to text")
    is_text = value is None or isinstance(opened.value, str | bool)
    return str(opened.value) if is_text else encode(opened.value)


def write_json(value: object, limit: int = LONGEST_DATA) -> str:
    """Serializes a tool's result: a table as CSV, a run as its answer, anything else as JSON."""
    _refuse_bytes(value)
    opened = open_value(value)
    if not isinstance(opened, Leaf):
        return _write_data(value, opened, limit, None)
    if hasattr(type(value), "__axe_text__"):
        return str(opened.value)
    return encode(to_data(opened.value, limit))


def _refuse_bytes(value: object) -> None:
    if picture := find_picture(value):
        raise NoText(f"is a picture ({picture}), which cannot be sent as text")
    if isinstance(value, bytes | bytearray | memoryview):
        raise NoText(
            f"is of type {type(value).__name__}, which cannot be converted to text: decode it"
        )


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
    """Formats a table as CSV; a table of more than `limit` bytes is truncated, with a note."""
    width = len(table.labels)
    if not width:
        return f"(an empty table: {plural(table.height, 'row')}, no columns)"
    lines, is_whole = _write_lines(table, width, limit, 2 * limit)  # a longer cell does not fit
    if is_whole:
        return "\n".join(lines)
    first = zip(table.labels, next(table.rows(width), table.labels), strict=True)
    cells = (f"{label}{_write_cell(value, LONGEST_CELL)}," for label, value in first)
    width = max(1, sum(size <= limit // 8 for size in accumulate(map(count_bytes, cells))))
    lines, _ = _write_lines(table, width, limit - NOTE, LONGEST_CELL)
    missing = []
    if rows := table.height - max(0, len(lines) - 1):
        missing.append(f"{rows:,} of {table.height:,} rows")
    if more := len(table.labels) - width:
        names = [one_line(name, 20) for name in table.labels[width : width + 2]]
        shown = ", ".join(names) + (f" and {more - len(names):,} more" if more > 2 else "")
        missing.append(f"{more:,} of {len(table.labels):,} columns ({shown})")
    return "\n".join([*lines, f"… {' and '.join(missing) or 'long texts'} left out"])


def _write_lines(table: Table, width: int, limit: int, cell: int) -> tuple[list[str], bool]:
    """Returns the CSV lines of a table that fit in `limit` bytes, and whether all lines fit."""
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


class Written(NamedTuple):
    text: str
    is_block: bool
    """True for multi-line data, which is placed on lines of its own."""


def write_value(value: object) -> Written:
    """Formats a value for insertion into a text. Raises the same errors as `write_text`."""
    text = format_value(value)
    is_text = isinstance(value, str) or hasattr(type(value), "__axe_text__")
    return Written(text, is_block="\n" in text and not is_text)


def format_value(value: object) -> str:
    """Formats a value for a model, cutting long text. Raises the same errors as `write_text`."""
    text = value if isinstance(value, str) else write_text(value, indent=2)
    return cut_chars(text, LONGEST_VALUE, "\n[{more} more characters left out]")


def append_value(pieces: list[str], before: str, value: Written, text: str, end: int) -> None:
    """Appends `before` and a value to `pieces`; `text[end:]` is the text that follows the value."""
    if value.is_block:  # begins a line, unless the last line is blank
        before = before.rstrip(" \t")
        last = before or next((piece for piece in reversed(pieces) if piece), "\n")
        before += "" if last.endswith("\n") else "\n"
    pieces += [before, value.text]
    if value.is_block and text[end:].partition("\n")[0].strip():
        pieces.append("\n")
