"""`python -m tests.benchmarks.turns`: turn 1000 of a conversation, over each protocol.

The server is a process of its own, answers at once and always the same: a text and a call. Prints
rows of goals.md; axe_nb and plain httpx take turns, so that what disturbs one disturbs the other.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import httpx

from axe_nb.messages import Message, Request, ToolCall, ToolResult
from tests.benchmarks.goals import row
from tests.benchmarks.http_server import HttpServer, own_process, serve
from tests.providers.dialects import CALL_AGENT, DIALECTS, MODULES, Dialect

SENDS = 300
TASK = "Run the tests and say which of them fail, and why. "


class Model(HttpServer):
    reply = b""

    def answer(self, head: bytes, body: bytes) -> None:
        self.send(self.reply)


def make_turn(name: str) -> tuple[Message, Message]:
    call = ToolCall(name, "call_agent", {"agent": "a", "task": TASK})
    result = ToolResult(name, TASK, name="call_agent")
    return Message("assistant", "On it.", (call,)), Message("tool", tool_results=(result,))


async def measure(dialect: Dialect, url: str) -> None:
    turns = [message for n in range(999) for message in make_turn(str(n))]
    late = Request("m", (Message("user", TASK), *turns), "You lead. " * 20, (CALL_AGENT,))
    provider = dialect.make(url, "k")
    headers = {"content-type": "application/json", **provider.info.headers_with("k")}
    async with httpx.AsyncClient(base_url=url, timeout=None, verify=False) as client:

        async def send_plain(request: Request) -> None:
            body = json.dumps(written, separators=(",", ":")).encode()
            (await client.post(dialect.path, content=body, headers=headers)).json()

        async def took(send: Callable[[Request], Awaitable[object]], n: int) -> float:
            """Seconds of a request with one more turn, not sent before."""
            fresh = replace(late, messages=(*late.messages, *make_turn(f"new {n}")))
            began = time.perf_counter()
            await send(fresh)
            return time.perf_counter() - began

        # that httpx has to write its messages as dicts is not counted
        written = json.loads(MODULES[dialect.name].body(late))
        await provider.send(late)
        pairs = [(await took(provider.send, n), await took(send_plain, n)) for n in range(SENDS)]
    ours, theirs = (statistics.median(column) * 1e6 for column in zip(*pairs, strict=True))
    shown = f"{ours:.0f} µs, httpx and json {theirs:.0f} µs"
    row(f"turn 1000, {dialect.name}", shown, ours / 1000, 4, 2, " ms")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name]:
            dialect = next(one for one in DIALECTS if one.name == name)
            calls = [("call_1", "call_agent", {"agent": "a", "task": TASK})]
            Model.reply = json.dumps(dialect.reply("On it.", calls, dialect.calling)).encode()
            asyncio.run(serve(Model))
        case _:
            for dialect in DIALECTS:
                with own_process(__spec__.name, dialect.name) as url:
                    asyncio.run(measure(dialect, url))
