"""More children than the process may open connections: the others wait their turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

resource = pytest.importorskip("resource")

SEVERAL = """
import asyncio, sys

REPLY = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'

async def answer(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        size = head.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0]
        await reader.readexactly(int(size))
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(REPLY) + REPLY)

async def main():
    servers = [await asyncio.start_server(answer, "127.0.0.1", 0, backlog=200) for _ in range(4)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""

ASK_SEVERAL = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from axe_nb.messages import Message, Request
from axe_nb.providers.openai import OpenAI

async def main(ports):
    request = Request("m", (Message("user", "hi"),))
    for port in ports:
        provider = OpenAI(f"http://127.0.0.1:{port}", "k")
        answers = await asyncio.gather(*(provider.send(request) for _ in range(100)))
        print(sum(answer.content == "hello" for answer in answers))

asyncio.run(main(sys.argv[1:]))
"""


@contextmanager
def process(script: str) -> Iterator[list[str]]:
    """The first line of a script that serves from a process of its own.

    Its files are none of the asking process's.
    """
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()
        server.communicate()


@pytest.mark.req("D-51")
def test_128_open_files_carry_100_requests_to_each_of_four_servers() -> None:
    with process(SEVERAL) as ports:
        done = subprocess.run(
            [sys.executable, "-c", ASK_SEVERAL, *ports], capture_output=True, text=True, timeout=90
        )
    assert done.stdout.split() == ["100"] * 4, done.stderr
