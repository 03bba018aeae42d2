"""Dataclasses as JSON data and back, by their own type hints, without loss.

A new field is kept without a change here. `conversion/json_types.py` is not used because it serves
models: it parses leniently, refuses unknown keys, describes each type in a schema and knows none
that contains itself. msgspec reads but does not write what is needed: half characters, defaults
left out, errors, texts filtered on the way.
Source: product.md "Python" (`from_dict`, `to_dict(full=True)`); D-60, D-61.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import abc
from collections.abc import Callable, Hashable, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast

from axe_nb.errors import (
    AxeError,
    CassetteMiss,
    ConfigError,
    ExpectationError,
    ProviderError,
    RunError,
)
from axe_nb.pictures.picture import Picture
from axe_nb.records.forms import (
    ANY,
    SCALARS,
    Form,
    make_error,
    read_choice,
    write_any,
    write_pieces,
    write_plain,
    write_text,
)
from axe_nb.records.shelf import (
    TABLE,
    read_picture,
    read_table,
    use_shelf,
    write_picture,
    write_table,
)
from axe_nb.redaction import Filter
from axe_nb.text import quote
from axe_nb.times import Lap, read_laps, write_laps
from axe_nb.wire_log import pack

T = TypeVar("T")

ERRORS: Mapping[str, type[AxeError]] = {
    kind.__name__: kind
    for kind in (
        AxeError,
        CassetteMiss,
        ConfigError,
        ExpectationError,
        ProviderError,
        RunError,
    )
}
"""The exceptions that can be kept; a subclass is kept as the nearest of them."""


class Field(NamedTuple):
    """One field of a record."""

    form: Form
    default: Callable[[], Any] | None
    """Makes the default; None = the field is required."""


def to_json(value: Any, clean: Filter | None = None) -> dict[str, Any]:
    """Returns a dataclass as JSON data: the fields that differ from their defaults.

    What JSON cannot hold, which only the user's own code can put into a conversation, becomes a
    list if it is a tuple, else a text. Bytes become text, those that are not UTF-8 half characters.
    The bytes of pictures are in a table of their own, once each; no filter changes them.

    Args:
        clean: applied to the texts and keys that come from people, models and tools.

    Raises:
        ConfigError: it is nested too deeply.
    """
    try:
        kind: Any = type(value)
        with use_shelf({}) as shelf:
            data: dict[str, Any] = _find_form(kind).write(value, clean)
        return {**data, TABLE: write_table(shelf)} if shelf else data
    except RecursionError:
        raise ConfigError(f"{type(value).__name__} is nested too deeply to save") from None


def from_json(kind: type[T], data: object) -> T:
    """Returns the dataclass that the data was made of; unknown keys are ignored.

    Raises:
        ConfigError: a value is missing or wrong, or nested too deeply; names its place.
    """
    try:
        hint: Any = kind
        read = _find_form(hint).read
        if not (isinstance(data, dict) and TABLE in data):
            return cast(T, read(data, ""))
        with use_shelf(read_table(data[TABLE])):
            return cast(T, read(data, ""))
    except RecursionError:
        raise ConfigError(f"{kind.__name__} is nested too deeply to read") from None


@cache
def _find_form(hint: Hashable) -> Form:
    """Returns the form of a type.

    Raises:
        TypeError: it has none.
    """
    origin: Any = typing.get_origin(hint) or hint
    arguments = typing.get_args(hint)
    if origin in SCALARS:
        return SCALARS[origin]
    if origin is Picture:
        return Form(lambda picture, _: write_picture(picture), read_picture)
    if origin is Literal:
        return Form(write_plain, partial(read_choice, arguments))
    if origin in (Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        return _make_optional(_find_form(arguments[0]))
    if origin in (tuple, abc.Sequence) and arguments[1:] in ((), (...,)):
        if arguments[0] is Lap:
            return Form(lambda laps, _: write_laps(laps), _read_laps)
        form = _make_tuple(_find_form(arguments[0]))
        return _make_pieces(form) if arguments[0] is bytes else form
    if origin in (abc.Mapping, dict):
        return _make_mapping(_find_form(arguments[1]))
    if isinstance(origin, type) and issubclass(origin, AxeError):
        return Form(_write_error, partial(_read_error, origin))
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        return Form(partial(_write_record, origin), partial(_read_record, origin))
    raise TypeError(f"{hint} cannot be represented as JSON")


def _make_optional(form: Form) -> Form:
    def write(value: Any, clean: Filter | None) -> Any:
        return None if value is None else form.write(value, clean)

    def read(value: Any, at: str) -> Any:
        return None if value is None else form.read(value, at)

    return Form(write, read)


def _make_tuple(item: Form) -> Form:
    def write(value: Any, clean: Filter | None) -> Any:
        return [item.write(one, clean) for one in value]

    def read(value: Any, at: str) -> Any:
        if not isinstance(value, list):
            raise make_error(at, "a list", value)
        return tuple(item.read(one, f"{at}[{number}]") for number, one in enumerate(value))

    return Form(write, read)


def _make_pieces(form: Form) -> Form:
    def read(value: Any, at: str) -> Any:
        return pack(form.read(value, at))

    return Form(write_pieces, read)


def _read_laps(value: Any, at: str) -> tuple[Lap, ...]:
    if isinstance(value, list):  # of a version that was never released; they are left out
        return ()
    try:
        return read_laps(SCALARS[str].read(value, at))
    except ValueError:
        raise make_error(at, "times as axe_nb writes them", value) from None


def _make_mapping(item: Form) -> Form:
    def write(value: Any, clean: Filter | None) -> Any:
        if item is ANY:
            return write_any(value, clean)
        return {write_text(key, clean): item.write(value[key], clean) for key in value}

    def read(value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise make_error(at, "an object", value)
        return {str(key): item.read(one, f"{at}.{key}") for key, one in value.items()}

    return Form(write, read)


@cache
def _list_fields(kind: type) -> dict[str, Field]:
    """Returns the fields of a dataclass by name, without those that no one can set."""
    hints = typing.get_type_hints(kind)
    found = {}
    for field in dataclasses.fields(kind):
        default: Any = field.default_factory
        if field.default is not dataclasses.MISSING:
            default = partial(_identity, field.default)
        if field.init:
            is_required = default is dataclasses.MISSING
            form = _find_form(hints[field.name])
            found[field.name] = Field(form, None if is_required else default)
    return found


def _identity(value: T) -> T:
    return value


def _write_fields(
    value: Callable[[str], Any], fields: Mapping[str, Field], clean: Filter | None
) -> dict[str, Any]:
    data = {}
    for name, (form, default) in fields.items():
        own = value(name)
        usual = default() if default else ...
        if type(own) is not type(usual) or own != usual:
            data[name] = form.write(own, clean)
    return data


def _read_fields(data: Any, fields: Mapping[str, Field], at: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise make_error(at, "an object", data)
    values = {}
    for name, (form, default) in fields.items():
        place = f"{at}.{name}" if at else name
        if name in data:
            values[name] = form.read(data[name], place)
        elif default is None:
            raise ConfigError(f"{quote(place)} is missing")
    return values


def _write_record(kind: type, value: Any, clean: Filter | None) -> dict[str, Any]:
    return _write_fields(partial(getattr, value), _list_fields(kind), clean)


def _read_record(kind: type, data: Any, at: str) -> Any:
    return kind(**_read_fields(data, _list_fields(kind), at))


@cache
def _list_arguments(kind: Any) -> dict[str, Field]:
    """Returns what the constructor takes, and the place, which is set later."""
    hints = typing.get_type_hints(kind.__init__)
    defaults = kind.__init__.__kwdefaults__ or {}
    arguments = {
        name: Field(
            _find_form(hint), partial(_identity, defaults[name]) if name in defaults else None
        )
        for name, hint in hints.items()
        if name != "return"
    }
    return {**arguments, "place": Field(SCALARS[str], str)}


def _write_error(error: AxeError, clean: Filter | None) -> dict[str, Any]:
    kind: Any = next(kind for kind in type(error).__mro__ if kind in ERRORS.values())

    def value(name: str) -> Any:
        if name == "message" and isinstance(error, ProviderError):
            return error.detail  # without the category, which the constructor puts before it
        return getattr(error, name)

    fields = _write_fields(value, _list_arguments(kind), clean)
    return {"type": kind.__name__, **fields}


def _read_error(base: type[AxeError], data: Any, at: str) -> AxeError:
    if not isinstance(data, dict):
        raise make_error(at, "an object", data)
    known = tuple(name for name, kind in ERRORS.items() if issubclass(kind, base))
    kind: Any = ERRORS[read_choice(known, data.get("type"), f"{at}.type" if at else "type")]
    values = _read_fields(data, _list_arguments(kind), at)
    place = values.pop("place", "")
    error: AxeError = kind(**values)
    error.place = place
    return error
