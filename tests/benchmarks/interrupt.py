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
from typing import ClassVar

from tests.benchmarks.goals import row
from tests.benchmarks.http_server import HttpServer
from tests.providers.dialects import DIALECTS, Dialect

CHILDREN = 8
ROUNDS = 10


class Model(HttpServer):
    """Has the lead make eight calls, and leaves every child waiting."""

    reply = b""
    waiting: ClassVar[set[HttpServer]] = set()
    all_wait: asyncio.Event
    none_waits: asyncio.Event
    closed_at = 0.0

    def answer(self, head: bytes, body: bytes) -> None:
        if b"You lead" in body:
            self.send(Model.reply)
            return
        Model.waiting.add(self)
        Model.none_waits.clear()
        if len(Model.waiting) % 2:
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")
        if len(Model.waiting) == CHILDREN:
            Model.all_wait.set()

    def connection_lost(self, error: Exception | None) -> None:
        if self not in Model.waiting:  # kept open for the next request
            return
        Model.waiting.discard(self)
        Model.closed_at = time.monotonic()
        if not Model.waiting:
            Model.all_wait.clear()
            Model.none_waits.set()


async def measure(dialect: Dialect) -> None:
    calls = [
        (f"call_{n}", "call_agent", {"agent": "child", "task": "wait"}) for n in range(CHILDREN)
    ]
    Model.reply = json.dumps(dialect.reply("", calls, dialect.calling)).encode()
    Model.all_wait, Model.none_waits = asyncio.Event(), asyncio.Event()
    listening = await asyncio.get_running_loop().create_server(Model, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    name = dialect.name.upper()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __spec__.name, dialect.name, stdout=asyncio.subprocess.PIPE,
        env=os.environ | {f"AXE_{name}_BASE_URL": url, f"{name}_API_KEY": "k"},
    )  # fmt: skip
    assert process.stdout
    rounds = []
    for _ in range(ROUNDS):
        async with asyncio.timeout(30):
            await Model.all_wait.wait()
            at = time.monotonic()
            process.send_signal(signal.SIGINT)
            told = json.loads(await process.stdout.readline())
            await Model.none_waits.wait()
        assert told["children"] == ["cancelled"] * CHILDREN, told
        rounds.append((told["back"] - at, Model.closed_at - at))
    await process.wait()
    listening.close()
    back, closed = (max(column) for column in zip(*rounds, strict=True))
    shown = f"{back:.2f} s, every socket closed after {closed:.2f} s"
    row(f"interrupt, {dialect.name}", shown, back, 1, 0.5, " s")


def ask(name: str) -> None:
    """Runs the agent until it is interrupted, ten times; prints when control was back."""
    import axe_nb

    axe_nb.define(axe_nb.Agent("child", f"{name}/m"))
    agent = axe_nb.Agent("lead", f"{name}/m", system_prompt="You lead.", sub_agents=("child",))
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
