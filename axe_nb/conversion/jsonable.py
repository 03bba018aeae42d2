"""Conversion of Python, numpy and pandas values to JSON data, without a size limit.

`value_text` converts values to text for a model. Source: D-61.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from numbers import Integral, Real
from typing import Any

from axe_nb.conversion.value_text import Entries, Items, Leaf, Table, key_of, open_value
from axe_nb.errors import ConfigError
from axe_nb.messages import dump
from axe_nb.text import clean


def jsonable(value: object) -> Any:
    """Converts a value to JSON types, keeping NaN; a value without a JSON form becomes a string."""
    match value:
        case Enum():
            return key_of(value)
        case None | bool() | str():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value)
    opened = open_value(value)
    match opened.as_data() if isinstance(opened, Table) else opened:
        case Leaf(single):
            return single
        case Items(values, _, is_set):
            made = [jsonable(item) for item in values]
            return sorted(made, key=dump) if is_set else made  # the order differs between processes
        case Entries(pairs, _):
            return {str(jsonable(key)): jsonable(item) for key, item in pairs}


def change_texts(value: Any, change: Callable[[str], str], *, also_keys: bool = False) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [change_texts(item, change, also_keys=also_keys) for item in value]
    if isinstance(value, dict):
        return {
            change(key) if also_keys else key: change_texts(item, change, also_keys=also_keys)
            for key, item in value.items()
        }
    return value


def to_plain(value: Any) -> Any:
    """Converts numbers and arrays from numpy and similar libraries in nested data to JSON types."""
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if not callable(getattr(type(value), "tolist", None)):
        return value
    if getattr(value, "ndim", 0):
        return [to_plain(item) for item in value]
    if isinstance(value, Real) and not isinstance(value, Integral):
        return float(str(value))  # a 32-bit float has fewer digits than its 64-bit value
    return value.tolist()


def as_number(value: object) -> object:
    """Converts any library's numbers to int or float; returns bools and other values unchanged."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def make_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """Makes a pandas DataFrame from rows. Raises ConfigError if pandas is not installed."""
    try:
        from pandas import DataFrame  # type: ignore[import-untyped]
    except ImportError:
        hint = "install it: pip install pandas"
        raise ConfigError("to_frame needs pandas", hint=hint) from None
    # pandas refuses lone surrogates
    shown = [
        {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}
        for row in rows
    ]
    return DataFrame(shown, columns=columns)
