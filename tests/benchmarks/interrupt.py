"""`python -m tests.benchmarks.interrupt`: how soon an interrupt gives control back, sockets closed.

A process of its own runs an agent whose eight children all wait for a model: half of the replies
have not begun, half stop after their first bytes. Once every request has arrived, the process gets
a SIGINT. Prints a row of goals.md for each protocol: seconds from the signal to control back, and
until the last socket with a request was closed, the slowest of ten. The server sees both ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

from tests.providers.dialects import DIALECTS, Dialect

CHILDREN = 8
ROUNDS = 10


class Model(asyncio.Protocol):
    """One connection: has the lead make eight calls, and leaves every child waiting."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        size = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        if not size or len(body) < int(size):
            return
        self._received = b""
        if b"You lead" in body:
            self._transport.write(self._server.reply)
        else:
            self._server.wait(self, self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.lose(self)


class Server:
    """The requests of the children that wait, and when the last of their sockets was closed."""

    def __init__(self, dialect: Dialect) -> None:
        task = {"agent": "child", "task": "wait"}
        calls = [(f"call_{n}", "call_agent", task) for n in range(CHILDREN)]
        body = json.dumps(dialect.reply("", calls, dialect.calling)).encode()
        self.reply = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        self.waiting: set[Model] = set()
        self.all_wait = asyncio.Event()
        self.none_waits = asyncio.Event()
        self.closed_at = 0.0

    def wait(self, model: Model, transport: asyncio.Transport) -> None:
        self.waiting.add(model)
        self.none_waits.clear()
        if len(self.waiting) % 2:
            transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")
        if len(self.waiting) == CHILDREN:
            self.all_wait.set()

    def lose(self, model: Model) -> None:
        if model not in self.waiting:  # kept open for the next request
            return
        self.waiting.discard(model)
        self.closed_at = time.monotonic()
        if not self.waiting:
            self.all_wait.clear()
            self.none_waits.set()


async def measure(dialect: Dialect) -> None:
    """Prints the row of one protocol."""
    server = Server(dialect)
    listening = await asyncio.get_running_loop().create_server(
        lambda: Model(server), "127.0.0.1", 0
    )
    port = listening.sockets[0].getsockname()[1]
    name = dialect.name.upper()
    here = {f"AXE_{name}_BASE_URL": f"http://127.0.0.1:{port}", f"{name}_API_KEY": "k"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __spec__.name, dialect.name,
        env=os.environ | here, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    rounds = []
    for _ in range(ROUNDS):
        async with asyncio.timeout(30):
            await server.all_wait.wait()
            at = time.monotonic()
            process.send_signal(signal.SIGINT)
            told = json.loads(await process.stdout.readline())
            await server.none_waits.wait()
        assert told["children"] == ["cancelled"] * CHILDREN, told
        rounds.append((told["back"] - at, server.closed_at - at))
    await process.wait()
    listening.close()
    back, closed = (max(column) for column in zip(*rounds, strict=True))
    print(
        f"{dialect.name:10} interrupt, {CHILDREN} children: control back after {back:.2f} s, "
        f"every socket closed after {closed:.2f} s"
    )


def ask(name: str) -> None:
    """Runs the agent until it is interrupted, ten times; prints when control was back."""
    import axe_nb

    lead: dict[str, Any] = {"system_prompt": "You lead.", "sub_agents": ["child"]}
    axe_nb.define(axe_nb.Agent(name="child", model=f"{name}/m"))
    agent = axe_nb.Agent(name="lead", model=f"{name}/m", **lead)
    for _ in range(ROUNDS):
        try:
            axe_nb.run(agent, "go")
        except KeyboardInterrupt:
            back = time.monotonic()
        result = axe_nb.last()
        assert result
        told = {"back": back, "children": [child.status for child in result.children]}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name]:
            ask(name)
        case _:
            for dialect in DIALECTS:
                if dialect.name != "responses":  # another API of OpenAI's
                    asyncio.run(measure(dialect))
