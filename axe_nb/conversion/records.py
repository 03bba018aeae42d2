"""Lossless conversion of dataclasses to and from JSON data, by type hints, for all saved files.

A new field of a dataclass needs no change here. Pictures, and values that the exchanges of a run
share (system prompts, tools), are saved as parts: each part is written once and referred to by its
digest. Secrets are removed when data is written. Source: D-60, D-61.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from base64 import b64decode
from collections import abc
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast

from axe_nb.conversion.jsonable import jsonable
from axe_nb.errors import (
    AxeError,
    CassetteMiss,
    ConfigError,
    ExpectationError,
    ProviderError,
    RunError,
)
from axe_nb.pictures.picture import Picture
from axe_nb.secrets import Filter
from axe_nb.text import cut_chars, quote, shown_value

T = TypeVar("T")

PARTS = "by_digest"
"""Key of the parts in saved data; the value maps digests to parts."""

PART = "digest"
"""The only key of an object that refers to a part; the value is the part's digest."""

DIGITS = 20
"""Number of hexadecimal digits in a digest."""

ERRORS: Mapping[str, type[AxeError]] = {
    kind.__name__: kind
    for kind in (AxeError, CassetteMiss, ConfigError, ExpectationError, ProviderError, RunError)
}
"""Name → exception class that can be saved; subclasses are saved as their nearest base class."""


