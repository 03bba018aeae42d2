"""The four protocols as their servers speak them, for tests that say the same of each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from axe_nb.messages import Message, Request, Response, ToolParameter, ToolSpec
from axe_nb.providers import anthropic, ollama, openai, responses
from axe_nb.providers.protocol import Provider, Server
from axe_nb.providers.secrets import find_secrets

KEY = "sk-canary-0123456789abcdef"

MODULES = {"anthropic": anthropic, "openai": openai, "responses": responses, "ollama": ollama}

Call = tuple[str | None, str, Any]
"""(id, name, arguments)"""

CALL_AGENT = ToolSpec(
    "call_agent",
    "Delegate a task",
    {
        "agent": ToolParameter("string", "Who", required=True),
        "task": ToolParameter("string", "What", required=True),
        "context": ToolParameter("string", "More"),
    },
)


class ServedProvider(Provider, Server, Protocol):
    """A provider with its server."""


@dataclass(frozen=True)
class Dialect:
    """One protocol."""

    name: str
    path: str
    make: Callable[[str, str], ServedProvider]
    """(base URL, key) -> provider."""
    reply: Callable[[str, Sequence[Call], str], dict[str, Any]]
    """(text, calls, stop reason) -> body; 5 input and 7 output tokens."""
    done: str
    """Stop reason of an answer."""
    calling: str
    """Stop reason of an answer with calls."""
    cut: str
    """Stop reason where the token limit cut the answer."""

    def send(self, base_url: str, request: Request | None = None, key: str = KEY) -> Response:
        return asyncio.run(self.make(base_url, key).send(request or ask()))

    def __str__(self) -> str:
        return self.name


def secrets_of(protocol: str, key: str = KEY) -> tuple[str, ...]:
    """What a server of the protocol must not repeat."""
    return find_secrets(BY_NAME[protocol].make("http://127.0.0.1", key))


def ask(*messages: Message, **more: Any) -> Request:
    """A request with one user message, or these."""
    return Request("m", messages or (Message("user", "hi"),), **more)


def _anthropic_reply(text: str, calls: Sequence[Call], stop: str) -> dict[str, Any]:
    said = [{"type": "text", "text": text}] if text else []
    uses = [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in calls]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [*said, *uses], "stop_reason": stop, "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }  # fmt: skip


def _openai_reply(text: str, calls: Sequence[Call], stop: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, n, a in calls
        ]
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": stop}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }  # fmt: skip


def make_message(text: str, status: str = "completed") -> dict[str, Any]:
    """A message among the items of a reply of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": status}
    return {**item, "content": [part]}


def make_call(number: int, id: object, name: str, arguments: object) -> dict[str, Any]:
    """A call among them."""
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": id, "status": "completed"}
    return {**item, "name": name, "arguments": arguments}


def make_response(items: Sequence[dict[str, Any]], stop: str) -> dict[str, Any]:
    """A whole reply of the Responses API."""
    is_cut = stop == "length"
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "error": None,
        "status": "incomplete" if is_cut else "completed", "parallel_tool_calls": True,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": [*items], "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12,
        },
    }  # fmt: skip


def _responses_reply(text: str, calls: Sequence[Call], stop: str) -> dict[str, Any]:
    said = [make_message(text)] if text else []
    uses = [make_call(at, i, n, json.dumps(a)) for at, (i, n, a) in enumerate(calls)]
    return make_response([*said, *uses], stop)


def _ollama_reply(text: str, calls: Sequence[Call], stop: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {**({"id": i} if i is not None else {}), "function": {"name": n, "arguments": a}}
            for i, n, a in calls
        ]
    return {
        "model": "m", "created_at": "2026-11-20T00:00:00Z", "message": message, "done": True,
        "done_reason": stop, "prompt_eval_count": 5, "eval_count": 7,
    }  # fmt: skip


DIALECTS = (
    Dialect(
        "anthropic", "/v1/messages", anthropic.Anthropic, _anthropic_reply,
        "end_turn", "tool_use", "max_tokens",
    ),
    Dialect(
        "openai", "/v1/chat/completions", openai.OpenAI, _openai_reply,
        "stop", "tool_calls", "length",
    ),
    Dialect(
        "responses", "/v1/responses", responses.Responses, _responses_reply,
        "stop", "tool_calls", "length",
    ),
    Dialect("ollama", "/api/chat", ollama.Ollama, _ollama_reply, "stop", "stop", "length"),
)  # fmt: skip

BY_NAME: Mapping[str, Dialect] = {dialect.name: dialect for dialect in DIALECTS}
