"""Safe decoding of JSON from model servers, and encoding of request bodies.

Whatever a server sends, decoded values have the declared types, can be encoded as JSON again, and
have a limited nesting depth.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from axe_nb.agents.provider_table import NOT_PARAMS, SERVER_TOOLS
from axe_nb.conversion.jsonable import change_texts
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, ToolCall, ToolResult, ToolSpec, dump
from axe_nb.pictures.picture import Picture, join_parts

MAX_NESTING = 100
"""Maximum nesting depth of lists and objects, far beyond what any API sends."""

WHOLE: Mapping[str, Any] = MappingProxyType({})
"""Empty set of stream fields, for unstreamed requests."""


def _parse_float(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


_LENIENT = json.JSONDecoder(parse_float=_parse_float, parse_constant=lambda _: None)
_STRICT = json.JSONDecoder(parse_float=_parse_float, parse_constant=int)  # int() refuses NaN


def loads(text: str, *, strict: bool = False) -> Any:
    """Decodes JSON text and replaces lone surrogates; NaN becomes None unless `strict` is true.

    Raises ValueError if the text is not JSON, is nested more deeply than `MAX_NESTING`, or
    contains NaN when `strict` is true.
    """
    value = _decode(text, _STRICT if strict else _LENIENT)
    if "\\u" not in text:
        return value

    def replace(part: str) -> str:
        return part if part.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", part)

    return change_texts(value, replace, also_keys=True)


def loads_part(text: str) -> Any:
    """Decodes the JSON of a streamed event; keeps lone surrogates, as the other half may follow."""
    return _decode(text.strip(), _LENIENT)


def _decode(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("{") + text.count("[") > MAX_NESTING:
        check_nesting(value)
    return value


def check_nesting(value: object, room: int = MAX_NESTING) -> None:
    """Raises ValueError if a value has more than `room` levels of lists and objects."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        if not room:
            raise ValueError("nested too deeply")
        for entry in value:
            check_nesting(entry, room - 1)


def text(value: object) -> str:
    """Returns the value if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def table(value: object) -> dict[str, Any]:
    """Returns the value if it is a JSON object, otherwise an empty dict."""
    return value if isinstance(value, dict) else {}


def tables(value: object, what: str) -> list[dict[str, Any]]:
    """Returns a list of JSON objects unchanged, or an empty list if the value is missing or empty.

    Raises ProviderError for any other value; `what` is the value's name in the error.
    """
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ProviderError("server", f"{what} of the reply is not a list of objects")
    return value


def tokens(value: object, *path: str) -> int:
    """Returns the token count at a key path; 0 if the count is missing or implausible."""
    for key in path:
        value = table(value).get(key)
    if isinstance(value, (int, float)) and value is not True and 0 < value < 2**53:
        return int(value)
    return 0


def call(provider: str, index: int, id: object, name: object, arguments: object) -> ToolCall:
    """Makes a tool call, with a new id if `id` is blank; keeps invalid arguments as text (D-11)."""
    own = str(id) if isinstance(id, (str, int)) else ""
    own = own if own.strip() else f"{provider}_{index}"
    parsed, raw = arguments, ""
    if isinstance(arguments, str):
        parsed, raw = None, arguments.strip() and arguments  # many servers send "" for no arguments
        with suppress(ValueError):
            parsed = loads(arguments, strict=True)
    elif not isinstance(arguments, dict) and arguments is not None:
        raw = dump(arguments).decode()
    if isinstance(parsed, dict):
        return ToolCall(own, text(name).strip(), parsed)
    return ToolCall(own, text(name).strip(), {}, raw)


def tool_name(name: str) -> str:
    """Returns a tool name in a form that every API accepts."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def function_calls(provider: str, value: object) -> tuple[ToolCall, ...]:
    """Parses a `tool_calls` list in the format of OpenAI and Ollama (A-3.3, A-4.3)."""
    calls = []
    for index, entry in enumerate(tables(value, "tool_calls")):
        function = table(entry.get("function"))
        name, arguments = function.get("name"), function.get("arguments")
        calls.append(call(provider, index, entry.get("id"), name, arguments))
    return tuple(calls)


def list_past_tools(request: Request) -> Sequence[ToolSpec]:
    """Returns tools to declare for past calls when the request itself offers no tools (D-17)."""
    names = {tool_name(call.name): 0 for m in request.messages for call in m.tool_calls}
    if not names and not any(tool.entry for tool in request.past_tools):
        return ()
    return request.past_tools or [ToolSpec(name, "No longer available", {}) for name in names]


def encode_function(spec: ToolSpec) -> dict[str, Any]:
    """Encodes a tool in the format of OpenAI and Ollama, or copies its `entry` (A-3.1, A-4.1)."""
    if spec.entry is not None:
        return dict(spec.entry)
    schema = spec.input_schema()
    function = {"name": spec.name, "description": spec.description, "parameters": schema}
    return {"type": "function", "function": function}


def own_params(request: Request) -> dict[str, Any]:
    """Returns the agent's parameters, except keys that axe_nb sets or this request cannot use."""
    left_out = {*NOT_PARAMS, SERVER_TOOLS}
    if not request.tools:  # servers reject both keys without tools
        left_out |= {"tool_choice", "parallel_tool_calls"}
    return {key: v for key, v in request.params.items() if key not in left_out and v is not None}


def collect_pictures(results: Iterable[ToolResult]) -> Message | None:
    """Returns a user message with the pictures in tool results, or None if there are none."""
    parts: list[str | Picture] = []
    for result in results:
        if result.pictures:
            name = f" of {tool_name(result.name)}" if result.name else ""
            parts.append(f"\n\nShown by the result{name}:")
            for picture in result.pictures:
                parts += ["\n", picture]
    if not parts:
        return None
    text, pictures = join_parts(parts)
    return Message("user", text.lstrip("\n"), pictures=pictures)


def write_body(
    fields: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    messages: Sequence[Mapping[str, Any]],
    key: str = "messages",
) -> bytes:
    """Encodes a request body, without the key `tools` if there are no tools (A-2.3)."""
    try:
        return dump({**fields, **({"tools": tools} if tools else {}), key: messages})
    except (TypeError, ValueError, RecursionError) as error:
        told, hint = f"params cannot be sent as JSON: {error}", "fix `[params]` in the agent"
        raise ProviderError("bad_request", told, hint=hint) from None
