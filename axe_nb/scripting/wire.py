"""Server side of the four protocols: decodes bodies to `Request`, encodes `Response`.

The inverse of what the providers do, with every part as the real servers send it.
Source: product.md "Providers"; seed 000 §3.2-3.4 (A-2.*, A-3.*, A-4.*), A-1.9, B-4, B-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from axe_nb.messages import Request, Response, ToolCall, dump
from axe_nb.scripting.responses_requests import encrypt, read_responses
from axe_nb.scripting.wire_requests import Json, read_anthropic, read_chat
from axe_nb.usage import Usage

Protocol = Literal["anthropic", "openai", "responses", "ollama"]

SIGNATURE = "c2NyaXB0"
"""Signature of a thinking block in Anthropic's protocol."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One protocol, as its server speaks it."""

    path: str
    """Path of model requests."""
    listing: str
    """Path of the list of models."""
    streams: bool
    """Default of `stream` if a request does not set it."""
    request: Callable[[Json], Request]
    """(body) -> the request. Raises Malformed."""
    response: Callable[[Request, Response, str], Json]
    """(request, response, reasoning) -> body of status 200."""
    error: Callable[[int, str], Json]
    """(status, message) -> body of any other status."""
    models: Callable[[Sequence[str]], Json]
    """(names) -> body of the listing."""


def make_anthropic_response(request: Request, response: Response, reasoning: str = "") -> Json:
    """Returns the body of a whole reply."""
    thinking = {"type": "thinking", "thinking": reasoning, "signature": SIGNATURE}
    text = [{"type": "text", "text": response.content}] if response.content else []
    calls = [
        {"type": "tool_use", "id": id_, "name": call.name, "input": dict(call.arguments)}
        for id_, call in _assign_ids("toolu", request, response)
    ]
    words = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
    return {
        "id": f"msg_script_{request.turn}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [*([thinking] if reasoning else []), *text, *calls],
        "stop_reason": words.get(response.stop_reason, response.stop_reason),
        "stop_sequence": None,
        "usage": _count_for_anthropic(response.usage),
    }


def _count_for_anthropic(usage: Usage) -> Json:
    """Returns the counts; `input_tokens` are those that no cache has to do with."""
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    others = {
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
    return {
        "input_tokens": max(0, usage.input_tokens - cached - written),
        "output_tokens": usage.output_tokens,
        **(others if _has_kinds(usage) else {}),
    }


def _has_kinds(usage: Usage) -> bool:
    """True if some tokens are counted apart; other replies stay as short as they can be."""
    return bool(usage.cached_tokens or usage.cache_write_tokens or usage.reasoning_tokens)


def make_openai_response(request: Request, response: Response, reasoning: str = "") -> Json:
    """Returns the body of a whole reply."""
    message: Json = {"role": "assistant", "content": response.content, "refusal": None}
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = [
        {
            "id": id_,
            "type": "function",
            "function": {"name": call.name, "arguments": call.raw or _encode_arguments(call)},
        }
        for id_, call in _assign_ids("call", request, response)
    ]
    if calls:
        message |= {"content": response.content or None, "tool_calls": calls}
    words = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
    reason = words.get(response.stop_reason, response.stop_reason)
    usage = response.usage
    others = {
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
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
            **(others if _has_kinds(usage) else {}),
        },
    }


def make_responses_response(request: Request, response: Response, reasoning: str = "") -> Json:
    """Returns the body of a whole reply over the Responses API."""
    words = {"length": "max_output_tokens", "max_tokens": "max_output_tokens"}
    reason = words.get(response.stop_reason, response.stop_reason)
    is_whole = reason not in ("max_output_tokens", "content_filter")
    status = "completed" if is_whole else "incomplete"
    parts = [make_text_part(response.content)] if response.content else []
    if reason == "refusal":
        parts.append({"type": "refusal", "refusal": "declined"})
    usage = response.usage
    return {
        **make_responses_head(request),
        "status": status,
        "incomplete_details": None if is_whole else {"reason": reason},
        "output": [
            *([make_reasoning_item(request, reasoning)] if reasoning else []),
            *([make_message_item(request, parts, status)] if parts else []),
            *(
                make_call_item(request, id_, index, call)
                for index, (id_, call) in enumerate(_assign_ids("call", request, response))
            ),
        ],
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.total,
        },
    }


