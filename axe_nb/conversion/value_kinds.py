"""Classification of any value as a single value, list, object or table; contents are read later.

No library is imported: a value of one exists only if the user has imported it.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import sys
from collections import UserString
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from datetime import date, time
from enum import Enum
from types import NoneType, SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from axe_nb.pictures.picture import METHODS, find_figure, find_format
from axe_nb.text import describe, own_text, plural, remove_addresses, type_name

MOST_BITS = 13_000
"""Maximum bits of an integer that is written; Python refuses one of 4,300 digits."""

BLOCK = 4096
"""Maximum number of values that are read at once from a table or an array."""


class Leaf(NamedTuple):
    """A single value of a JSON type."""

    value: str | int | float | bool | None


class Items(NamedTuple):
    """A list, read lazily: only as much as fits."""

    values: Iterator[Any]
    size: int
    is_set: bool = False
    """True if the order of the values has no meaning, and may differ in another process."""


class Entries(NamedTuple):
    """An object with keys of any type, read lazily: only as much as fits."""

    pairs: Iterator[tuple[Any, Any]]
    size: int


class Table(NamedTuple):
    """Rows and columns, read lazily: only as much as fits."""

    labels: Sequence[str]
    height: int
    read: Callable[[int, int, int], Iterable[Sequence[Any]]]
    """(first row, row after the last, number of columns) -> each column's values."""

    def rows(self, width: int) -> Iterator[tuple[Any, ...]]:
        """The rows, with their first `width` columns; read in blocks."""
        block = max(1, BLOCK // max(1, width))
        for start in range(0, self.height, block):
            stop = min(start + block, self.height)
            yield from zip(*self.read(start, stop, width), strict=True)


Opened: TypeAlias = Leaf | Items | Entries | Table


def find_picture(value: object) -> str:
    """Returns the kind of picture that a value is, as in `PNG` or `Figure`; empty for all else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return find_format(bytes(value[:16]))
    kind = type(value)
    shows_itself = any(callable(getattr(kind, name, None)) for name in METHODS)
    return kind.__name__ if shows_itself or find_figure(value) is not None else ""


def key_of(member: Enum) -> str:
    """Returns the key of an enum member: its value if all values are strings, else its name."""
    by_value = all(isinstance(other.value, str) for other in type(member))
    return str(member.value if by_value else member.name)


def open_value(value: Any) -> Opened:
    """Returns the parts of a value. Raises whatever the value's own methods raise."""
    if isinstance(value, Items | Table):
        return value
    is_plain = type(value) in (str, int, float, bool, NoneType, dict, list, tuple)
    if not is_plain and (opened := _open_of_library(value)) is not None:
        return opened
    match value:
        case Enum():
            return Leaf(key_of(value))
        case None | bool():
            return Leaf(value)
        case str():
            return Leaf(str.__str__(value))
        case int() if value.bit_length() > MOST_BITS:
            return Leaf(f"<an integer of {value.bit_length():,} bits>")
        case int():
            return Leaf(int(value))
        case float() if not math.isfinite(value):
            return Leaf(None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
        case float():
            return Leaf(float(value))
    return _open_object(value)


def _open_object(value: Any) -> Opened:
    if picture := find_picture(value):
        return Leaf(f"<a picture: {picture}>")
    match value:
        case bytes() | bytearray() | memoryview():
            return Leaf(f"<{plural(memoryview(value).nbytes, 'byte')}>")
        case date() | time():
            return Leaf(value.isoformat())
        case tuple() if hasattr(value, "_fields"):
            return Entries(zip(value._fields, value, strict=True), len(value))
        case UserString():
            return Leaf(own_text(value))
        case SimpleNamespace():
            return Entries(iter(vars(value).items()), len(vars(value)))
        case BaseException():
            text = remove_addresses(str(value), value)
            return Leaf(f"{type_name(value)}: {text}" if text else type_name(value))
        case Mapping():
            return Entries(iter(value.items()), len(value))
        case Sequence() | Set() | ValuesView():
            return Items(iter(value), len(value), is_set=isinstance(value, set | frozenset))
        case numbers.Integral():
            return open_value(int(value))
        case numbers.Real():
            return open_value(float(value))
    kind = type(value)
    if hasattr(kind, "__axe_text__"):  # one of ours that stands for a text
        return Leaf(value.__axe_text__())
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return Entries(((name, getattr(value, name)) for name in names), len(names))
    if hasattr(kind, "is_nan") and value.is_nan():  # of a Decimal
        return Leaf(None)
    return Leaf(own_text(value))


def _open_of_library(value: Any) -> Opened | None:
    """Opens a value of numpy, pandas, polars or pydantic; returns None for all others."""
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
    if "pydantic.BaseModel" in kinds:
        try:
            return open_value(value.model_dump(warnings=False))
        except Exception:  # a model within itself, or a serializer of the user's
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
        case "f":  # without the digits that a number of 32 bits only seems to have in 64
            return open_value(float(str(value)))
        case "V" if names := value.dtype.names:
            return Entries(((name, value[name]) for name in names), len(names))
    return open_value(value.item())


def _open_frame(frame: Any, columns: Iterable[Any]) -> Table:
    """Opens a pandas frame; an index that only counts the rows is left out."""
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
