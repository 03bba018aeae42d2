"""The servers' side of the three protocols: a body becomes a `Request`, a `Response` a body.

The inverse of what the providers do, with every part as the real servers send it.
Source: product.md "Providers"; seed 000 §3.2-3.4 (A-2.*, A-3.*, A-4.*), A-1.9, B-4, B-5.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from axe_nb.messages import (
    Message,
    Request,
    Response,
    ToolCall,
    ToolParameter,
    ToolResult,
    ToolSpec,
    dump,
)

Protocol = Literal["anthropic", "openai", "ollama"]

Json: TypeAlias = dict[str, Any]


class Malformed(Exception):
    """A body that the real server would answer with status 400; the text says why."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One protocol, as its server speaks it."""

    path: str
    """Where requests are posted to."""
    listing: str
    """Where the models are listed."""
    streams: bool
    """What a request means that does not say whether to stream."""
    request: Callable[[Json], Request]
    """(body) -> what it asks. Raises Malformed."""
    response: Callable[[Request, Response], Json]
    """(request, response) -> body of status 200."""
    error: Callable[[int, str], Json]
    """(status, message) -> body of any other status."""
    models: Callable[[Sequence[str]], Json]
    """(names) -> body of the listing."""


def _anthropic_request(body: Json) -> Request:
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


def _chat_request(body: Json) -> Request:
    """OpenAI's and Ollama's: system is a message, each tool result one of its own."""
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


def _anthropic_response(request: Request, response: Response) -> Json:
    text = [{"type": "text", "text": response.content}] if response.content else []
    calls = [
        {"type": "tool_use", "id": id_, "name": call.name, "input": dict(call.arguments)}
        for id_, call in _with_ids("toolu", request, response)
    ]
    words = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
    return {
        "id": f"msg_script_{request.turn}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [*text, *calls],
        "stop_reason": words.get(response.stop_reason, response.stop_reason),
        "stop_sequence": None,
        "usage": {
            "input_tokens": response.usage.input_tokens,
            "output_tokens": response.usage.output_tokens,
        },
    }


def _openai_response(request: Request, response: Response) -> Json:
    message: Json = {"role": "assistant", "content": response.content, "refusal": None}
    calls = [
        {
            "id": id_,
            "type": "function",
            "function": {"name": call.name, "arguments": call.raw or _arguments(call)},
        }
        for id_, call in _with_ids("call", request, response)
    ]
    if calls:
        message |= {"content": response.content or None, "tool_calls": calls}
    words = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
    reason = words.get(response.stop_reason, response.stop_reason)
    usage = response.usage
    return {
        "id": f"chatcmpl-script-{request.turn}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total,
        },
    }


def _ollama_response(request: Request, response: Response) -> Json:
    message: Json = {"role": "assistant", "content": response.content}
    calls = [
        {
            **({"id": call.id} if call.id.strip() else {}),  # only newer servers send one
            "function": {"index": index, "name": call.name, "arguments": dict(call.arguments)},
        }
        for index, call in enumerate(response.tool_calls)
    ]
    if calls:
        message["tool_calls"] = calls
    words = {"end_turn": "stop", "tool_use": "stop", "tool_calls": "stop", "max_tokens": "length"}
    return {
        "model": request.model,
        "created_at": "1970-01-01T00:00:00Z",
        "message": message,
        "done": True,
        "done_reason": words.get(response.stop_reason, response.stop_reason),
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": response.usage.input_tokens,
        "prompt_eval_duration": 0,
        "eval_count": response.usage.output_tokens,
        "eval_duration": 0,
    }


def _with_ids(prefix: str, request: Request, response: Response) -> Iterator[tuple[str, ToolCall]]:
    """Each call with its own id, else one that no other call of the conversation has."""
    for index, call in enumerate(response.tool_calls):
        yield call.id.strip() or f"{prefix}_script_{request.turn}_{index}", call


def _arguments(call: ToolCall) -> str:
    return dump(dict(call.arguments)).decode()


def _anthropic_error(status: int, message: str) -> Json:
    kinds = {
        401: "authentication_error", 403: "permission_error", 404: "not_found_error",
        413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
    }  # fmt: skip
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _openai_error(status: int, message: str) -> Json:
    kinds = {429: "rate_limit_error", 403: "permission_error"}
    codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": codes.get(status)}}


def _ollama_error(_: int, message: str) -> Json:
    return {"error": message}


def _anthropic_models(names: Sequence[str]) -> Json:
    models = [
        {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
        for name in names
    ]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
    return {"data": models, "has_more": False, "first_id": None, "last_id": None, **ends}


def _openai_models(names: Sequence[str]) -> Json:
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "axe_nb"} for name in names]
    return {"object": "list", "data": models}


def _ollama_models(names: Sequence[str]) -> Json:
    return {"models": [{"name": name, "model": name, "size": 0} for name in names]}


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
    """Content as text, whether it came as text or as blocks."""
    return "".join(_str(b.get("text")) for b in _blocks(content) if b.get("type") == "text")


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


WIRES: Mapping[Protocol, Wire] = {
    "anthropic": Wire(
        "/v1/messages", "/v1/models", False,
        _anthropic_request, _anthropic_response, _anthropic_error, _anthropic_models,
    ),
    "openai": Wire(
        "/v1/chat/completions", "/v1/models", False,
        _chat_request, _openai_response, _openai_error, _openai_models,
    ),
    "ollama": Wire(
        "/api/chat", "/api/tags", True,
        _chat_request, _ollama_response, _ollama_error, _ollama_models,
    ),
}  # fmt: skip