class Parts:
    """Shared values of one file; each is written once and referred to by its digest."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """Digest → value of every part that was written or read."""
        self._new: dict[str, Any] = {}
        """Parts added by the value that is being written."""
        self._written: dict[int, tuple[Any, str, Any]] = {}
        """Cache for recurring objects: `id()` → the object (kept alive so that its id stays valid),
        its digest and its JSON value."""
        self._made: dict[tuple[str, Any], Any] = {}
        """Digest and type → the object that was read."""

    def write(self, value: Any, make: Callable[[], Any]) -> Any:
        known = self._written.get(id(value))
        if known is None:
            made = make()
            text = json.dumps(made)
            if len(text) < 200:
                return made
            digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
            known = self._written[id(value)] = value, digest, made
        return self.refer(*known[1:])

    def refer(self, digest: str, value: Any) -> dict[str, str]:
        if digest not in self.values:
            self._new[digest] = value
        return {PART: digest}

    def read(self, value: Any, at: str, hint: Any) -> Any:
        """Converts JSON data, or the part that it refers to, to the type `hint`.

        Raises ConfigError, with the place `at`, if the data is invalid.
        """
        if not (isinstance(value, dict) and value.keys() == {PART}):
            return _read(hint, value, at, self)
        digest = value[PART]
        if not isinstance(digest, str) or digest not in self.values:
            raise ConfigError(f"a part is missing: {quote(cut_chars(at, 200, '…'))}")
        if (digest, hint) not in self._made:
            self._made[digest, hint] = self.read(self.values[digest], at, hint)
        return self._made[digest, hint]

    def take(self) -> dict[str, Any]:
        """Returns the parts added since the last call, and marks these parts as written."""
        new, self._new = self._new, {}
        self.values.update(new)
        return new

    def forget(self, data: Mapping[str, Any]) -> None:
        """Forgets the parts in data that could not be saved, so that these are written again."""
        for digest in data.get(PARTS, ()):
            del self.values[digest]


class Writer(NamedTuple):
    """Context of a conversion: the filter for secrets and the parts of the file."""

    clean: Filter | None
    parts: Parts

    def text(self, value: Any) -> str:
        text = value if type(value) is str else str(jsonable(value))
        return self.clean.text(text) if self.clean else text

    def any(self, value: Any) -> Any:
        return self.clean.json(jsonable(value)) if self.clean else jsonable(value)


class Field(NamedTuple):
    """A field of a dataclass, or an argument of an exception."""

    name: str
    hint: Any
    default: Any
    """Default value; `MISSING` if the field is required."""
    is_part: bool = False
    """True if a value of the field is saved as a part, unless the value is short."""


MISSING = dataclasses.MISSING


def to_json(value: Any, clean: Filter | None = None, parts: Parts | None = None) -> dict[str, Any]:
    """Converts a dataclass to JSON data, leaving out fields that equal their defaults.

    Only the user's own code can add values without a JSON form; these become lists or strings.
    `parts` holds the parts already in the file. Raises ConfigError if `value` is nested too deeply.
    """
    parts = Parts() if parts is None else parts
    try:
        data: dict[str, Any] = _write(type(value), value, Writer(clean, parts))
    except RecursionError:
        raise ConfigError(f"{type(value).__name__} is nested too deeply to save") from None
    new = parts.take()
    return {**data, PARTS: new} if new else data


def from_json(kind: type[T], data: object, parts: Parts | None = None) -> T:
    """Rebuilds a dataclass from its JSON data; unknown keys are ignored.

    `parts` holds the parts read so far from the file; parts in `data` are added to it. Raises
    ConfigError, with the place, if a value is missing, invalid or nested too deeply.
    """
    parts = Parts() if parts is None else parts
    try:
        if isinstance(data, dict) and PARTS in data:
            if not isinstance(data[PARTS], dict):
                raise make_error(PARTS, "an object", data[PARTS])
            parts.values.update(data[PARTS])
        return cast(T, _read(kind, data, "", parts))
    except RecursionError:
        raise ConfigError(f"{kind.__name__} is nested too deeply to read") from None


def make_error(at: str, wanted: str, value: object) -> ConfigError:
    where = quote(cut_chars(at, 200, "…")) if at else "the data"
    kinds: Mapping[type, str] = {dict: "an object", list: "a list"}
    shown = kinds.get(type(value)) or shown_value(value)
    return ConfigError(f"{where} must be {wanted}, not {shown}")


def _is_integer(value: object) -> bool:
    # far above any count; much larger integers cannot be printed
    return type(value) is int and abs(value) < 2**63


SCALARS: Mapping[object, tuple[str, Callable[[Any], bool]]] = {
    str: ("a string", lambda value: type(value) is str),
    bool: ("true or false", lambda value: type(value) is bool),
    int: ("an integer", _is_integer),
    float: ("a number", lambda value: type(value) is float or _is_integer(value)),
}
"""Type → name of the type in messages, and a function that checks JSON data for the type."""

ANY = (Any, object)
LISTS = (tuple, abc.Sequence)
OBJECTS = (abc.Mapping, dict)
UNIONS = (Union, types.UnionType)


def _split(hint: Any) -> tuple[Any, Any]:
    if isinstance(hint, type):  # most hints are, and the functions of `typing` are slow
        return hint, ()
    return typing.get_origin(hint) or hint, typing.get_args(hint)


def _write(hint: Any, value: Any, to: Writer) -> Any:
    if value is None or type(value) in (bool, int):  # most values are numbers or texts
        return value
    if hint is str:
        return to.text(value)
    origin, arguments = _split(hint)
    if origin in ANY or (origin in OBJECTS and arguments[1] in ANY):
        return to.any(value)
    if origin is Picture:  # no filter changes its bytes
        return to.parts.refer(value.digest[:DIGITS], value.base64)
    if origin in UNIONS:
        return _write(arguments[0], value, to)
    if origin in OBJECTS:
        return {to.text(key): _write(arguments[1], one, to) for key, one in value.items()}
    if origin in LISTS:
        return [_write(arguments[0], one, to) for one in value]
    if not dataclasses.is_dataclass(origin) and not isinstance(value, AxeError):
        return jsonable(value)
    data = {}
    if isinstance(value, AxeError):
        hint = next(kind for kind in type(value).__mro__ if kind in ERRORS.values())
        data["type"] = hint.__name__
    for name, form, default, is_part in _list_fields(hint):
        # without the category, which the constructor adds to the message
        is_detail = name == "message" and isinstance(value, ProviderError)
        own = value.detail if is_detail else getattr(value, name)
        if own is default or (type(own) is type(default) and own == default):
            continue
        if is_part:
            data[name] = to.parts.write(own, partial(_write, form, own, to))
        else:
            data[name] = _write(form, own, to)
    return data


def _read(hint: Any, value: Any, at: str, parts: Parts) -> Any:
    origin, arguments = _split(hint)
    if origin in SCALARS:
        wanted, fits = SCALARS[origin]
        if not fits(value):
            raise make_error(at, wanted, value)
        return float(value) if origin is float else value
    if origin in ANY:
        return jsonable(value)
    if origin in UNIONS and arguments[1:] == (types.NoneType,):
        return None if value is None else _read(arguments[0], value, at, parts)
    if origin is Picture:
        if isinstance(value, dict) and value.keys() == {PART}:
            return parts.read(value, at, Picture)
        try:
            return Picture(b64decode(value, validate=True))
        except (ConfigError, TypeError, ValueError) as error:
            where = quote(cut_chars(at, 200, "…"))
            raise ConfigError(f"the picture {where} is damaged: {error}"[:400]) from None
    if origin is Literal:
        options = [json.dumps(option) for option in arguments]
        if json.dumps(value) not in options:
            raise make_error(at, f"one of {', '.join(options)}", value)
        return value
    if origin in LISTS:
        if not isinstance(value, list):
            raise make_error(at, "a list", value)
        item = arguments[0]
        return tuple(_read(item, one, f"{at}[{i}]", parts) for i, one in enumerate(value))
    if not isinstance(value, dict):
        raise make_error(at, "an object", value)
    if origin in OBJECTS:
        return {k: _read(arguments[1], one, f"{at}.{k}", parts) for k, one in value.items()}
    return _read_record(origin, value, at, parts)


def _read_record(kind: Any, value: Mapping[str, Any], at: str, parts: Parts) -> Any:
    if issubclass(kind, AxeError):
        known = tuple(name for name, error in ERRORS.items() if issubclass(error, kind))
        place = f"{at}.type" if at else "type"
        kind = ERRORS[_read(Literal[known], value.get("type"), place, parts)]
    values = {}
    for name, form, default, is_part in _list_fields(kind):
        place = f"{at}.{name}" if at else name
        if name in value:
            if is_part:
                values[name] = parts.read(value[name], place, form)
            else:
                values[name] = _read(form, value[name], place, parts)
        elif default is MISSING:
            raise ConfigError(f"{quote(place)} is missing")
    if not issubclass(kind, AxeError):
        return kind(**values)
    where = values.pop("place", "")
    error: AxeError = kind(**values)
    error.place = where
    return error


@cache
def _list_fields(kind: Any) -> tuple[Field, ...]:
    """Lists a dataclass's constructor arguments, or an exception's arguments and `place`."""
    if issubclass(kind, AxeError):
        defaults = kind.__init__.__kwdefaults__ or {}
        hints = typing.get_type_hints(kind.__init__)
        hints.pop("return", None)
        arguments = (Field(name, hint, defaults.get(name, MISSING)) for name, hint in hints.items())
        return (*arguments, Field("place", str, ""))
    hints = typing.get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        if field.init:
            made = field.default_factory
            default = field.default if made is MISSING else made()
            is_part = "is_part" in field.metadata
            found.append(Field(field.name, hints[field.name], default, is_part))
    return tuple(found)
