"""A server for tests that does with each connection exactly what the test says.

It runs in threads, so it goes on while a test blocks its event loop.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HELLO = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'
SECONDS = 30.0
"""Nothing here takes as long, unless it fails."""


def reply(body: bytes = HELLO, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass
class Request:
    """One request as it came."""

    connection: int
    """Number of its connection, from 0."""
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
    """The server's end of a connection."""

    def __init__(self, server: RawServer, sock: socket.socket, number: int) -> None:
        self.server = server
        self.sock = sock
        self.number = number
        self._read = b""

    def read_head(self) -> str:
        """The next head; raises ConnectionError at the end of the connection."""
        while b"\r\n\r\n" not in self._read:
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionResetError
            self._read += data
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        return head.decode("latin-1")

    def read(self) -> Request:
        """The next request; raises ConnectionError at the end of the connection."""
        request = Request(self.number, self.read_head(), b"")
        size = int(request.header("content-length") or 0)
        while len(self._read) < size:
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionResetError
            self._read += data
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
        """Closes the connection with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


@dataclass
class RawServer:
    """The server; every connection is answered by `answer` in a thread, then closed."""

    answer: Callable[[Peer], None]
    listening: socket.socket
    context: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    """What came to a proxy."""
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each request."""
    closed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each connection that is over."""
    connections: int = 0
    faults: list[BaseException] = field(default_factory=list)
    """What went wrong in `answer`, other than that the connection broke."""

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    @property
    def url(self) -> str:
        scheme = "https" if self.context else "http"
        host = "[::1]" if self.listening.family == socket.AF_INET6 else "127.0.0.1"
        return f"{scheme}://{host}:{self.port}"

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listening.accept()
            except OSError:  # the listening socket was closed
                return
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self.serve, args=(sock, number), daemon=True).start()

    def serve(self, sock: socket.socket, number: int) -> None:
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
            with suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            sock.close()
            self.closed.release()


@contextmanager
def raw_server(
    answer: Callable[[Peer], None],
    context: ssl.SSLContext | None = None,
    family: socket.AddressFamily = socket.AF_INET,
) -> Iterator[RawServer]:
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with socket.create_server((host, 0), family=family, backlog=512) as listening:
        server = RawServer(answer, listening, context)
        threading.Thread(target=server.accept, daemon=True).start()
        try:
            yield server
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # wakes accept()
    assert server.faults == []


def always(data: bytes) -> Callable[[Peer], None]:
    """Sends the same to every request."""

    def answer(peer: Peer) -> None:
        while True:
            peer.read()
            peer.send(data)

    return answer
