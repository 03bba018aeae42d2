"""A gateway that refuses calls in the history of a request without tools, as those to Claude do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent

REFUSAL = "Anthropic expects the `tools=` param to be passed in when messages contain tool calls"


class Gateway(ThreadingHTTPServer):
    """Its model calls the first tool once, then answers with data that does not fit, then fits."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        has_calls = any("tool_calls" in message for message in body["messages"])
        if has_calls and not body.get("tools"):
            self._send(400, {"error": {"message": REFUSAL, "type": "invalid_request_error"}})
            return
        message: dict[str, Any] = {"role": "assistant", "content": '{"n": "many"}'}
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        if not has_calls and body.get("tool_choice") != "none":
            function = {"name": tools[0], "arguments": "{}"}
            message = {
                "role": "assistant", "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            }  # fmt: skip
        elif body.get("tool_choice") == "none":
            message["content"] = '{"n": 3}'
        self._send(200, {"choices": [{"finish_reason": "stop", "message": message}]})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with Gateway() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}")
        yield server
        server.shutdown()


@axe_nb.tool
def look() -> str:
    """Looks at the map."""
    return "a map"


def test_a_repair_keeps_the_tools_and_forbids_their_use(gateway: Gateway) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = Agent("a", "openai/anthropic/claude-sonnet-5-5", tools=[look], output=schema)
    result = axe_nb.run(agent, "How many?", display=False)
    assert (result.data, result.error) == ({"n": 3}, None)
    first, second, repair = gateway.bodies
    assert repair["tools"] == first["tools"] == second["tools"]
    assert [body.get("tool_choice") for body in gateway.bodies] == [None, None, "none"]
