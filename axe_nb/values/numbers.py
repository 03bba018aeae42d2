"""Numbers of other libraries, such as numpy's, as those of Python. Pure."""

from __future__ import annotations

from numbers import Integral, Real


def as_number(value: object) -> object:
    """Returns the int or float that a value is; anything else, bools included, as it is."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def as_count(value: object) -> int | None:
    """Returns the positive whole number that a value is; None if it is none."""
    number = as_number(value)
    is_count = isinstance(number, int) and not isinstance(number, bool) and number > 0
    return number if is_count else None  # type: ignore[return-value]
