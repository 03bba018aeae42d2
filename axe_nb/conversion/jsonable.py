"""Python values as JSON data without a size limit, for records of conversations.

`value_text` makes the text of a value for a model. Source: D-61.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, time
from enum import Enum
from typing import Any

from axe_nb.conversion.own_text import own_text
from axe_nb.conversion.value_kinds import key_of
from axe_nb.messages import dump


def jsonable(value: object) -> Any:
    """Converts a value to JSON types; values without a JSON form become their text.

    Numbers stay as they are, also NaN: a record loses nothing.
    """
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
        case date() | time():
            return value.isoformat()
        case tuple() if hasattr(value, "_fields"):
            return {name: jsonable(item) for name, item in zip(value._fields, value, strict=True)}
        case list() | tuple():
            return [jsonable(item) for item in value]
        case set() | frozenset():  # in an order that is the same in every process
            return sorted((jsonable(item) for item in value), key=dump)
    if (serializer := getattr(type(value), "__pydantic_serializer__", None)) is not None:
        with suppress(Exception):  # of the user's own serializers
            return jsonable(serializer.to_python(value, mode="json", by_alias=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: jsonable(getattr(value, name)) for name in names}
    return own_text(value)


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


def change_texts(value: Any, change: Callable[[str], str], *, also_keys: bool = False) -> Any:
    """Returns nested JSON data with all its texts changed."""
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
