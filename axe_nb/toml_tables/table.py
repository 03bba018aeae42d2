"""Converts TOML tables to dataclasses and back; errors name the key and the line.

Source: D-27, D-36; B-1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.text import quote, suggestion
from axe_nb.toml_tables.lines import line_of


class WrongValue(ConfigError):
    """A key has an invalid value, from a file or from code."""

    def __init__(self, key: tuple[str, ...], problem: str, *, hint: str = "") -> None:
        super().__init__(f"{'.'.join(key)} {problem}", hint=hint)
        self.key = key


@dataclass(frozen=True, slots=True)
class Source:
    """The text that a table comes from, used to locate errors."""

    text: str
    file: str = ""
    """Name of its file in messages; empty if there is none."""

    def line(self, key: tuple[str, ...]) -> int | None:
        """Returns the line of the key, from 1; None if it is not in the text."""
        return line_of(self.text, key) if key else None

    def place(self, key: tuple[str, ...] = ()) -> str:
        """Returns the place for an error message; empty if unknown."""
        line = self.line(key)
        at = [f"in {self.file}" if self.file else "", f"line {line}" if line else ""]
        return ", ".join(filter(None, at))


def read(
    cls: type, table: Mapping[str, Any], source: Source, at: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Returns the table's values by field, with nested tables built; types are not checked.

    Raises:
        ConfigError: a key that the dataclass does not have.
        WrongValue: a value that must be a table is not one.
    """
    if not isinstance(table, dict):
        raise WrongValue(at, "must be a table")
    keys = {field.name: field for field in toml_fields(cls)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in keys:
            raise _make_unknown_key_error((*at, key), list(keys), source)
        nested = nested_table(keys[key])
        if nested:
            value = nested(**read(nested, value, source, (*at, key)))
        values[key] = value
    return values


def _make_unknown_key_error(key: tuple[str, ...], known: list[str], source: Source) -> ConfigError:
    line = source.line(key)
    error = ConfigError(
        f"unknown key {quote('.'.join(key))}" + (f" (line {line})" if line else ""),
        hint=suggestion(key[-1], known) or f"known keys: {', '.join(known)}",
    )
    error.place = f"in {source.file}" if source.file else ""
    return error


def check_types(value: Any, at: tuple[str, ...] = ()) -> None:
    """Rejects a dataclass with a value that does not match its annotation.

    Raises:
        WrongValue: names the full key.
    """
    cls: Any = type(value)
    for name, default, called, fits in _list_checks(cls):
        own = getattr(value, name)
        if own is default:
            continue
        if not fits(own):
            raise WrongValue((*at, name), f"must be {called}")
        if dataclasses.is_dataclass(own):
            check_types(own, (*at, name))


def make_table(value: Any) -> dict[str, Any]:
    """Returns the TOML table of a dataclass: the fields that differ from their default."""
    table: dict[str, Any] = {}
    for field in toml_fields(type(value)):
        own = getattr(value, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if own == default:
            continue
        if dataclasses.is_dataclass(own):
            table[field.name] = make_table(own)
        elif isinstance(own, Mapping):
            table[field.name] = dict(own)
        else:
            table[field.name] = list(own) if isinstance(own, tuple) else own
    return table


def toml_fields(cls: type) -> list[dataclasses.Field[Any]]:
    """Returns the fields that are keys of the TOML table, in the order of the class."""
    return [field for field in dataclasses.fields(cls) if field.metadata.get("toml", True)]


def nested_table(field: dataclasses.Field[Any]) -> type[Any] | None:
    """Returns the dataclass of a field that is a nested table; None for all others."""
    return type(field.default) if dataclasses.is_dataclass(field.default) else None


def type_name(field: dataclasses.Field[Any]) -> str:
    """Returns the type of the field in words."""
    return "a table" if nested_table(field) else _KINDS[str(field.type)][0]


_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a string", lambda v: isinstance(v, str)),
    "Mode": ("a string", lambda v: isinstance(v, str)),
    "Ask": ("a string", lambda v: isinstance(v, str)),
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "int": ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "float": (
        "a number",
        lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v),
    ),
    "tuple[str, ...]": (
        "a list of strings",
        lambda v: isinstance(v, (list, tuple)) and all(isinstance(e, str) for e in v),
    ),
    "Mapping[str, Any]": (
        "a table",
        lambda v: isinstance(v, Mapping) and all(isinstance(e, str) for e in v),
    ),
    "Mapping[str, str]": (
        "a table of strings",
        lambda v: isinstance(v, Mapping) and all(isinstance(e, str) for p in v.items() for e in p),
    ),
}
"""Annotation of a field → name of its type for messages, and the check of a value."""


@cache
def _list_checks(cls: Any) -> tuple[tuple[str, Any, str, Callable[[Any], bool]], ...]:
    """Returns (field, default, name of its type, check of a value) for each field."""
    return tuple(_make_check(field) for field in toml_fields(cls))


def _make_check(field: dataclasses.Field[Any]) -> tuple[str, Any, str, Callable[[Any], bool]]:
    nested = nested_table(field)
    if nested is None:
        return field.name, field.default, *_KINDS[str(field.type)]
    called = f"a {nested.__name__} of {nested.__module__}"
    return field.name, field.default, called, lambda v: isinstance(v, nested)