def make_responses_head(request: Request) -> Json:
    """Returns a reply of the Responses API that has only begun."""
    return {
        "id": f"resp_script_{request.turn}",
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": [],
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def make_text_part(text: str) -> Json:
    """Returns the text of a message of the Responses API."""
    return {"type": "output_text", "text": text, "annotations": []}


def make_message_item(request: Request, parts: Sequence[Json], status: str) -> Json:
    """Returns a message of the Responses API."""
    item = {"type": "message", "id": f"msg_script_{request.turn}", "role": "assistant"}
    return {**item, "status": status, "content": [*parts]}


def make_reasoning_item(request: Request, reasoning: str) -> Json:
    """Returns the reasoning of the Responses API, summarised and encrypted."""
    id_ = f"rs_script_{request.turn}"
    summary = [{"type": "summary_text", "text": reasoning}]
    content = encrypt(id_, reasoning)
    return {"type": "reasoning", "id": id_, "summary": summary, "encrypted_content": content}


def make_call_item(request: Request, call_id: str, index: int, call: ToolCall) -> Json:
    """Returns a call of the Responses API."""
    return {
        "type": "function_call",
        "id": f"fc_script_{request.turn}_{index}",
        "call_id": call_id,
        "name": call.name,
        "arguments": call.raw or _encode_arguments(call),
        "status": "completed",
    }


def make_ollama_response(request: Request, response: Response, reasoning: str = "") -> Json:
    """Returns the body of a whole reply."""
    message: Json = {"role": "assistant", "content": response.content}
    if reasoning:
        message["thinking"] = reasoning
    calls = [make_ollama_call(index, call) for index, call in enumerate(response.tool_calls)]
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


def make_ollama_call(index: int, call: ToolCall) -> Json:
    """Returns one call of a reply."""
    return {
        **({"id": call.id} if call.id.strip() else {}),  # only newer servers send one
        "function": {"index": index, "name": call.name, "arguments": dict(call.arguments)},
    }


def _assign_ids(
    prefix: str, request: Request, response: Response
) -> Iterator[tuple[str, ToolCall]]:
    """Gives each call without an id one that is unique in the conversation."""
    for index, call in enumerate(response.tool_calls):
        yield call.id.strip() or f"{prefix}_script_{request.turn}_{index}", call


def _encode_arguments(call: ToolCall) -> str:
    return dump(dict(call.arguments)).decode()


def make_anthropic_error(status: int, message: str) -> Json:
    """Returns the body of an error."""
    kinds = {
        401: "authentication_error", 403: "permission_error", 404: "not_found_error",
        413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
    }  # fmt: skip
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def make_openai_error(status: int, message: str) -> Json:
    """Returns the body of an error."""
    kinds = {429: "rate_limit_error", 403: "permission_error"}
    codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": codes.get(status)}}


def make_ollama_error(_: int, message: str) -> Json:
    """Returns the body of an error."""
    return {"error": message}


def _list_anthropic_models(names: Sequence[str]) -> Json:
    models = [
        {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
        for name in names
    ]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
    return {"data": models, "has_more": False, "first_id": None, "last_id": None, **ends}


def _list_openai_models(names: Sequence[str]) -> Json:
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "axe_nb"} for name in names]
    return {"object": "list", "data": models}


def _list_ollama_models(names: Sequence[str]) -> Json:
    return {"models": [{"name": name, "model": name, "size": 0} for name in names]}


WIRES: Mapping[Protocol, Wire] = {
    "anthropic": Wire(
        "/v1/messages", "/v1/models", False,
        read_anthropic, make_anthropic_response, make_anthropic_error, _list_anthropic_models,
    ),
    "openai": Wire(
        "/v1/chat/completions", "/v1/models", False,
        read_chat, make_openai_response, make_openai_error, _list_openai_models,
    ),
    "responses": Wire(
        "/v1/responses", "/v1/models", False,
        read_responses, make_responses_response, make_openai_error, _list_openai_models,
    ),
    "ollama": Wire(
        "/api/chat", "/api/tags", True,
        read_chat, make_ollama_response, make_ollama_error, _list_ollama_models,
    ),
}  # fmt: skip
