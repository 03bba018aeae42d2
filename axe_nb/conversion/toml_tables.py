"""Converts TOML tables to dataclasses and back; errors name the key, the line and the next step.

Source: D-27, D-36, B-1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from axe_nb.conversion.own_text import MAX_SHOWN
from axe_nb.conversion.toml_text import line_of
from axe_nb.errors import ConfigError
from axe_nb.text import list_choices, one_line, quote, suggestion

T = TypeVar("T")


class WrongValue(ConfigError):
    """A key has an invalid value, from a file or from code."""

    def __init__(self, key: tuple[str, ...], problem: str, *, hint: str = "") -> None:
        super().__init__(f"{'.'.join(key)} {problem}", hint=hint)
        self.key, self.problem = key, problem


def check_choice(key: tuple[str, ...], value: str, choices: Sequence[str]) -> None:
    """Raises WrongValue for a word that is none of the choices."""
    if value not in choices:
        word = quote(one_line(value, MAX_SHOWN))
        raise WrongValue(key, f"must be {list_choices(choices)}, not {word}")


@dataclass(frozen=True, slots=True)
class Source:
    """The text that a table comes from, used to locate errors."""

    text: str
    file: str = ""
    """Name of its file in messages; empty if there is none."""

    def line(self, key: tuple[str, ...], entry: str = "") -> int | None:
        """Returns the line of the key, or of an entry of its list, from 1; None if not found."""
        return line_of(self.text, key, entry) if key else None

    def place(self, key: tuple[str, ...] = (), entry: str = "") -> str:
        """Returns the place for an error message; empty if unknown."""
        line = self.line(key, entry)
        at = [f"in {self.file}" if self.file else "", f"line {line}" if line else ""]
        return ", ".join(filter(None, at))


def advise_key(key: str, cls: type, root: type | None = None) -> str:
    """Returns the next step for a key that the table of `cls` does not have.

    `root` is the class of the whole file, where the key may have its place. A dataclass may give
    the step for some keys itself, in `advice`: key → the next step.
    """
    if step := str(getattr(cls, "advice", {}).get(key, "")):
        return step
    known = [field.name for field in toml_fields(cls)]
    holding = [name for name in known if key in name.split("_")]  # system_prompt for prompt
    near = suggestion(key, known) or (holding and suggestion(holding[0], holding[:1]))
    if near:
        return near
    found = _find_home(key, root or cls)
    if found is None:
        return f"known keys: {', '.join(known)}"
    return f"put it under [{'.'.join(found)}]" if found else "put it above the first [table]"


def _find_home(key: str, cls: type, at: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Returns the table that has the key, from the root; None if no table has it."""
    fields = toml_fields(cls)
    if any(key == field.name for field in fields):
        return at
    for field in fields:
        nested, home = nested_table(field), (*at, field.name)
        if key in field.metadata.get("keys", ()):
            return home
        found = _find_home(key, nested, home) if nested else None
        if found is not None:
            return found
    return None


def build_nested(value: Any, at: tuple[str, ...] = ()) -> None:
    """Replaces dicts in the fields of a frozen dataclass that are nested tables.

    Raises ConfigError if a dict has an unknown key.
    """
    for field in toml_fields(type(value)):
        nested, own = nested_table(field), getattr(value, field.name)
        if nested and isinstance(own, Mapping):
            table = {str(key): one for key, one in own.items()}
            made = build(nested, table, Source(""), (*at, field.name))
            object.__setattr__(value, field.name, made)


def build(
    cls: type[T],
    table: Mapping[str, Any],
    source: Source,
    at: tuple[str, ...],
    root: type | None = None,
) -> T:
    """Returns the dataclass of a table; like `read`, but also checks the values."""
    values = read(cls, table, source, at, root)
    try:
        return cls(**values)
    except WrongValue as error:
        raise WrongValue((*at, *error.key), error.problem, hint=error.hint) from None


def read(
    cls: type,
    table: Mapping[str, Any],
    source: Source,
    at: tuple[str, ...] = (),
    root: type | None = None,
) -> dict[str, Any]:
    """Returns the table's values by field, with nested tables built; types are not checked.

    `at` is the key of the table, `root` the dataclass of the whole file (None = `cls`). Raises
    ConfigError for a key that the dataclass does not have, WrongValue for no table.
    """
    if not isinstance(table, dict):
        raise WrongValue(at, "must be a table", hint=f"write its keys under a line [{at[-1]}]")
    keys = {field.name: field for field in toml_fields(cls)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in keys:
            line, dotted = source.line((*at, key)), quote(".".join((*at, key)))
            unknown = f"unknown key {dotted}" + (f" (line {line})" if line else "")
            error = ConfigError(unknown, hint=advise_key(key, cls, root))
            error.place = f"in {source.file}" if source.file else ""
            raise error
        nested = nested_table(keys[key])
        if nested:
            value = build(nested, value, source, (*at, key), root or cls)
        values[key] = value
    return values


def check_types(value: Any) -> None:
    """Rejects a dataclass with a value that does not match its annotation.

    For the `__post_init__` of the dataclass: nested tables were checked when they were made.
    """
    for field in toml_fields(type(value)):
        own = getattr(value, field.name)
        if own is field.default:
            continue
        if nested := nested_table(field):
            called, is_right = f"a dict or an axe_nb.{nested.__name__}", isinstance(own, nested)
        else:
            called, fits = _KINDS[str(field.type)]
            is_right = fits(own)
        if not is_right:
            raise WrongValue((field.name,), f"must be {called}")


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


def is_number(value: object) -> bool:
    """True for a finite number."""
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]  # a number


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """True for an integer within bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and _are_texts(value)


def _is_table(value: object) -> bool:
    return isinstance(value, (dict, Mapping)) and _are_texts(value)


_TEXT = ("a string", lambda v: isinstance(v, str))

_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("str", "Mode", "Ask"), _TEXT),
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "int": ("a whole number", is_whole),
    "int | None": ("a whole number", lambda v: v is None or is_whole(v)),
    "float": ("a number", is_number),
    "tuple[str, ...]": ("a list of strings", _is_texts),
    "bool | tuple[str, ...]": (
        "true, false or a list of strings",
        lambda v: isinstance(v, bool) or _is_texts(v),
    ),
    "tuple[Any, ...] | Mapping[str, Any]": (
        "a list of strings, or tables",
        lambda v: isinstance(v, (list, tuple, Mapping)),
    ),
    "Mapping[str, Any]": ("a table", _is_table),
    "Mapping[str, str]": ("a table of strings", lambda v: _is_table(v) and _are_texts(v.values())),
}
"""Annotation of a field → name of its type for messages, and the check of a value."""
