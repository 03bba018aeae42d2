"""Parts of runs as lines of JSON text, without secrets.

The data is that of `records.convert.to_json`, made in one pass of the C encoder, as a part is
written for every exchange; reading checks it.
Source: D-60, D-61; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from axe_nb.data_files import VERSIONS, format_header
from axe_nb.errors import AxeError, Category, ConfigError
from axe_nb.events import Event
from axe_nb.exchanges import Cut, Exchange
from axe_nb.jsonable import jsonable
from axe_nb.messages import (
    Delta,
    DeltaKind,
    Message,
    Response,
    Role,
    ToolCall,
    ToolParameter,
    ToolResult,
    ToolSpec,
    Usage,
)
from axe_nb.pictures.picture import Picture
from axe_nb.records.convert import to_json
from axe_nb.records.shelf import write_picture
from axe_nb.redaction import SECRET_HEADERS, Filter, compile_screens, is_found
from axe_nb.results import RunResult, Status, Turn
from axe_nb.times import Kind, Lap
from axe_nb.wire_log import WireReply

HEADER = format_header("history")

_HEADER = re.compile(r"axe_nb history (\d{1,4})\.\d{1,4}\n")

_MARKS = compile_screens(
    (
        (form, "")
        for name in sorted(SECRET_HEADERS)
        if not any(other in name for other in SECRET_HEADERS - {name})
        for form in {f'{name}":', f'{name}":'.replace("-", "_")}
    ),
    "kz",
)
"""Patterns of the ends of keys whose values are always secrets."""

_KELVIN = "\u212a"
"""The one non-ASCII character whose lower case is ASCII: the Kelvin sign, a k."""

_DEEPLY_ESCAPED = "\\" * 4
"""Text that is JSON in JSON in JSON: a secret in it has more forms than the filter looks for."""


class Part(NamedTuple):
    """A part as it was read."""

    data: dict[str, Any]
    bodies: Sequence[Sequence[bytes]]
    """Those of the replies `list_beside(data)`, in pieces."""


def encode(data: Any) -> str:
    """Returns nested data, dataclasses included, as JSON; half characters stay.

    Raises:
        ConfigError: it is nested too deeply.
    """
    try:
        return _encode(data)
    except (RecursionError, TypeError, ValueError) as error:
        raise ConfigError(f"part of the run cannot be represented as JSON: {error}"[:200]) from None


@lru_cache(maxsize=16)
def spare_words(clean: Filter) -> Filter:
    """Returns a filter that leaves the words of the format as they are, even if one is a secret."""
    kinds = (RunResult, Lap, Turn, Exchange, WireReply, Message, ToolCall, ToolResult, ToolSpec,
             ToolParameter, Usage, Response, Delta, *get_args(Event))  # fmt: skip
    words = {field.name for kind in kinds for field in fields(kind)}
    words.update(
        word for options in (Status, Role, DeltaKind, Cut, Kind) for word in get_args(options)
    )
    words.update(get_args(Category), (kind.__name__ for kind in kinds))
    return Filter(tuple(form for form in clean.forms if form not in words))


def is_clean(texts: Iterable[str], clean: Filter) -> bool:
    """True if texts have no secrets, and none that only their parsed data would show."""
    text = "\n".join(texts)
    return not _needs_care(text) and clean.text(text) == text


def _needs_care(text: str) -> bool:
    """True if a text may have secrets that only its parsed data shows."""
    if ("\\" in text and _DEEPLY_ESCAPED in text) or _KELVIN in text:
        return True
    # by way of bytes, since a text that is not ASCII is made small ten times as slowly
    small = text.encode("utf-8", "surrogatepass").lower().decode("latin-1")
    return is_found(_MARKS, small)


def find_version(row: object) -> int:
    """Returns the major version in the header of a row.

    Raises:
        ConfigError: it has none, or a later one than is known.
    """
    found = _HEADER.match(row) if isinstance(row, str) else None
    if not found:
        raise ConfigError("a part of it has no header")
    if int(found[1]) > VERSIONS["history"][0]:
        raise ConfigError(f"a part of it has the version {found[1]}", hint="update axe-nb")
    return int(found[1])


def parse_line(line: str) -> dict[str, Any]:
    """Returns the data of a part.

    Raises:
        ConfigError: it is damaged.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"part of it is not valid JSON: {error}"[:200]) from None
    if not isinstance(data, dict):
        raise ConfigError("a part of it is not an object")
    return data


def list_beside(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the replies in the data of a part whose bodies are beside it."""
    for exchange in data.get("exchanges", ()):
        reply = exchange.get("reply")
        if reply and "beside" in reply:
            yield reply


def spread(value: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns the fields of a dataclass that differ from their defaults, or may differ.

    Args:
        value: the dataclass.
        without: the fields that are left out.
    """
    kind: type = type(value)
    names, get, defaults = _find_fields(kind, without)
    return {
        name: own
        for name, own, usual in zip(names, get(value), defaults, strict=True)
        if own is not usual and not (usual is _EMPTY and not own)
    }


_EMPTY = object()
"""Stands for a default that is an empty container, new in each object."""


@cache
def _find_fields(
    kind: type, without: tuple[str, ...]
) -> tuple[tuple[str, ...], attrgetter[Any], tuple[Any, ...]]:
    fields = [one for one in dataclasses.fields(kind) if one.init and one.name not in without]
    names = tuple(field.name for field in fields)
    defaults = tuple(
        field.default if field.default_factory is dataclasses.MISSING else _EMPTY
        for field in fields
    )
    return names, attrgetter(*names), defaults


def _to_plain(value: Any) -> Any:
    """Returns what the encoder does not know in types that it knows."""
    if isinstance(value, Picture):
        return write_picture(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return spread(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, AxeError):
        return to_json(value)
    return dict(value) if isinstance(value, Mapping) else jsonable(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_to_plain).encode
