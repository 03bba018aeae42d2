"""The four protocols as their servers speak them, for tests that say the same of each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Request, Response, ToolParameter, ToolSpec
from axe_nb.providers import anthropic, ollama, openai, responses
from axe_nb.providers.protocol import Provider, Server, find_secrets

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


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A reply in the pieces in which a model makes it."""

    text: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    calls: Sequence[tuple[str | None, str, Sequence[str]]] = ()
    """(id, name, pieces of the JSON of its arguments)"""
    stop: str = "stop"


@dataclass(frozen=True)
class Dialect:
    """One protocol."""

    name: str
    path: str
    make: Callable[[str, str], ServedProvider]
    """(base URL, key) -> provider."""
    done: str
    """Stop reason of an answer."""
    calling: str
    """Stop reason of an answer with calls."""
    cut: str
    """Stop reason where the token limit cut the answer."""

    def send(self, base_url: str, request: Request | None = None, key: str = KEY) -> Response:
        return asyncio.run(self.make(base_url, key).send(request or ask()))

    def reply(self, text: str, calls: Sequence[Call], stop: str) -> dict[str, Any]:
        """The body of a whole reply, with 5 input and 7 output tokens."""
        written = [(id, name, (json.dumps(arguments),)) for id, name, arguments in calls]
        return write_whole(self.name, Answer(text=(text,) * bool(text), calls=written, stop=stop))

    def __str__(self) -> str:
        return self.name


def secrets_of(protocol: str, key: str = KEY) -> tuple[str, ...]:
    """What a server of the protocol must not repeat."""
    return find_secrets(BY_NAME[protocol].make("http://127.0.0.1", key))


def ask(*messages: Message, **more: Any) -> Request:
    """A request with one user message, or these."""
    return Request("m", messages or (Message("user", "hi"),), **more)


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


def _whole_openai(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text)}
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": n, "arguments": "".join(pieces)}}
            for id, n, pieces in answer.calls
        ]
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": answer.stop}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
    }


def anthropic_blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], str, Sequence[str]]]:
    """(start of the block, key of its pieces, pieces)."""
    if answer.reasoning:
        yield {"type": "thinking", "thinking": "", "signature": ""}, "thinking", answer.reasoning
    if answer.text:
        yield {"type": "text", "text": ""}, "text", answer.text
    for id, name, pieces in answer.calls:
        yield {"type": "tool_use", "id": id, "name": name, "input": {}}, "partial_json", pieces


def _whole_anthropic(answer: Answer) -> dict[str, Any]:
    blocks = []
    for block, key, pieces in anthropic_blocks(answer):
        if key == "partial_json":
            blocks.append({**block, "input": json.loads("".join(pieces) or "{}")})
        else:
            signed = {"signature": "s"} if key == "thinking" else {}
            blocks.append({**block, key: "".join(pieces), **signed})
    usage = {"input_tokens": 5, "output_tokens": 7}
    return {"id": "m", "content": blocks, "stop_reason": answer.stop, "usage": usage}


def make_reasoning(*summary: str) -> dict[str, Any]:
    """A reasoning item of the Responses API."""
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "e"}


def list_items(answer: Answer) -> Iterator[tuple[dict[str, Any], str, Sequence[str]]]:
    """(item, event of its pieces, pieces)"""
    if answer.reasoning:
        item = make_reasoning("".join(answer.reasoning))
        yield item, "response.reasoning_summary_text.delta", answer.reasoning
    if answer.text:
        yield make_message("".join(answer.text)), "response.output_text.delta", answer.text
    for number, (id, name, pieces) in enumerate(answer.calls):
        item = make_call(number, id, name, "".join(pieces))
        yield item, "response.function_call_arguments.delta", pieces


def _whole_responses(answer: Answer) -> dict[str, Any]:
    return make_response([item for item, _, _ in list_items(answer)], answer.stop)


def ollama_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": id, "function": {"name": name, "arguments": json.loads("".join(pieces) or "{}")}}
        for id, name, pieces in answer.calls
    ]


def _whole_ollama(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text)}
    if answer.reasoning:
        message["thinking"] = "".join(answer.reasoning)
    if calls := ollama_calls(answer):
        message["tool_calls"] = calls
    end = {"done": True, "done_reason": answer.stop, "prompt_eval_count": 5, "eval_count": 7}
    return {"message": message, **end}


def write_whole(protocol: str, answer: Answer) -> dict[str, Any]:
    """The body of a whole reply."""
    return WHOLE[protocol](answer)


WHOLE = {
    "anthropic": _whole_anthropic,
    "openai": _whole_openai,
    "responses": _whole_responses,
    "ollama": _whole_ollama,
}

DIALECTS = (
    Dialect(
        "anthropic", "/v1/messages", anthropic.Anthropic, "end_turn", "tool_use", "max_tokens",
    ),
    Dialect("openai", "/v1/chat/completions", openai.OpenAI, "stop", "tool_calls", "length"),
    Dialect("responses", "/v1/responses", responses.Responses, "stop", "tool_calls", "length"),
    Dialect("ollama", "/api/chat", ollama.Ollama, "stop", "stop", "length"),
)  # fmt: skip

BY_NAME: Mapping[str, Dialect] = {dialect.name: dialect for dialect in DIALECTS}


def send_all(*urls: str, between: Callable[[], object] = lambda: None) -> list[str]:
    """What requests in one loop get: the text, or the error with its next step."""

    async def turns() -> list[str]:
        found = []
        for number, url in enumerate(urls):
            if number:
                await asyncio.sleep(0)  # the reply before is read to its end
                between()
            try:
                found.append((await openai.OpenAI(url, KEY).send(ask())).content)
            except ProviderError as error:
                found.append(f"{error.detail} ({error.hint})")
        return found

    return asyncio.run(turns())
