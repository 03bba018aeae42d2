"""The model of the comparison: a server on loopback, in a process of its own, that counts.

It speaks the protocols of OpenAI (`/v1/chat/completions`) and Anthropic (`/v1/messages`), whole
replies only. The name of a model is what it does: `lead-N-S` calls the tool `call_agent` N times
and then answers, `lead_input-N-S` calls `child`, whose argument is `input`; `chain-N-S` makes one
call of `nothing` in each of N turns, `child-S` answers. Each reply takes S seconds.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from tests.benchmarks.http_server import HttpServer, own_process, serve

NAME = re.compile(rb'"model":\s*"(\w+)((?:-[\d.]+)+)"')
REPLIES = re.compile(rb'"role":\s*"assistant"')
TOOLS = {
    "lead": ("call_agent", {"agent": "child", "task": "work"}),
    "lead_input": ("child", {"input": "work"}),
    "chain": ("nothing", {}),
}
"""Kind of model → (tool, arguments) of its calls."""


@dataclass
class Counts:
    """What has reached the server since it was asked last."""

    requests: int = 0
    connections: int = 0
    """Connections that were opened."""
    bytes: int = 0
    """Bytes of the bodies of the requests."""


class Model(HttpServer):
    counts = Counts()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        Model.counts.connections += 1

    def answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST /counts "):
            found, Model.counts = Model.counts, Counts()
            self.send(json.dumps(asdict(found)).encode())
            return
        Model.counts.requests += 1
        Model.counts.bytes += len(body)
        named = NAME.search(body)
        assert named, body[:500]
        *numbers, seconds = named[2].decode()[1:].split("-")
        calls = list_calls(named[1].decode(), int(*numbers or (0,)), len(REPLIES.findall(body)))
        write = write_anthropic if head.startswith(b"POST /v1/messages") else write_openai
        asyncio.get_running_loop().call_later(float(seconds), self.send, write(calls))


def list_calls(kind: str, size: int, turn: int) -> list[tuple[str, str, dict[str, str]]]:
    """(id, tool, arguments) of each call of a reply that follows so many others."""
    number = int(turn < size) if kind == "chain" else size if turn == 0 else 0
    return [(f"call_{turn}_{n}", *TOOLS[kind]) for n in range(number)]


def write_openai(calls: list[tuple[str, str, dict[str, str]]]) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else "done"}
    if calls:
        functions = ({"name": name, "arguments": json.dumps(a)} for _, name, a in calls)
        message["tool_calls"] = [
            {"id": call[0], "type": "function", "function": function}
            for call, function in zip(calls, functions, strict=True)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "x"}
    return json.dumps({**reply, "choices": [choice], "usage": usage}).encode()


def write_anthropic(calls: list[tuple[str, str, dict[str, str]]]) -> bytes:
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        for call_id, name, arguments in calls
    ] or [{"type": "text", "text": "done"}]
    reply = {"id": "x", "type": "message", "role": "assistant", "model": "x", "content": content}
    ending = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    return json.dumps(
        {**reply, **ending, "usage": {"input_tokens": 9, "output_tokens": 9}}
    ).encode()


def model() -> AbstractContextManager[str]:
    return own_process(__spec__.name)


def take_counts(url: str) -> Counts:
    """What has reached the server since the last call, which is not counted itself."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.request("POST", "/counts", body=b"")
    counts = Counts(**json.loads(connection.getresponse().read()))
    connection.close()
    counts.connections -= 1
    return counts


if __name__ == "__main__":
    asyncio.run(serve(Model))
