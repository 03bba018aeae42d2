"""Conversion of numpy, pandas and similar values to plain Python data, and of rows to frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.text import clean


def to_plain(value: Any) -> Any:
    """Converts numbers and arrays of libraries in nested data to JSON types, and nothing else."""
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if not callable(getattr(type(value), "tolist", None)):
        return value
    if getattr(value, "ndim", 0):
        return [to_plain(item) for item in value]
    if isinstance(value, Real) and not isinstance(value, Integral):
        return float(str(value))  # 32 bits have fewer digits than they seem to have in 64
    return value.tolist()


def as_number(value: object) -> object:
    """Converts a number of any library to int or float; leaves other values, bools too, alone."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def as_count(value: object) -> int | None:
    """Returns a value as a positive integer; None if it is not one."""
    number = as_number(value)
    is_count = isinstance(number, int) and not isinstance(number, bool) and number > 0
    return number if is_count else None  # type: ignore[return-value]


def make_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """Returns rows (column → value) as a pandas DataFrame, with texts as a notebook shows them.

    Raises ConfigError: pandas is not installed.
    """
    try:
        from pandas import DataFrame  # type: ignore[import-untyped]
    except ImportError:
        hint = "install it: pip install pandas"
        raise ConfigError("to_frame needs pandas", hint=hint) from None
    # pandas refuses halves of characters
    shown = [
        {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}
        for row in rows
    ]
    return DataFrame(shown, columns=columns)
