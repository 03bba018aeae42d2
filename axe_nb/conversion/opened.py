"""Opens any value: finds whether it is a single one, a list, an object or a table. Reads no more.

The methods of built-in types are called unbound, so that no subclass can change them.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections import OrderedDict, UserString, deque
from collections.abc import Callable, Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time
from enum import Enum
from types import NoneType, SimpleNamespace
from typing import Any

from axe_nb.conversion.libraries import get_attributes, open_foreign
from axe_nb.conversion.own_text import describe, own_text, remove_addresses, type_name
from axe_nb.conversion.parts import Entries, Instead, Items, Leaf, Opened, Table
from axe_nb.pictures.found import METHODS, find_figure
from axe_nb.pictures.picture import find_format
from axe_nb.text import plural

MOST_BITS = 13_000
"""Size of the largest integer that is written; Python refuses one of 4,300 digits."""

MOST_STEPS = 10
"""Values that stand for one another, before the last is taken for one without data."""

SIMPLE = (str, int, float, bool, NoneType)
"""Types of JSON's single values."""


def find_picture(value: object) -> str:
    """Returns the kind of picture that a value is, as in `PNG` or `Figure`; empty for all else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return find_format(bytes(value[:16]))
    kind = type(value)
    shows_itself = any(callable(getattr(kind, name, None)) for name in METHODS)
    return kind.__name__ if shows_itself or find_figure(value) is not None else ""


def open_value(value: Any) -> Leaf | Items | Entries | Table:
    """Returns the parts of a value.

    Raises:
        Exception: whatever the value's own methods raise.
    """
    opened = value if isinstance(value, Items | Table) else _open(value)
    for _ in range(MOST_STEPS):
        if not isinstance(opened, Instead):
            return opened
        opened = _open(opened.value)
    return Leaf(describe(value))  # one that stands for itself


def open_safely(value: Any) -> Leaf | Items | Entries | Table:
    """Returns the parts of a value, or its type's name if its own methods fail."""
    try:
        return open_value(value)
    except Exception:
        return Leaf(describe(value))


def key_of(member: Enum) -> str:
    """Returns the key of an enum member: its value if all values are strings, else its name."""
    by_value = all(isinstance(other.value, str) for other in type(member))
    return str(member.value if by_value else member.name)


def _open(value: Any) -> Opened:
    kind = type(value)
    if kind in SIMPLE:
        return _open_simple(value)
    if (foreign := open_foreign(value)) is not None:
        return foreign
    if issubclass(kind, Enum):
        return Leaf(key_of(value))
    for base in (str, int, float):
        if issubclass(kind, base):
            return _open_simple(_EXACT[base](value))
    if picture := find_picture(value):
        return Leaf(f"<a picture: {picture}>")
    if issubclass(kind, bytes | bytearray | memoryview):
        size = value.nbytes if kind is memoryview else kind.__len__(value)
        return Leaf(f"<{plural(size, 'byte')}>")
    for base, open_ in _OPENERS.items():
        if issubclass(kind, base):
            return open_(value)
    if hasattr(kind, "__axe_text__"):  # one of ours that stands for a text
        return Leaf(value.__axe_text__())
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return Entries(get_attributes(value, names), len(names))
    return Leaf(own_text(value))


def _open_simple(value: Any) -> Leaf:
    if type(value) is float and not math.isfinite(value):
        return Leaf(None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    if type(value) is int and value.bit_length() > MOST_BITS:
        return Leaf(f"<an integer of {value.bit_length():,} bits>")
    return Leaf(value)


def _open_tuple(value: tuple[Any, ...]) -> Items | Entries:
    names = getattr(type(value), "_fields", None)
    size = tuple.__len__(value)
    if isinstance(names, tuple) and len(names) == size:
        return Entries(zip(names, tuple.__iter__(value), strict=True), size)
    return Items(tuple.__iter__(value), size)


def _open_dict(value: dict[Any, Any]) -> Entries:
    own = OrderedDict if isinstance(value, OrderedDict) else dict
    return Entries(iter(own.items(value)), dict.__len__(value))


def _open_set(value: set[Any] | frozenset[Any]) -> Items:
    base: type[Any] = set if isinstance(value, set) else frozenset
    return Items(base.__iter__(value), base.__len__(value), is_set=True)


def _open_exception(value: BaseException) -> Leaf:
    text = remove_addresses(str(value), value)
    return Leaf(f"{type_name(value)}: {text}" if text else type_name(value))


_EXACT: Mapping[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__index__,
    float: float.__float__,
}
"""Type → method that makes an exact value of a subclass's."""

_OPENERS: Mapping[Any, Callable[[Any], Opened]] = {
    datetime: lambda value: Leaf(datetime.isoformat(value)),
    date: lambda value: Leaf(date.isoformat(value)),
    time: lambda value: Leaf(time.isoformat(value)),
    numbers.Real: lambda value: Instead(
        int(value) if isinstance(value, numbers.Integral) else float(value)
    ),
    dict: _open_dict,
    list: lambda value: Items(list.__iter__(value), list.__len__(value)),
    tuple: _open_tuple,
    set: _open_set,
    frozenset: _open_set,
    deque: lambda value: Items(deque.__iter__(value), deque.__len__(value)),
    UserString: lambda value: Leaf(own_text(value)),
    SimpleNamespace: lambda value: _open_dict(vars(value)),
    BaseException: _open_exception,
    Mapping: lambda value: Entries(iter(value.items()), len(value)),
    Sequence: lambda value: Items(iter(value), len(value)),
    Set: lambda value: Items(iter(value), len(value)),
    ValuesView: lambda value: Items(iter(value), len(value)),
}
"""Type → function that opens its values; subclasses stand before what they are also."""
