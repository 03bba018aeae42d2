"""Values of simple types as JSON data and back, and the words for wrong data.

Source: product.md "Python" (`from_dict`); D-61.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from axe_nb.conversion.jsonable import jsonable
from axe_nb.errors import ConfigError
from axe_nb.redaction import Filter
from axe_nb.text import cut_chars, quote

MAX_INTEGER = 2**63
"""Exclusive bound of integers, far above any count; larger ones could not even be shown."""

MAX_SHOWN = 60
"""Maximum length of a quoted wrong value in characters."""

MAX_PLACE = 200
"""Maximum length of a place in characters; keys are part of it."""

Write: TypeAlias = Callable[[Any, Filter | None], Any]
"""(value, filter for its texts) -> JSON data."""

Read: TypeAlias = Callable[[Any, str], Any]
"""(JSON data, its place) -> value. Raises ConfigError."""


class Form(NamedTuple):
    """A type as JSON."""

    write: Write
    read: Read


def make_error(at: str, wanted: str, value: object) -> ConfigError:
    """Returns the error for a wrong value at a place."""
    where = quote(cut_chars(at, MAX_PLACE, "…")) if at else "the data"
    return ConfigError(f"{where} must be {wanted}, not {_describe(value)}")


def _describe(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str() | bool() | None:
            return cut_chars(json.dumps(value), MAX_SHOWN, "…")
        case int() | float() if abs(value) < MAX_INTEGER:
            return str(value)
    return f"an unsupported {type(value).__name__}"


def write_plain(value: Any, clean: Filter | None) -> Any:
    """Returns a value that is not text, such as a number."""
    return jsonable(value)


def write_any(value: Any, clean: Filter | None) -> Any:
    """Returns a value of any type as JSON data."""
    return clean.json(jsonable(value)) if clean else jsonable(value)


def write_text(value: Any, clean: Filter | None) -> str:
    """Returns any value as text."""
    text = value if type(value) is str else str(jsonable(value))
    return clean.text(text) if clean else text


def _write_bytes(value: bytes, clean: Filter | None) -> str:
    return write_text(value.decode("utf-8", "surrogateescape"), clean)


def write_pieces(value: Iterable[bytes], clean: Filter | None) -> list[str]:
    """Returns the pieces of one body, as a single one if it holds a secret, which they may cut."""
    pieces = list(value)
    whole = b"".join(pieces)
    if clean and (cleaned := _write_bytes(whole, clean)) != _write_bytes(whole, None):
        return [cleaned]
    return [_write_bytes(piece, None) for piece in pieces]


def _read_bytes(value: Any, at: str) -> bytes:
    try:
        return bytes(value.encode("utf-8", "surrogateescape"))
    except (AttributeError, UnicodeEncodeError):
        raise make_error(at, "bytes encoded as text", value) from None


def _make_scalar(
    wanted: str,
    fits: Callable[[Any], bool],
    write: Write = write_plain,
    make: Callable[[Any], Any] | None = None,
) -> Form:
    def read(value: Any, at: str) -> Any:
        if not fits(value):
            raise make_error(at, wanted, value)
        return make(value) if make else value

    return Form(write, read)


def _is_integer(value: object) -> bool:
    return type(value) is int and -MAX_INTEGER < value < MAX_INTEGER


def _is_number(value: object) -> bool:
    return type(value) is float or _is_integer(value)


ANY = _make_scalar("any value", lambda value: True, write_any, jsonable)

SCALARS: Mapping[object, Form] = {
    Any: ANY,
    object: ANY,
    str: _make_scalar("a string", lambda value: type(value) is str, write_text),
    bytes: Form(_write_bytes, _read_bytes),
    bool: _make_scalar("true or false", lambda value: type(value) is bool),
    int: _make_scalar("an integer", _is_integer),
    float: _make_scalar("a number", _is_number, make=float),
}


def read_choice(options: tuple[Any, ...], value: Any, at: str) -> Any:
    """Returns the option that the value is."""
    for option in options:
        if type(option) is type(value) and option == value:
            return option
    wanted = ", ".join(json.dumps(option) for option in options)
    raise make_error(at, f"one of {wanted}", value)
