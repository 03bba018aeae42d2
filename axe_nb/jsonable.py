"""Conversion of Python values to JSON, for tool results that are not text.

Source: product.md "Python" (`@axe_nb.tool`); `shapes` reads the same forms back.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from enum import Enum
from typing import Any

from axe_nb.messages import dump


def jsonable(value: object) -> Any:
    """Converts a value to JSON types; values without a JSON form become their text."""
    match value:
        case Enum():
            return key_of(value)
        case None | bool() | str():
            return value
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
        case Mapping():
            return {str(jsonable(key)): jsonable(item) for key, item in value.items()}
        case list() | tuple():
            return [jsonable(item) for item in value]
        case set() | frozenset():  # in an order that is the same in every process
            return sorted((jsonable(item) for item in value), key=dump)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: jsonable(getattr(value, name)) for name in names}
    return str(value)


def copy_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copies JSON values deeply without recursion."""
    copy = dict(arguments)
    open_ends: list[dict[str, Any] | list[Any]] = [copy]
    while open_ends:
        holder: Any = open_ends.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, dict | list):
                holder[key] = item.copy()
                open_ends.append(holder[key])
    return copy


def key_of(member: Enum) -> str:
    """Returns the key of an enum member: its value if all values are strings, else its name."""
    by_value = all(isinstance(other.value, str) for other in type(member))
    return str(member.value) if by_value else member.name
