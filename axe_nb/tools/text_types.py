"""Types that are texts in JSON: dates, times, exact numbers, UUIDs.

Source: product.md "Python" (`@axe_nb.tool`, `output=`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from axe_nb.tools.shapes import Mistakes, Shape, note_wrong

EXACT = r"^-?[0-9]+(\.[0-9]+)?$"
"""Pattern of a number that is a text, which keeps its last zeros."""


def _make_text_type(wanted: str, schema: Mapping[str, Any], make: Callable[[Any], Any]) -> Shape:
    """A type whose values `make` reads from JSON values; it raises an exception for others."""

    def read(value: Any, at: str, mistakes: Mistakes, kindly: bool) -> Any:
        try:
            return make(value)
        except (TypeError, ValueError, ArithmeticError):
            return note_wrong(mistakes, at, wanted, value)

    return Shape(schema, wanted, read)


def _make_decimal(value: Any) -> Decimal:
    is_text = isinstance(value, str)
    number = Decimal(value if is_text else repr(value))  # the digits that were sent, 0.1 too
    if not number.is_finite():
        raise ValueError
    return number


def _make_uuid(value: Any) -> UUID:
    return UUID(value if isinstance(value, str) else "")


TEXT_TYPES: Mapping[object, Shape] = {
    date: _make_text_type(
        "a date (as in 2026-11-23)", {"type": "string", "format": "date"}, date.fromisoformat
    ),
    datetime: _make_text_type(
        "a date and time (as in 2026-11-23T09:30:00Z)",
        {"type": "string", "format": "date-time"},
        datetime.fromisoformat,
    ),
    time: _make_text_type(
        "a time (as in 09:30:00)", {"type": "string", "format": "time"}, time.fromisoformat
    ),
    Decimal: _make_text_type(
        "a number",
        {"anyOf": [{"type": "string", "pattern": EXACT}, {"type": "number"}]},
        _make_decimal,
    ),
    UUID: _make_text_type("a UUID", {"type": "string", "format": "uuid"}, _make_uuid),
}
"""Type → its shape."""
