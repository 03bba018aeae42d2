"""Parts of runs as lines of JSON text, without secrets.

The data is that of `records.convert.to_json`, made in one pass of the C encoder, as a part is
written for every exchange; reading checks it.
Source: D-60, D-61; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, lru_cache
from typing import Any, NamedTuple, get_args

from axe_nb.conversion.jsonable import jsonable
from axe_nb.data_files import VERSIONS, format_header
from axe_nb.errors import AxeError, Category, ConfigError
from axe_nb.events import Event
from axe_nb.exchanges import Cut, Exchange
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
from axe_nb.redaction import SECRET_HEADERS, Filter
from axe_nb.results import RunResult, Status, Turn
from axe_nb.times import Kind, Lap
from axe_nb.wire_log import WireReply

HEADER = format_header("history")

_HEADER = re.compile(r"axe_nb history (\d{1,4})\.\d{1,4}\n")


class Part(NamedTuple):
    """A part as it was read."""

    data: dict[str, Any]
    bodies: Sequence[Sequence[bytes]]
    """The bodies of the replies in `list_beside(data)`, in pieces."""


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
    return not (_CARE.search(text) or "\\" * 4 in text) and clean.text(text) == text


_CARE = re.compile(
    '":(?:' + "|".join(f'(?<={name.replace("-", "[-_]")}":)' for name in SECRET_HEADERS) + ")", re.I
)
"""The ends of keys of objects whose values are secrets, whatever they are.

JSON in JSON in JSON has to be parsed as well: a secret in it has more forms than the filter looks
for.
"""


def find_version(row: object) -> int:
    """Returns the major version in the header of a row.

    Raises:
        ConfigError: it has none, or a later one than is known.
    """
    found = _HEADER.match(row) if isinstance(row, str) else None
    if not found:
        raise ConfigError("part of it has no header")
    if int(found[1]) > VERSIONS["history"][0]:
        raise ConfigError(f"part of it has version {found[1]}", hint="update axe-nb")
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
        raise ConfigError("part of it is not an object")
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
    return _make_spread(kind, without)(value)


@cache
def _make_spread(kind: type, without: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    """Returns `spread` for a dataclass: written out, it takes a third of the time of a loop."""
    lines = ["def write(value):", " data = {}"]
    known: dict[str, Any] = {}
    for one in dataclasses.fields(kind):
        if one.init and one.name not in without:
            known[f"usual_{one.name}"] = one.default
            is_usual = f" is not usual_{one.name}" if one.default_factory is MISSING else ""
            lines += [f" own = value.{one.name}", f" if own{is_usual}: data[{one.name!r}] = own"]
    exec("\n".join([*lines, " return data"]), known)  # as dataclasses makes constructors
    write: Callable[[Any], dict[str, Any]] = known["write"]
    return write


def _to_plain(value: Any) -> Any:
    """Returns what the encoder does not know in types that it knows."""
    if isinstance(value, Picture):
        return write_picture(value)
    if dataclasses.is_dataclass(type(value)):
        return spread(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, AxeError):
        return to_json(value)
    return dict(value) if isinstance(value, Mapping) else jsonable(value)


_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_to_plain, check_circular=False
).encode
