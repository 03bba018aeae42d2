"""Parses the request bodies of the four protocols to a `Request`.

Source: A-2.*, A-3.*, A-4.*, D-73.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from axe_nb.errors import ConfigError
from axe_nb.messages import Message, Request, ToolCall, ToolParameter, ToolResult, ToolSpec
from axe_nb.pictures.picture import Picture
from axe_nb.providers.wire import table, text

Json: TypeAlias = dict[str, Any]


class Malformed(Exception):
    """A body that the real server would answer with status 400; the text says why."""


def read_anthropic(body: Json) -> Request:
    messages: list[Message] = []
    for entry in _read_entries(body, "messages"):
        blocks = _read_blocks(entry.get("content"))
        texts = [text(block.get("text")) for block in blocks if block.get("type") == "text"]
        pictures = _read_pictures(blocks)
        results = [
            _read_result(block, block.get("tool_use_id"), block.get("content"))
            for block in blocks
            if block.get("type") == "tool_result"
        ]
        calls = [
            ToolCall(text(block.get("id")), text(block.get("name")), table(block.get("input")))
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        if results:
            messages.append(Message("tool", tool_results=tuple(results)))
        if entry.get("role") == "assistant":
            messages.append(Message("assistant", "".join(texts), tuple(calls)))
        elif pictures:
            messages.append(Message("user", "".join(texts), pictures=pictures))
        elif texts or not results:  # a client joins messages of the same role
            messages += [Message("user", text) for text in texts or [""]]
    tools = [{**tool, "parameters": tool.get("input_schema")} for tool in _dicts(body.get("tools"))]
    return _make_request(body, messages, [_join_text(body.get("system"))], tools)


def read_chat(body: Json) -> Request:
    """Parses OpenAI's and Ollama's messages, with the system prompt and tool results among them."""
    messages: list[Message] = []
    system: list[str] = []
    for entry in _read_entries(body, "messages"):
        content = entry.get("content")
        match entry.get("role"):
            case "system" | "developer":
                system.append(_join_text(content))
            case "assistant":
                calls = tuple(map(_read_call, _dicts(entry.get("tool_calls"))))
                messages.append(Message("assistant", _join_text(content), calls))
            case "tool":
                _add_result(messages, _read_result(entry, entry.get("tool_call_id"), content))
            case _:
                images = entry.get("images")
                own = [{"image": image} for image in images] if isinstance(images, list) else []
                pictures = _read_pictures([*_read_blocks(content), *own])
                messages.append(Message("user", _join_text(content), pictures=pictures))
    functions = [table(tool.get("function")) for tool in _dicts(body.get("tools"))]
    return _make_request(body, messages, system, functions)


def read_responses(body: Json) -> Request:
    """Parses the input items of the Responses API, with calls and results among them."""
    messages: list[Message] = []
    system = [text(body.get("instructions"))]
    if isinstance(body.get("input"), str):
        body = {**body, "input": [{"role": "user", "content": body["input"]}]}
    for entry in _read_entries(body, "input"):
        content = entry.get("content")
        match entry.get("type", "message"), entry.get("role"):
            case "function_call_output", _:
                result = _read_result(entry, entry.get("call_id"), entry.get("output"))
                _add_result(messages, result)
            case "function_call", _:
                call = _read_call({"id": entry.get("call_id"), "function": entry})
                _add_answer(messages, "", (call,))
            case "message", "assistant":
                _add_answer(messages, _join_text(content), ())
            case "message", "user":
                pictures = _read_pictures(_read_blocks(content))
                messages.append(Message("user", _join_text(content), pictures=pictures))
            case "message", _:
                system.append(_join_text(content))
    functions = [tool for tool in _dicts(body.get("tools")) if tool.get("type") == "function"]
    return _make_request(body, messages, system, functions)


def _read_entries(body: Json, key: str) -> list[Json]:
    entries = body.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed(f"{key} must be a list of objects")
    return entries


def _read_result(entry: Json, call_id: Any, content: Any) -> ToolResult:
    is_error, pictures = bool(entry.get("is_error")), _read_pictures(_read_blocks(content))
    return ToolResult(text(call_id), _join_text(content), is_error, pictures=pictures)


def _add_result(messages: list[Message], result: ToolResult) -> None:
    is_next = bool(messages) and messages[-1].role == "tool"
    before = messages.pop().tool_results if is_next else ()
    messages.append(Message("tool", tool_results=(*before, result)))


def _add_answer(messages: list[Message], text: str, calls: tuple[ToolCall, ...]) -> None:
    """Adds a text or a call to the assistant's turn, or begins one."""
    is_next = bool(messages) and messages[-1].role == "assistant"
    last = messages.pop() if is_next else Message("assistant")
    joined = "\n\n".join(filter(None, (last.content, text)))
    messages.append(Message("assistant", joined, (*last.tool_calls, *calls)))


