"""JSON that others wrote, made safe to keep; and messages that are written only once.

Whatever a server sends, what comes out of here has the types that it says, can be written as JSON
again, and is not nested deeper than any reader can bear.
Source: D-11, D-28, D-32, A-3.1, A-3.3, A-4.1; goals.md "turn 1000 against turn 10" and "Safety".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from axe_nb.agents.provider_table import NOT_PARAMS
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, ToolCall, ToolSpec, dump

MAX_NESTING = 100
"""Lists and objects within one another; far more than any API sends."""

MAX_TOKENS = 2**53
"""No count of tokens is larger; beyond it a number is nonsense."""

T = TypeVar("T", Message, ToolSpec)

Encode: TypeAlias = Callable[[T], Iterable[Mapping[str, Any]]]
"""A message or a tool -> its objects on the wire."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_LENIENT = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None)
_STRICT = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)


def loads(text: str, *, strict: bool = False) -> Any:
    """The value of a JSON text; numbers that are none (NaN) are null, lone surrogates replaced.

    Args:
        strict: NaN and Infinity are errors, as the standard has it.

    Raises:
        ValueError: it is not JSON, or is nested deeper than `MAX_NESTING`.
    """
    try:
        value = (_STRICT if strict else _LENIENT).decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    is_plain = "\\u" not in text and text.count("{") + text.count("[") <= MAX_NESTING
    return value if is_plain else _kept(value, MAX_NESTING)


def _kept(value: Any, room: int) -> Any:
    """The value without what could not be written again."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATES.sub("\ufffd", value)
    if not isinstance(value, (dict, list)):
        return value
    if not room:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return [_kept(entry, room - 1) for entry in value]
    return {_kept(key, room): _kept(entry, room - 1) for key, entry in value.items()}


def text(value: object) -> str:
    """The value where it is text, else ""."""
    return value if isinstance(value, str) else ""


def table(value: object) -> dict[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def tables(value: object, what: str) -> list[dict[str, Any]]:
    """The objects of a list; none where there is no list.

    Raises:
        ProviderError: it is something else; the message calls it `what`.
    """
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ProviderError("server", f"{what} of the reply is not a list of objects")
    return value


def tokens(*counts: object) -> int:
    """The sum of the counts; what is no count is 0."""
    return sum(
        int(n)
        for n in counts
        if isinstance(n, (int, float)) and n is not True and 0 < n < MAX_TOKENS
    )


def call(provider: str, index: int, id: object, name: object, arguments: object) -> ToolCall:
    """A tool call from its parts: ids as they are, `<provider>_<index>` where there is none."""
    own = str(id) if isinstance(id, (str, int)) else ""
    parsed, raw = _arguments(arguments)
    return ToolCall(own if own.strip() else f"{provider}_{index}", text(name), parsed, raw)


def _arguments(value: object) -> tuple[Mapping[str, Any], str]:
    """(the object, "") or, where there is none, ({}, what came instead) (D-11)."""
    if isinstance(value, dict):
        return value, ""
    if not isinstance(value, str):
        return {}, "" if value is None else dump(value).decode()
    if not value.strip():
        return {}, ""  # how many servers write "no arguments"
    try:
        parsed = loads(value, strict=True)
    except ValueError:
        return {}, value
    return (parsed, "") if isinstance(parsed, dict) else ({}, value)


def function_calls(provider: str, value: object) -> tuple[ToolCall, ...]:
    """The calls of a `tool_calls` list, as OpenAI and Ollama write it (A-3.3, A-4.3)."""
    parts = (
        (entry.get("id"), table(entry.get("function"))) for entry in tables(value, "tool_calls")
    )
    return tuple(
        call(provider, index, id, function.get("name"), function.get("arguments"))
        for index, (id, function) in enumerate(parts)
    )


def function_tools(specs: Iterable[ToolSpec]) -> list[bytes]:
    """Tools as OpenAI and Ollama want them (A-3.1, A-4.1)."""
    return serialize(specs, "function", _function)


def _function(spec: ToolSpec) -> list[dict[str, Any]]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.input_schema(),
    }
    return [{"type": "function", "function": function}]


def without_ours(params: Mapping[str, Any]) -> dict[str, Any]:
    """The params that are set and the model's own."""
    return {key: v for key, v in params.items() if key not in NOT_PARAMS and v is not None}


def serialize(things: Iterable[T], protocol: str, encode: Encode[T]) -> list[bytes]:
    """Each thing's wire objects as JSON, joined by commas; empty for one that has none.

    Each is written on first use only, so that turn 1000 costs little more than turn 10.
    """
    return [thing.wire.get(protocol) or _write(thing, protocol, encode) for thing in things]


def _write(thing: T, protocol: str, encode: Encode[T]) -> bytes:
    serialize = b",".join(map(dump, encode(thing)))
    thing.wire[protocol] = serialize
    return serialize


def envelope(fields: Mapping[str, Any], tools: Iterable[bytes], messages: Iterable[bytes]) -> bytes:
    """A request's body, without `tools` where there are none (A-2.3) and without empty messages.

    Raises:
        ProviderError: a field is nothing that JSON can say.
    """
    try:
        head = dump(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise ProviderError(
            "bad_request",
            f"params cannot be sent as JSON: {error}",
            hint="mend [params] of the agent",
        ) from None
    listed = b",".join(tools)
    offered = b',"tools":[' + listed + b"]" if listed else b""
    start = head[:-1] + offered + b',"messages":['
    said = list(filter(None, messages)) or [b""]
    said[0] = start + said[0]
    said[-1] += b"]}"
    return b",".join(said)  # the one time that a long conversation is copied
