"""The least of an HTTP server that a benchmark needs: whole requests in, bytes out."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class HttpServer(asyncio.Protocol):
    """One connection; a subclass answers its requests, one after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, blank, body = self._read.partition(b"\r\n\r\n")
        if not blank:
            return
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < size:
            return
        self._read = body[size:]
        self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        """Writes the reply to `transport`, now or later."""
        raise NotImplementedError

    def send(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        self.transport.write(head.encode() + b"\r\n\r\n" + body)


async def serve(server: type[HttpServer]) -> None:
    """Prints the port, and serves until its input is closed."""
    loop = asyncio.get_running_loop()
    made = await loop.create_server(server, "127.0.0.1", 0, backlog=4096)
    print(made.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def own_process(module: str, *arguments: str) -> Iterator[str]:
    """The base URL of a module that calls `serve`, in a process of its own."""
    words = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()
