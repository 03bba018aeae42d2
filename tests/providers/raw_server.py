"""A server for tests that does with each connection exactly what the test says.

It runs in threads, so it goes on while a test blocks its event loop.
"""

from __future__ import annotations

import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

HELLO = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'
SECONDS = 30.0
"""Nothing here takes as long, unless it fails."""


def reply(body: bytes = HELLO, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass
class Request:
    connection: int
    head: str
    body: bytes

    @property
    def start(self) -> str:
        return self.head.split("\r\n")[0]

    def header(self, name: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None


class Peer:
    def __init__(self, server: RawServer, sock: socket.socket, number: int) -> None:
        self.server = server
        self.sock = sock
        self.number = number
        self._read = b""

    def _receive(self) -> None:
        """Reads on; raises ConnectionError at the end of the connection."""
        if not (data := self.sock.recv(65536)):
            raise ConnectionResetError
        self._read += data

    def read_head(self) -> str:
        """The next head; raises ConnectionError at the end of the connection."""
        while b"\r\n\r\n" not in self._read:
            self._receive()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        return head.decode("latin-1")

    def read(self) -> Request:
        """The next request; raises ConnectionError at the end of the connection."""
        request = Request(self.number, self.read_head(), b"")
        size = int(request.header("content-length") or 0)
        while len(self._read) < size:
            self._receive()
        request.body, self._read = self._read[:size], self._read[size:]
        self.server.requests.append(request)
        self.server.asked.release()
        return request

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def wait_until_closed(self) -> bool:
        """True once the client has closed the connection; False if it sends something."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class RawServer(socketserver.ThreadingTCPServer):
    """The server; every connection is answered by `answer` in a thread, then closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, answer: Callable[[Peer], None], context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.answer, self.context = answer, context
        self.requests: list[Request] = []
        self.heads: list[str] = []
        """What came to a proxy."""
        self.asked = threading.Semaphore(0)
        self.closed = threading.Semaphore(0)
        self.connections = 0
        self.faults: list[BaseException] = []
        """What went wrong in `answer`, other than that the connection broke."""

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    def get_request(self) -> tuple[socket.socket, int]:
        sock, _ = super().get_request()
        self.connections += 1
        return sock, self.connections - 1

    def process_request_thread(self, sock: Any, number: Any) -> None:
        try:
            sock.settimeout(SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                sock = self.context.wrap_socket(sock, server_side=True)
            self.answer(Peer(self, sock, number))
        except (OSError, ValueError):  # the connection broke
            pass
        except BaseException as error:
            self.faults.append(error)
        finally:
            self.shutdown_request(sock)
            self.closed.release()


@contextmanager
def raw_server(
    answer: Callable[[Peer], None], context: ssl.SSLContext | None = None
) -> Iterator[RawServer]:
    with RawServer(answer, context) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
    assert server.faults == []


def always(data: bytes) -> Callable[[Peer], None]:

    def answer(peer: Peer) -> None:
        while True:
            peer.read()
            peer.send(data)

    return answer
