"""`python -m tests.benchmarks.turns`: what a turn costs over each protocol, beside plain httpx.

The server is a process of its own, answers at once and always the same: a text and a call. Prints
rows of goals.md; both contenders take turns, so that what disturbs one disturbs the other.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.messages import Message, Request, ToolCall, ToolResult
from axe_nb.providers.reply_errors import read_reply
from tests.providers.dialects import CALL_AGENT, DIALECTS, MODULES, Dialect, secrets_of

CHAIN = 50
ROUNDS = 20
SENDS = 300
TASK = "Run the tests and say which of them fail, and why. "


class Model(asyncio.Protocol):
    """Answers every request with the same bytes, once its body is whole."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            head, _, data = data.partition(b"\r\n\r\n")
            size = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            self._missing = int(size)
        self._missing -= len(data)
        if not self._missing:
            self._transport.write(self._reply)


async def serve(dialect: Dialect) -> None:
    """Prints the port, and serves until its input is closed."""
    calls = [("call_1", "call_agent", {"agent": "a", "task": TASK})]
    body = json.dumps(dialect.reply("On it.", calls, dialect.calling)).encode()
    reply = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Model(reply), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def server(dialect: Dialect) -> Iterator[str]:
    """The base URL of a server in a process of its own."""
    words = [sys.executable, "-m", __spec__.name, dialect.name]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


def conversation(turns: int) -> Request:
    """The request of turn number `turns`: each before it made a call."""
    request = Request("m", (Message("user", TASK),), "You lead. " * 20, (CALL_AGENT,))
    return replace(request, messages=request.messages + tuple(history(turns - 1)))


def history(turns: int) -> Iterator[Message]:
    for turn in range(turns):
        yield from one_turn(str(turn))


def one_turn(number: str) -> Iterator[Message]:
    yield Message(
        "assistant", "On it.", (ToolCall(number, "call_agent", {"agent": "a", "task": TASK}),)
    )
    yield Message("tool", tool_results=(ToolResult(number, TASK, name="call_agent"),))


Send = Callable[[Request], Awaitable[object]]


async def took(send: Send, request: Request, number: int) -> tuple[float, float]:
    """(seconds, seconds of CPU here) of a request with one more turn, not sent before."""
    fresh = replace(request, messages=(*request.messages, *one_turn(f"new {number}")))
    began, cpu = time.perf_counter(), time.process_time()
    await send(fresh)
    return time.perf_counter() - began, time.process_time() - cpu


async def chain(send: Send) -> float:
    """Seconds of one turn of a conversation of fifty."""
    requests = [conversation(turn) for turn in range(1, CHAIN + 1)]
    grown = requests[-1].messages
    began = time.perf_counter()
    for request in requests:
        await send(replace(request, messages=grown[: len(request.messages)]))
    return (time.perf_counter() - began) / CHAIN


def with_httpx(client: httpx.AsyncClient, dialect: Dialect) -> Send:
    """The same requests by httpx and json alone; writing the messages as dicts is not counted."""
    written: dict[int, tuple[Request, Any]] = {}
    provider = dialect.make(str(client.base_url), "k")
    headers = {"content-type": "application/json", **provider.info.headers_with("k")}

    async def send(request: Request) -> object:
        key = len(request.messages)
        if key not in written:
            written[key] = request, json.loads(MODULES[dialect.name].body(request))
        body = json.dumps(written[key][1], separators=(",", ":")).encode()
        return (await client.post(dialect.path, content=body, headers=headers)).json()

    return send


async def measure(dialect: Dialect, url: str) -> None:
    """Prints the rows of one protocol."""
    ours = dialect.make(url, "k").send
    async with httpx.AsyncClient(base_url=url, timeout=None, verify=False) as client:
        plain = with_httpx(client, dialect)
        await chain(plain)  # warms up, and writes the dicts
        pairs = [(await chain(ours), await chain(plain)) for _ in range(ROUNDS)]
        late = conversation(1000)
        await ours(late), await plain(replace(late, messages=(*late.messages, *one_turn("new"))))
        rounds = [(await took(ours, late, n), await took(plain, late, n)) for n in range(SENDS)]
    one, other = (min(column) * 1e6 for column in zip(*pairs, strict=True))
    row(dialect, "one turn with a tool call", f"{one:.0f} µs, httpx {other:.0f} µs", one / other)
    (own, own_cpu), (other_, plain_cpu) = (
        map(statistics.median, zip(*column, strict=True)) for column in zip(*rounds, strict=True)
    )
    row(
        dialect,
        "turn 1000, wall",
        f"{own * 1e6:.0f} µs, httpx and json {other_ * 1e6:.0f} µs",
        own / other_,
    )
    row(
        dialect,
        "turn 1000, CPU",
        f"{own_cpu * 1e6:.0f} µs, httpx and json {plain_cpu * 1e6:.0f} µs",
        own_cpu / plain_cpu,
    )
    print(
        f"{dialect.name:10} {'the share of the provider':28} {share(dialect) * 1e6:.0f} µs of CPU"
    )


def share(dialect: Dialect) -> float:
    """Seconds of CPU that a turn costs without HTTP: a body, a reply, an answer."""
    calls = [("call_1", "call_agent", {"agent": "a", "task": TASK})]
    reply = json.dumps(dialect.reply("On it.", calls, dialect.calling)).encode()
    module, request = MODULES[dialect.name], conversation(10)
    secrets = secrets_of(dialect.name, "k" * 40)
    module.body(request)
    found = []
    for number in range(1000):
        fresh = replace(request, messages=(*request.messages, *one_turn(f"new {number}")))
        began = time.process_time()
        module.body(fresh)
        module.parse(read_reply(PROTOCOLS[dialect.name], 200, {}, reply, secrets))
        found.append(time.process_time() - began)
    return sorted(found)[len(found) // 2]


def row(dialect: Dialect, what: str, measured: str, ratio: float) -> None:
    print(f"{dialect.name:10} {what:28} {measured:34} {ratio:.2f} x")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name]:
            asyncio.run(serve(next(d for d in DIALECTS if d.name == name)))
        case _:
            for dialect in DIALECTS:
                with server(dialect) as url:
                    asyncio.run(measure(dialect, url))
