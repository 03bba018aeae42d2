"""Parses the request bodies of the three protocols to a `Request`.

Source: product.md "Providers"; seed 000 §3.2-3.4 (A-2.*, A-3.*, A-4.*).
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from axe_nb.errors import ConfigError
from axe_nb.messages import Message, Request, ToolCall, ToolParameter, ToolResult, ToolSpec
from axe_nb.pictures.picture import Picture

Json: TypeAlias = dict[str, Any]


class Malformed(Exception):
    """A body that the real server would answer with status 400; the text says why."""


def read_anthropic(body: Json) -> Request:
    messages: list[Message] = []
    for entry in _read_messages(body):
        blocks = _read_blocks(entry.get("content"))
        texts = [_as_str(block.get("text")) for block in blocks if block.get("type") == "text"]
        pictures = _read_pictures(blocks)
        results = tuple(
            ToolResult(
                _as_str(block.get("tool_use_id")),
                _join_text(block.get("content")),
                bool(block.get("is_error")),
                pictures=_read_pictures(_read_blocks(block.get("content"))),
            )
            for block in blocks
            if block.get("type") == "tool_result"
        )
        calls = tuple(
            ToolCall(
                _as_str(block.get("id")), _as_str(block.get("name")), _as_dict(block.get("input"))
            )
            for block in blocks
            if block.get("type") == "tool_use"
        )
        if results:
            messages.append(Message("tool", tool_results=results))
        if entry.get("role") == "assistant":
            messages.append(Message("assistant", "".join(texts), calls))
        elif pictures:
            messages.append(Message("user", "".join(texts), pictures=pictures))
        elif texts or not results:  # a client joins messages of the same role
            messages += [Message("user", text) for text in texts or [""]]
    tools = [
        _read_tool(entry.get("name"), entry.get("description"), entry.get("input_schema"))
        for entry in _as_dicts(body.get("tools"))
        if _as_dict(body.get("tool_choice")).get("type") != "none"
    ]
    return _make_request(body, messages, _join_text(body.get("system")), tools)


def read_chat(body: Json) -> Request:
    """Parses OpenAI's and Ollama's messages, with the system prompt and tool results among them."""
    messages: list[Message] = []
    system: list[str] = []
    for entry in _read_messages(body):
        text = _join_text(entry.get("content"))
        match entry.get("role"):
            case "system" | "developer":
                system.append(text)
            case "assistant":
                calls = tuple(_read_call(call) for call in _as_dicts(entry.get("tool_calls")))
                messages.append(Message("assistant", text, calls))
            case "tool":
                before = messages.pop().tool_results if _ends_in_results(messages) else ()
                result = ToolResult(_as_str(entry.get("tool_call_id")), text)
                messages.append(Message("tool", tool_results=(*before, result)))
            case _:
                parts = [*_read_blocks(entry.get("content")), *_list_images(entry)]
                messages.append(Message("user", text, pictures=_read_pictures(parts)))
    offered = [] if body.get("tool_choice") == "none" else _as_dicts(body.get("tools"))
    functions = [_as_dict(entry.get("function")) for entry in offered]
    tools = [
        _read_tool(f.get("name"), f.get("description"), f.get("parameters")) for f in functions
    ]
    return _make_request(body, messages, "\n\n".join(system), tools)


def _ends_in_results(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].role == "tool"


def _read_call(call: Json) -> ToolCall:
    function = _as_dict(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Malformed("arguments of a tool call are not valid JSON") from None
    return ToolCall(_as_str(call.get("id")), _as_str(function.get("name")), _as_dict(arguments))


def _read_messages(body: Json) -> list[Json]:
    entries = body.get("messages")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed("messages must be a list of objects")
    return entries


def _make_request(
    body: Json, messages: Sequence[Message], system: str, tools: Sequence[ToolSpec]
) -> Request:
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        raise Malformed("model must be the name of a script")
    return Request(
        model, tuple(messages), system, tuple(tools), agent=model, output=_read_output(body)
    )


def _read_output(body: Json) -> Mapping[str, Any] | None:
    """Returns the schema of the answer, wherever a protocol has it; None if there is none."""
    openai = _as_dict(_as_dict(body.get("response_format")).get("json_schema"))
    anthropic = _as_dict(_as_dict(body.get("output_config")).get("format"))
    return openai.get("schema") or anthropic.get("schema") or _as_dict(body.get("format")) or None


def _read_tool(name: Any, description: Any, schema: Any) -> ToolSpec:
    schema = _as_dict(schema)
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parameters = {
        key: ToolParameter(
            _as_str(entry.get("type")),
            _as_str(entry.get("description")),
            key in required,
            {k: v for k, v in entry.items() if k not in ("type", "description")},
        )
        for key, entry in _as_dict(schema.get("properties")).items()
        if isinstance(entry, dict)
    }
    spec = ToolSpec(_as_str(name), _as_str(description), parameters)
    return spec if not schema or spec.input_schema() == schema else replace(spec, schema=schema)


def _read_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _as_dicts(content)


def _list_images(entry: Json) -> list[Json]:
    """Returns the pictures of a message as Ollama has them, each as a block."""
    images = entry.get("images")
    return [{"image": one} for one in images] if isinstance(images, list) else []


def _read_pictures(blocks: Sequence[Json]) -> tuple[Picture, ...]:
    """Returns the pictures among blocks, in the form of any protocol.

    Raises:
        Malformed: one of them is none.
    """
    return tuple(_decode(data) for block in blocks if (data := _find_data(block)) is not None)


def _find_data(block: Json) -> Any:
    """Returns the base64 text of a picture in any kind of block; None if the block has none."""
    match block:
        case {"type": "image" | "document", "source": {"data": data}} | {"image": data}:
            return data
        case {"image_url": {"url": str(url)}} | {"file": {"file_data": str(url)}}:
            return url.partition(",")[2]
    return None


def _decode(data: Any) -> Picture:
    try:
        return Picture(b64decode(_as_str(data), validate=True))
    except (ConfigError, ValueError) as error:
        raise Malformed(f"invalid picture: {error}") from None


def _join_text(content: Any) -> str:
    """Returns content as text, from either text or blocks."""
    return "".join(_as_str(b.get("text")) for b in _read_blocks(content) if b.get("type") == "text")


def _as_str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _as_dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_dicts(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
