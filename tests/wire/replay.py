"""Sends canned replies over loopback and keeps what was asked.

A reply is a JSON object as in `fixtures/`: `status`, `headers`, and `body` (text, or JSON to be
written) or `stream` (chunks: text or {"hex"}). `network` says what goes wrong on the way:
`close_before_headers`, `short_body`, `cut_chunked`, `close_after` (without saying so), or
`silence`: no answer until the client leaves. A reply may hold a `sequence` of replies, one per
request; its last one repeats. Servers with a mind of their own override `reply_to`.

    with Replay({"hello": {"status": 200, "body": {}}}) as server:
        server.url("hello")     # base URL
        server.log("hello")     # the requests so far
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

FIXTURES = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parent / "fixtures").glob("*.json"))
}
"""Name → reply, with what a careful client makes of it under `expect`."""

CHUNK_PAUSE = 0.01


@dataclass(frozen=True)
class Asked:
    path: str
    """Below the base URL."""
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    connection: int
    at: float = field(default_factory=time.monotonic)

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Replay(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, replies: Mapping[str, Mapping[str, Any]] = FIXTURES) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = replies
        self.asked: dict[str, list[Asked]] = {}
        self.connections = 0
        self.left = threading.Semaphore(0)
        """Released once for each client that left while it was met with silence."""
        self.left_at: list[float] = []
        self.closed = threading.Semaphore(0)
        self.lock = threading.Lock()

    def __enter__(self) -> Replay:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def url(self, name: str) -> str:
        return f"{self.root}/{name}"

    def log(self, name: str) -> Sequence[Asked]:
        return self.asked.get(name, [])

    def reply_to(self, name: str, asked: Asked) -> Mapping[str, Any]:
        with self.lock:
            log = self.asked.setdefault(name, [])
            log.append(asked)
        reply = self.replies[name]
        steps = reply.get("sequence")
        return steps[min(len(log), len(steps)) - 1] if steps else reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.replay = cast(Replay, self.server)
        with self.replay.lock:
            self.number = self.replay.connections
            self.replay.connections += 1

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        try:
            self._answer()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = urlsplit(self.path)._replace(scheme="", netloc="").geturl()  # as by a proxy
        _, name, path = f"{path}/".split("/", 2)
        headers = {key.lower(): value for key, value in self.headers.items()}
        asked = Asked(f"/{path}".removesuffix("/"), headers, raw, self.number)
        reply = self.replay.reply_to(name, asked)
        match reply.get("network"):
            case "close_before_headers":
                self.close_connection = True
            case "silence":
                self._wait_until_the_client_leaves()
            case _ if reply.get("stream") is not None:
                self._stream(reply)
            case _:
                self._whole(reply)

    def _wait_until_the_client_leaves(self) -> None:
        self.close_connection = True
        with suppress(ConnectionResetError):
            if self.connection.recv(1):
                return
        self.replay.left_at.append(time.monotonic())
        self.replay.left.release()

    def _head(self, reply: Mapping[str, Any], *more: tuple[str, str]) -> None:
        self.send_response(reply.get("status", 200))
        for name, value in (*(reply.get("headers") or {}).items(), *more):
            self.send_header(name, value)
        self.end_headers()

    def _whole(self, reply: Mapping[str, Any]) -> None:
        body = _bytes(reply.get("body", ""))
        is_short = reply.get("network") == "short_body"
        self._head(reply, ("content-length", str(len(body) + (50 if is_short else 0))))
        self.wfile.write(body)
        self.close_connection |= is_short or reply.get("network") == "close_after"

    def _stream(self, reply: Mapping[str, Any]) -> None:
        self._head(reply, ("transfer-encoding", "chunked"))
        for part in reply["stream"]:
            chunk = _bytes(part)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.flush()
            time.sleep(CHUNK_PAUSE)
        if reply.get("network") == "cut_chunked":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, dict) and "hex" in body:
        return bytes.fromhex(body["hex"])
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()


def bytes_of(reply: Mapping[str, Any]) -> bytes:
    return b"".join(map(_bytes, reply.get("stream") or [reply.get("body", "")]))
