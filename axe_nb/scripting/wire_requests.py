"""Parses the request bodies of three protocols to a `Request`.

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
        texts = [as_str(block.get("text")) for block in blocks if block.get("type") == "text"]
        pictures = read_pictures(blocks)
        results = tuple(
            ToolResult(
                as_str(block.get("tool_use_id")),
                _join_text(block.get("content")),
                bool(block.get("is_error")),
                pictures=read_pictures(_read_blocks(block.get("content"))),
            )
            for block in blocks
            if block.get("type") == "tool_result"
        )
        calls = tuple(
            ToolCall(
                as_str(block.get("id")), as_str(block.get("name")), as_dict(block.get("input"))
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
        read_tool(entry.get("name"), entry.get("description"), entry.get("input_schema"))
        for entry in as_dicts(body.get("tools"))
        if as_dict(body.get("tool_choice")).get("type") != "none"
    ]
    return make_request(body, messages, _join_text(body.get("system")), tools)


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
                calls = tuple(read_call(call) for call in as_dicts(entry.get("tool_calls")))
                messages.append(Message("assistant", text, calls))
            case "tool":
                before = messages.pop().tool_results if _ends_in_results(messages) else ()
                result = ToolResult(as_str(entry.get("tool_call_id")), text)
                messages.append(Message("tool", tool_results=(*before, result)))
            case _:
                parts = [*_read_blocks(entry.get("content")), *_list_images(entry)]
                messages.append(Message("user", text, pictures=read_pictures(parts)))
    offered = [] if body.get("tool_choice") == "none" else as_dicts(body.get("tools"))
    functions = [as_dict(entry.get("function")) for entry in offered]
    tools = [read_tool(f.get("name"), f.get("description"), f.get("parameters")) for f in functions]
    return make_request(body, messages, "\n\n".join(system), tools)


def _ends_in_results(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].role == "tool"


def read_call(call: Json) -> ToolCall:
    function = as_dict(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Malformed("arguments of a tool call are not valid JSON") from None
    return ToolCall(as_str(call.get("id")), as_str(function.get("name")), as_dict(arguments))


def _read_messages(body: Json) -> list[Json]:
    entries = body.get("messages")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed("messages must be a list of objects")
    return entries


def make_request(
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
    openai = as_dict(as_dict(body.get("response_format")).get("json_schema"))
    responses = as_dict(as_dict(body.get("text")).get("format"))
    anthropic = as_dict(as_dict(body.get("output_config")).get("format"))
    named = openai.get("schema") or responses.get("schema") or anthropic.get("schema")
    return named or as_dict(body.get("format")) or None


def read_tool(name: Any, description: Any, schema: Any) -> ToolSpec:
    schema = as_dict(schema)
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parameters = {
        key: ToolParameter(
            as_str(entry.get("type")),
            as_str(entry.get("description")),
            key in required,
            {k: v for k, v in entry.items() if k not in ("type", "description")},
        )
        for key, entry in as_dict(schema.get("properties")).items()
        if isinstance(entry, dict)
    }
    spec = ToolSpec(as_str(name), as_str(description), parameters)
    return spec if not schema or spec.input_schema() == schema else replace(spec, schema=schema)


def _read_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_dicts(content)


def _list_images(entry: Json) -> list[Json]:
    """Returns the pictures of a message as Ollama has them, each as a block."""
    images = entry.get("images")
    return [{"image": one} for one in images] if isinstance(images, list) else []


def read_pictures(blocks: Sequence[Json]) -> tuple[Picture, ...]:
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
        case (
            {"image_url": {"url": str(url)}}
            | {"file": {"file_data": str(url)}}
            | {"type": "input_image", "image_url": str(url)}
            | {"type": "input_file", "file_data": str(url)}
        ):
            return url.partition(",")[2]
    return None


def _decode(data: Any) -> Picture:
    try:
        return Picture(b64decode(as_str(data), validate=True))
    except (ConfigError, ValueError) as error:
        raise Malformed(f"invalid picture: {error}") from None


def _join_text(content: Any) -> str:
    """Returns content as text, from either text or blocks."""
    return "".join(as_str(b.get("text")) for b in _read_blocks(content) if b.get("type") == "text")


def as_str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_dicts(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
