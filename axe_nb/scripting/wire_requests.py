"""Parses the request bodies of the three protocols to a `Request`.

Source: product.md "Providers"; seed 000 §3.2-3.4 (A-2.*, A-3.*, A-4.*).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from axe_nb.messages import Message, Request, ToolCall, ToolParameter, ToolResult, ToolSpec

Json: TypeAlias = dict[str, Any]


class Malformed(Exception):
    """A body that the real server would answer with status 400; the text says why."""


def read_anthropic(body: Json) -> Request:
    messages: list[Message] = []
    for entry in _entries(body):
        blocks = _blocks(entry.get("content"))
        texts = [_str(block.get("text")) for block in blocks if block.get("type") == "text"]
        results = tuple(
            ToolResult(
                _str(block.get("tool_use_id")),
                _text(block.get("content")),
                bool(block.get("is_error")),
            )
            for block in blocks
            if block.get("type") == "tool_result"
        )
        calls = tuple(
            ToolCall(_str(block.get("id")), _str(block.get("name")), _dict(block.get("input")))
            for block in blocks
            if block.get("type") == "tool_use"
        )
        if results:
            messages.append(Message("tool", tool_results=results))
        if entry.get("role") == "assistant":
            messages.append(Message("assistant", "".join(texts), calls))
        elif texts or not results:  # a client joins messages of the same role
            messages += [Message("user", text) for text in texts or [""]]
    tools = [
        _tool(entry.get("name"), entry.get("description"), entry.get("input_schema"))
        for entry in _dicts(body.get("tools"))
    ]
    return _request(body, messages, _text(body.get("system")), tools)


def read_chat(body: Json) -> Request:
    """Parses OpenAI's and Ollama's messages, with the system prompt and tool results among them."""
    messages: list[Message] = []
    system: list[str] = []
    for entry in _entries(body):
        text = _text(entry.get("content"))
        match entry.get("role"):
            case "system" | "developer":
                system.append(text)
            case "assistant":
                calls = tuple(_chat_call(call) for call in _dicts(entry.get("tool_calls")))
                messages.append(Message("assistant", text, calls))
            case "tool":
                before = messages.pop().tool_results if _ends_in_results(messages) else ()
                result = ToolResult(_str(entry.get("tool_call_id")), text)
                messages.append(Message("tool", tool_results=(*before, result)))
            case _:
                messages.append(Message("user", text))
    functions = [_dict(entry.get("function")) for entry in _dicts(body.get("tools"))]
    tools = [_tool(f.get("name"), f.get("description"), f.get("parameters")) for f in functions]
    return _request(body, messages, "\n\n".join(system), tools)


def _ends_in_results(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].role == "tool"


def _chat_call(call: Json) -> ToolCall:
    function = _dict(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Malformed("arguments of a tool call are not valid JSON") from None
    return ToolCall(_str(call.get("id")), _str(function.get("name")), _dict(arguments))


def _entries(body: Json) -> list[Json]:
    entries = body.get("messages")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed("messages must be a list of objects")
    return entries


def _request(
    body: Json, messages: Sequence[Message], system: str, tools: Sequence[ToolSpec]
) -> Request:
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        raise Malformed("model must be the name of a script")
    return Request(model, tuple(messages), system, tuple(tools), agent=model)


def _tool(name: Any, description: Any, schema: Any) -> ToolSpec:
    schema = _dict(schema)
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parameters = {
        key: ToolParameter(
            _str(entry.get("type")),
            _str(entry.get("description")),
            key in required,
            {k: v for k, v in entry.items() if k not in ("type", "description")},
        )
        for key, entry in _dict(schema.get("properties")).items()
        if isinstance(entry, dict)
    }
    return ToolSpec(_str(name), _str(description), parameters)


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _dicts(content)


def _text(content: Any) -> str:
    """Returns content as text, from either text or blocks."""
    return "".join(_str(b.get("text")) for b in _blocks(content) if b.get("type") == "text")


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
