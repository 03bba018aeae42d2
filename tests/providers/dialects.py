"""The four protocols as their servers speak them, for tests that say the same of each."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.errors import ProviderError
from axe_nb.messages import (
    Delta,
    Message,
    Request,
    Response,
    ToolCall,
    ToolParameter,
    ToolSpec,
    Usage,
)
from axe_nb.providers import anthropic, ollama, openai, responses
from axe_nb.providers.http import HttpProvider
from axe_nb.providers.protocol import find_secrets
from axe_nb.scripting.wire import WIRES

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


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A reply in the pieces in which a model makes it."""

    text: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    calls: Sequence[tuple[str, str, Sequence[str]]] = ()
    """(id, name, pieces of the JSON of its arguments)"""
    stop: str = "stop"


@dataclass(frozen=True)
class Dialect:
    name: str
    path: str
    done: str
    calling: str
    cut: str

    def make(self, base_url: str, key: str) -> HttpProvider:
        made: HttpProvider = MODULES[self.name].PROVIDER(base_url, key, PROTOCOLS[self.name])
        return made

    def send(self, base_url: str, request: Request | None = None, key: str = KEY) -> Response:
        return asyncio.run(self.make(base_url, key).send(request or ask()))

    def reply(self, text: str, calls: Sequence[Call], stop: str) -> dict[str, Any]:
        """The body of a whole reply; calls may lack their ids."""
        written = [(f"#{n}", call[1], [json.dumps(call[2])]) for n, call in enumerate(calls)]
        body, _ = write(self.name, Answer(text=[text] * bool(text), calls=written, stop=stop))
        ids = {json.dumps(f"#{n}"): json.dumps(call[0]) for n, call in enumerate(calls)}
        whole = re.sub('"#[0-9]+"', lambda found: ids[found[0]], json.dumps(body))
        reply: dict[str, Any] = json.loads(whole)
        return reply

    def __str__(self) -> str:
        return self.name


def secrets_of(protocol: str, key: str = KEY) -> tuple[str, ...]:
    """What a server of the protocol must not repeat."""
    return find_secrets(BY_NAME[protocol].make("http://127.0.0.1", key))


def ask(*messages: Message, **more: Any) -> Request:
    return Request("m", messages or (Message("user", "hi"),), **more)


def make_message(text: str, status: str = "completed") -> dict[str, Any]:
    """A message among the items of a reply of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": status}
    return {**item, "content": [part]}


def make_call(number: int, id: object, name: str, arguments: object) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": id, "status": "completed"}
    return {**item, "name": name, "arguments": arguments}


def make_response(items: Sequence[dict[str, Any]], stop: str) -> dict[str, Any]:
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


def make_reasoning(*summary: str) -> dict[str, Any]:
    """A reasoning item of the Responses API."""
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "e"}


def write(protocol: Any, answer: Answer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The body of a whole reply, with 5 input and 7 output tokens, and the events of a stream.

    They are as script servers write them, which clients of the vendors read elsewhere.
    """
    calls = tuple(
        ToolCall(id, name, json.loads("".join(pieces) or "{}")) for id, name, pieces in answer.calls
    )
    text, thought = "".join(answer.text), "".join(answer.reasoning)
    response = Response(text, calls, answer.stop, Usage(5, 7), reasoning=thought)
    wire = WIRES[protocol](ask(), input_tokens=5, wants_usage=True)
    wire.calls += calls
    deltas = [Delta(piece, "reasoning") for piece in answer.reasoning]
    deltas += [Delta(piece) for piece in answer.text]
    for number, (_, _, pieces) in enumerate(answer.calls):
        deltas += [Delta(piece, "arguments", number) for piece in pieces or [""]]
    events = [*wire.begin(), *(e for delta in deltas for e in wire.add(delta)), *wire.end(response)]
    return wire.whole(response), events


DIALECTS = (
    Dialect("anthropic", "/v1/messages", "end_turn", "tool_use", "max_tokens"),
    Dialect("openai", "/v1/chat/completions", "stop", "tool_calls", "length"),
    Dialect("responses", "/v1/responses", "stop", "tool_calls", "length"),
    Dialect("ollama", "/api/chat", "stop", "stop", "length"),
)

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