def _read_call(call: Json) -> ToolCall:
    function = table(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Malformed("arguments of a tool call are not valid JSON") from None
    return ToolCall(text(call.get("id")), text(function.get("name")), table(arguments))


def _make_request(
    body: Json,
    messages: Sequence[Message],
    system: Iterable[str],
    functions: Iterable[Mapping[str, Any]],
) -> Request:
    model, choice = body.get("model"), body.get("tool_choice")
    if not isinstance(model, str) or not model.strip():
        raise Malformed("model must be the name of a script")
    is_offered = choice != "none" and table(choice).get("type") != "none"
    tools = tuple(map(_read_tool, functions)) if is_offered else ()
    prompt, output = "\n\n".join(filter(None, system)), _read_output(body)
    return Request(model, tuple(messages), prompt, tools=tools, agent=model, output=output)


def _read_output(body: Json) -> Mapping[str, Any] | None:
    """Returns the schema of the answer, wherever a protocol has it; None if there is none."""
    openai = table(table(body.get("response_format")).get("json_schema"))
    responses = table(table(body.get("text")).get("format"))
    anthropic = table(table(body.get("output_config")).get("format"))
    named = openai.get("schema") or responses.get("schema") or anthropic.get("schema")
    return named or table(body.get("format")) or None


def _read_tool(function: Mapping[str, Any]) -> ToolSpec:
    schema = table(function.get("parameters"))
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parameters = {
        key: ToolParameter(
            text(entry.get("type")),
            text(entry.get("description")),
            key in required,
            {k: v for k, v in entry.items() if k not in ("type", "description")},
        )
        for key, entry in table(schema.get("properties")).items()
        if isinstance(entry, dict)
    }
    spec = ToolSpec(text(function.get("name")), text(function.get("description")), parameters)
    return spec if not schema or spec.input_schema() == schema else replace(spec, schema=schema)


def _read_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _dicts(content)


def _read_pictures(blocks: Sequence[Json]) -> tuple[Picture, ...]:
    """Returns the pictures among blocks, in the form of any protocol.

    Raises Malformed if one of them is none.
    """
    found = (_find_data(block) for block in blocks)
    try:
        return tuple(Picture(b64decode(data, validate=True)) for data in found if data)
    except (ConfigError, ValueError) as error:
        raise Malformed(f"invalid picture: {error}") from None


def _find_data(block: Json) -> str:
    """Returns the base64 text of a picture in any kind of block; empty if the block has none."""
    match block:
        case {"type": "image" | "document", "source": {"data": str(data)}} | {"image": str(data)}:
            return data
        case (
            {"image_url": {"url": str(url)}}
            | {"file": {"file_data": str(url)}}
            | {"type": "input_image", "image_url": str(url)}
            | {"type": "input_file", "file_data": str(url)}
        ):
            return url.partition(",")[2]
    return ""


def _join_text(content: Any) -> str:
    kinds = ("text", "input_text", "output_text")
    return "".join(text(b.get("text")) for b in _read_blocks(content) if b.get("type") in kinds)


def _dicts(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
