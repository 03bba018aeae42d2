"""MCP servers that run elsewhere, over HTTP."""

from __future__ import annotations

import gzip
import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from axe_nb import ConfigError, call
from tests.engine.in_process import heard, texts
from tests.mcp_servers.servers import caller, play, stage, wait_until

pytestmark = pytest.mark.req("D-46")

ROOT = Path(__file__).parents[2]


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(transport: str, port: int) -> Iterator[None]:
    words = [sys.executable, "-m", "tests.mcp_servers.http_server", transport, str(port)]
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_open(port))
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "/mcp"), ("sse", "/sse")])
def test_a_server_elsewhere_is_used_dies_and_is_used_again(
    transport: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMO", "from the environment")
    port = find_port()
    table = {
        "name": "far", "url": f"http://127.0.0.1:{port}{path}", "transport": transport,
        "headers": {"X-Memo": "${MEMO}"}, "start_timeout": 60,
    }  # fmt: skip
    servers = (table,)  # as in files of the Axe command line
    calls = (
        call("far__add", a=2, b=3), call("far__header"), call("far__add", a="x"),
        call("far__large"), call("far__die"),
    )  # fmt: skip
    with stage() as on:
        with serving(transport, port):
            result = play(on, caller(*calls, mcp_servers=servers))
        assert texts(result, 0) == ["5"], result
        assert texts(result, 1) == ["from the environment"]
        for turn in (2, 3, 4):
            [refused] = heard(result, turn)
            assert refused.is_error, refused
            assert len(refused.content) < 70_000
        with serving(transport, port):
            again = play(on, caller(call("far__add", a=1, b=1), mcp_servers=servers))
        assert again.text == "2"


@pytest.mark.parametrize("path", ["/moved", "/large", "/zip", "/zip-stream", "/html", "/nothing"])
def test_an_address_without_a_server_is_an_error_that_names_it(path: str) -> None:
    hits: list[str] = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hits.append(self.path)
            kinds = {"/html": "text/html", "/zip-stream": "text/event-stream"}
            self.send_response({"/moved": 307, "/nothing": 404}.get(self.path, 200))
            if self.path == "/moved":
                self.send_header("location", "http://127.0.0.2:9/mcp")
            if self.path.startswith("/zip"):
                self.send_header("content-encoding", "gzip")
            self.send_header("content-type", kinds.get(self.path, "application/json"))
            self.end_headers()
            if self.path == "/zip-stream":
                self.wfile.write(gzip.compress(bytes(30_000_000)))
            elif self.path == "/large":
                for _ in range(40):
                    self.wfile.write(b"[" * 1_000_000)
            else:
                self.wfile.write(b"<b>hello</b>")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        table = {"url": f"http://127.0.0.1:{server.server_port}{path}", "start_timeout": 20}
        with stage() as on, pytest.raises(ConfigError) as raised:
            play(on, caller(mcp_servers={"far": table}))
    finally:
        server.shutdown()
        server.server_close()
    assert hits
    assert 'MCP server "far" did not start' in str(raised.value)
    is_refused = "sent a compressed reply, which was not requested" in str(raised.value)
    assert is_refused == path.startswith("/zip")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 600
    assert "mcp_servers.far.url" in raised.value.hint
