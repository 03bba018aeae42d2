"""Dataclasses as JSON data and back, by their own type hints, without loss: the form of all files.

A new field is kept without a change here. What the exchanges of a run share (system prompts, tools)
and pictures are parts: each is written once, and referred to by its digest. Secrets are removed on
the way.
Source: D-60, D-61.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from base64 import b64decode
from collections import abc
from collections.abc import Callable, Hashable, Iterable, Mapping
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
from axe_nb.text import cut_chars, quote

T = TypeVar("T")

PARTS = "by_digest"
"""Key of the parts, digest → value, next to the data that refers to them."""

PART = "digest"
"""Only key of a reference to a part."""

IS_PART = "is_part"
"""Key of the metadata of a field whose long values are parts."""

SHORT = 200
"""Characters of JSON; shorter values do not become parts."""

DIGITS = 20
"""Hexadecimal digits of a digest."""

MAX_INTEGER = 2**63
"""Exclusive bound of integers, far above any count; larger ones could not even be shown."""

ERRORS: Mapping[str, type[AxeError]] = {
    kind.__name__: kind
    for kind in (AxeError, CassetteMiss, ConfigError, ExpectationError, ProviderError, RunError)
}
"""Exceptions that can be saved; a subclass is saved as the nearest of them."""


class Parts:
    """Shared values of one file: each is written once, and referred to by its digest."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """Digest → value of every part that was written or read."""
        self._new: dict[str, Any] = {}
        """Parts that were added by the value being written."""
        self._written: dict[int, tuple[Any, str, Any]] = {}
        """Identity of an object → the object, its digest and value: most objects are written
        repeatedly."""
        self._made: dict[tuple[str, Form], Any] = {}
        """Digest and form → the object that was read."""

    def write(self, value: Any, make: Callable[[], Any]) -> Any:
        """Returns a reference to a value; if it is short, its JSON data, which `make` returns."""
        known = self._written.get(id(value))
        if known is None:
            made = make()
            text = json.dumps(made)
            if len(text) < SHORT:
                return made
            digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
            known = self._written[id(value)] = value, digest, made
        return self.refer(*known[1:])

    def refer(self, digest: str, value: Any) -> dict[str, str]:
        """Returns a reference to the value with a digest."""
        if digest not in self.values:
            self._new[digest] = value
        return {PART: digest}

    def read(self, value: Any, at: str, form: Form) -> Any:
        """Reads a value, or the part that it refers to. Raises ConfigError."""
        if not (isinstance(value, dict) and value.keys() == {PART}):
            return form.read(value, at, self)
        digest = value[PART]
        if not isinstance(digest, str) or digest not in self.values:
            raise ConfigError(f"a part is missing: {quote(cut_chars(at, 200, '…'))}")
        if (digest, form) not in self._made:
            self._made[digest, form] = form.read(self.values[digest], at, self)
        return self._made[digest, form]

    def begin(self) -> None:
        """Starts a new value, also after one that failed."""
        self._new = {}

    def take(self) -> dict[str, Any]:
        """Returns the parts that the current value is the first to use."""
        self.values.update(self._new)
        return self._new

    def forget(self, data: Mapping[str, Any]) -> None:
        """Forgets the parts of data that could not be saved, so that later data includes them."""
        for digest in data.get(PARTS, ()):
            del self.values[digest]

    def add(self, values: Any) -> None:
        """Adds parts that were read. Raises ConfigError if they are invalid."""
        if not isinstance(values, dict):
            raise make_error(PARTS, "an object", values)
        self.values.update(values)


class Writer(NamedTuple):
    """The filter and the parts that values are written with."""

    clean: Filter | None
    parts: Parts

    def text(self, value: Any) -> str:
        """Returns any value as text, without secrets."""
        text = value if type(value) is str else str(jsonable(value))
        return self.clean.text(text) if self.clean else text

    def any(self, value: Any) -> Any:
        """Returns a value of any type as JSON data, without secrets."""
        return self.clean.json(jsonable(value)) if self.clean else jsonable(value)


class Form(NamedTuple):
    """The JSON form of a type."""

    write: Callable[[Any, Writer], Any]
    make: Callable[[Any, str, Parts], Any]
    """(JSON data, its place, parts) -> value. Raises ConfigError."""
    wanted: str = "any value"
    fits: Callable[[Any], bool] = lambda value: True
    """True for data that `make` can be given."""

    def read(self, value: Any, at: str, parts: Parts) -> Any:
        """Returns the value of JSON data. Raises ConfigError."""
        if not self.fits(value):
            raise make_error(at, self.wanted, value)
        return self.make(value, at, parts)


class Field(NamedTuple):
    """One field of a record."""

    name: str
    form: Form
    default: Any
    """`MISSING` if the field is required."""


MISSING = dataclasses.MISSING


def to_json(value: Any, clean: Filter | None = None, parts: Parts | None = None) -> dict[str, Any]:
    """Returns a dataclass as JSON data: the fields that differ from their defaults.

    What JSON cannot hold, which only the user's own code can put into a conversation, becomes a
    list if it is a tuple, else a text. Bytes become text, those that are not UTF-8 half characters.

    Args:
        clean: applied to the texts and keys that come from people, models and tools.
        parts: those that the file has already; None = it has none.

    Raises ConfigError: it is nested too deeply.
    """
    parts = Parts() if parts is None else parts
    parts.begin()
    try:
        kind: Any = type(value)
        data: dict[str, Any] = _find_form(kind).write(value, Writer(clean, parts))
    except RecursionError:
        raise ConfigError(f"{type(value).__name__} is nested too deeply to save") from None
    new = parts.take()
    return {**data, PARTS: new} if new else data


def from_json(kind: type[T], data: object, parts: Parts | None = None) -> T:
    """Returns the dataclass that the data was made of; unknown keys are ignored.

    Args:
        parts: those of the file that were read before the data; its own are added.

    Raises ConfigError: a value is missing or wrong, or nested too deeply; names its place.
    """
    parts = Parts() if parts is None else parts
    try:
        if isinstance(data, dict) and PARTS in data:
            parts.add(data[PARTS])
        hint: Any = kind
        return cast(T, _find_form(hint).read(data, "", parts))
    except RecursionError:
        raise ConfigError(f"{kind.__name__} is nested too deeply to read") from None


def make_error(at: str, wanted: str, value: object) -> ConfigError:
    """Returns the error for a wrong value at a place."""
    where = quote(cut_chars(at, 200, "…")) if at else "the data"
    match value:
        case dict():
            shown = "an object"
        case list():
            shown = "a list"
        case str() | bool() | None:
            shown = cut_chars(json.dumps(value), 60, "…")
        case int() | float() if abs(value) < MAX_INTEGER:
            shown = str(value)
        case _:
            shown = f"an unsupported {type(value).__name__}"
    return ConfigError(f"{where} must be {wanted}, not {shown}")


def _write_plain(value: Any, _: Writer) -> Any:
    return jsonable(value)


def _make_plain(value: Any, at: str, _: Parts) -> Any:
    return value


def _is_integer(value: object) -> bool:
    return type(value) is int and -MAX_INTEGER < value < MAX_INTEGER


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _write_bytes(value: bytes, to: Writer) -> str:
    return to.text(value.decode("utf-8", "surrogateescape"))


def _make_bytes(value: Any, at: str, _: Parts) -> bytes:
    try:
        return bytes(value.encode("utf-8", "surrogateescape"))
    except (AttributeError, UnicodeEncodeError):
        raise make_error(at, "bytes encoded as text", value) from None


def _make_picture(text: Any, at: str, _: Parts) -> Picture:
    try:
        return Picture(b64decode(text, validate=True))
    except (ConfigError, TypeError, ValueError) as error:
        where = quote(cut_chars(at, 200, "…"))
        raise ConfigError(f"the picture {where} is damaged: {error}"[:400]) from None


PICTURE = Form(lambda picture, to: picture.base64, _make_picture)

ANY = Form(lambda value, to: to.any(value), lambda value, at, _: jsonable(value))

SCALARS: Mapping[object, Form] = {
    Any: ANY,
    object: ANY,
    str: Form(
        lambda value, to: to.text(value), _make_plain, "a string", lambda value: type(value) is str
    ),
    bytes: Form(_write_bytes, _make_bytes),
    bool: Form(_write_plain, _make_plain, "true or false", lambda value: type(value) is bool),
    int: Form(_write_plain, _make_plain, "an integer", _is_integer),
    float: Form(
        _write_plain, lambda value, at, _: float(value), "a number",
        lambda value: type(value) is float or _is_integer(value),
    ),
    Picture: Form(  # a part; no filter changes its bytes
        lambda picture, to: to.parts.refer(picture.digest[:DIGITS], picture.base64),
        lambda value, at, parts: parts.read(value, at, PICTURE),
    ),
}  # fmt: skip


@cache
def _find_form(hint: Hashable) -> Form:
    """Returns the form of a type. Raises TypeError if it has none."""
    origin: Any = typing.get_origin(hint) or hint
    arguments = typing.get_args(hint)
    if origin in SCALARS:
        return SCALARS[origin]
    if origin is Literal:
        options = [json.dumps(option) for option in arguments]
        wanted = f"one of {', '.join(options)}"
        return Form(_write_plain, _make_plain, wanted, lambda value: json.dumps(value) in options)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        some = _find_form(arguments[0])
        return Form(
            lambda value, to: None if value is None else some.write(value, to),
            lambda value, at, parts: None if value is None else some.read(value, at, parts),
        )
    if origin in (tuple, abc.Sequence) and arguments[1:] in ((), (...,)):
        item = _find_form(arguments[0])

        def write_items(values: Iterable[Any], to: Writer) -> list[Any]:
            items = list(values)
            if arguments[0] is bytes and to.clean:
                whole = _write_bytes(b"".join(items), Writer(None, to.parts))
                if (cleaned := to.text(whole)) != whole:
                    return [cleaned]  # a secret may be split between two pieces
            return [item.write(one, to) for one in items]

        def make_tuple(value: Any, at: str, parts: Parts) -> Any:
            return tuple(item.read(one, f"{at}[{i}]", parts) for i, one in enumerate(value))

        return Form(write_items, make_tuple, "a list", lambda value: isinstance(value, list))
    if origin in (abc.Mapping, dict):
        entry = _find_form(arguments[1])

        def write_entries(value: Any, to: Writer) -> Any:
            if entry is ANY:
                return to.any(value)
            return {to.text(key): entry.write(one, to) for key, one in value.items()}

        def make_dict(value: Any, at: str, parts: Parts) -> Any:
            return {str(key): entry.read(one, f"{at}.{key}", parts) for key, one in value.items()}

        return Form(write_entries, make_dict, "an object", _is_object)
    if isinstance(origin, type) and issubclass(origin, AxeError):
        return Form(_write_error, partial(_make_axe_error, origin), "an object", _is_object)
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        kind: Any = origin
        return Form(
            lambda value, to: _write_fields(partial(getattr, value), _list_fields(kind), to),
            lambda data, at, parts: kind(**_read_fields(data, _list_fields(kind), at, parts)),
            "an object",
            _is_object,
        )
    raise TypeError(f"{hint} cannot be represented as JSON")


def _make_part(form: Form) -> Form:
    """Returns the form of a field whose long values are parts."""
    return Form(
        lambda value, to: to.parts.write(value, lambda: form.write(value, to)),
        lambda value, at, parts: parts.read(value, at, form),
    )


@cache
def _list_fields(kind: type) -> tuple[Field, ...]:
    """Returns the fields of a dataclass that its constructor accepts."""
    hints = typing.get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        if field.init:
            form = _find_form(hints[field.name])
            made = field.default_factory
            default = field.default if made is MISSING else made()
            found.append(
                Field(field.name, _make_part(form) if IS_PART in field.metadata else form, default)
            )
    return tuple(found)


def _write_fields(
    value: Callable[[str], Any], fields: Iterable[Field], to: Writer
) -> dict[str, Any]:
    data = {}
    for name, form, default in fields:
        own = value(name)
        if own is not default and (type(own) is not type(default) or own != default):
            data[name] = form.write(own, to)
    return data


def _read_fields(data: Any, fields: Iterable[Field], at: str, parts: Parts) -> dict[str, Any]:
    values = {}
    for name, form, default in fields:
        place = f"{at}.{name}" if at else name
        if name in data:
            values[name] = form.read(data[name], place, parts)
        elif default is MISSING:
            raise ConfigError(f"{quote(place)} is missing")
    return values


def _list_arguments(kind: Any) -> tuple[Field, ...]:
    """Lists the arguments of the constructor, and `place`, which is set later."""
    hints = typing.get_type_hints(kind.__init__)
    defaults = kind.__init__.__kwdefaults__ or {}
    arguments = [
        Field(name, _find_form(hint), defaults.get(name, MISSING))
        for name, hint in hints.items()
        if name != "return"
    ]
    return (*arguments, Field("place", SCALARS[str], ""))


def _write_error(error: AxeError, to: Writer) -> dict[str, Any]:
    kind: Any = next(kind for kind in type(error).__mro__ if kind in ERRORS.values())

    def value(name: str) -> Any:
        if name == "message" and isinstance(error, ProviderError):
            return error.detail  # without the category, which the constructor puts before it
        return getattr(error, name)

    return {"type": kind.__name__, **_write_fields(value, _list_arguments(kind), to)}


def _make_axe_error(base: type[AxeError], data: Any, at: str, parts: Parts) -> AxeError:
    known = tuple(name for name, kind in ERRORS.items() if issubclass(kind, base))
    place = f"{at}.type" if at else "type"
    kind: Any = ERRORS[_find_form(Literal[known]).read(data.get("type"), place, parts)]
    values = _read_fields(data, _list_arguments(kind), at, parts)
    where = values.pop("place", "")
    error: AxeError = kind(**values)
    error.place = where
    return error
