"""OpenAI's server as it was in November 2026, with its refusals.

Chat Completions refuses tools for models that always reason, some models exist in one API only, and
the Responses API wants its items back as they were.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from axe_nb.scripting.responses_requests import PARAMETERS
from tests.providers import sdk
from tests.providers.dialects import BY_NAME, make_call, make_message, make_response

REASONS = re.compile(r"gpt-(5\.6|6)")
ONLY_RESPONSES = re.compile(r"gpt-.*-(pro|codex)")
ONLY_CHAT = re.compile(r"gpt-4o-search")

TOOLS = (
    "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)
WRONG = "This model is only supported in {other} and not in {this}."
CHAT, RESPONSES = "v1/chat/completions", "v1/responses"


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, message: str, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param = status, param


@dataclass
class OpenAI:
    """The server, what it was asked, and what it has said."""

    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """(path, body)"""
    said: list[list[dict[str, Any]]] = field(default_factory=list)
    """The items of each reply of the Responses API."""
    url: str = ""

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request.

        Raises:
            Refused: it is answered with an error.
        """
        self.asked.append((path, body))
        match path:
            case "/v1/chat/completions":
                return self._complete(body)
            case "/v1/responses":
                return self._respond(body)
        raise Refused(f"Invalid URL (POST {path})", 404)

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        model = body["model"]
        if ONLY_RESPONSES.match(model):
            raise Refused(WRONG.format(other=RESPONSES, this=CHAT), 404, "model")
        if REASONS.match(model) and body.get("tools"):
            raise Refused(TOOLS.format(model=model), 400, "reasoning_effort")
        if REASONS.match(model) and "max_tokens" in body:
            raise Refused("Unsupported parameter: 'max_tokens' is not supported with this model. "
                          "Use 'max_completion_tokens' instead.", 400, "max_tokens")  # fmt: skip
        sdk.takes("openai", body)
        return BY_NAME["openai"].reply("By Chat Completions.", (), "stop")

    def _respond(self, body: dict[str, Any]) -> dict[str, Any]:
        if ONLY_CHAT.match(body["model"]):
            raise Refused(WRONG.format(other=CHAT, this=RESPONSES), 404, "model")
        for key in body.keys() - PARAMETERS:
            raise Refused(f"Unsupported parameter: '{key}'.", 400, key)
        if body.get("store") is not False or "previous_response_id" in body:
            raise Refused("this organization keeps no data")
        sdk.takes("responses", body)
        self._check_input(body["input"])
        number = len(self.said)
        reasoning = {
            "type": "reasoning", "id": f"rs_{number}", "summary": [],
            "encrypted_content": f"gAAAA{number}",
        }  # fmt: skip
        tools = [tool["name"] for tool in body.get("tools", ())]
        items: list[dict[str, Any]]
        if "function_call_output" in [item.get("type") for item in body["input"]]:
            items = [reasoning, {**make_message("By Responses."), "phase": "final_answer"}]
        elif "call_agent" in tools:
            task = '{"agent": "small", "task": "Help"}'
            items = [reasoning, make_call(0, "call_0", "call_agent", task)]
        elif tools:
            items = [
                reasoning, {**make_message("I look."), "phase": "commentary"},
                make_call(0, "call_0", "look", '{"at": "a"}'),
                make_call(1, "call_1", "look", '{"at": "b"}'),
            ]  # fmt: skip
        else:
            items = [make_message("By Responses.")]
        self.said.append(items)
        return make_response(items, "stop")

    def _check_input(self, items: list[dict[str, Any]]) -> None:
        """Checks that each turn with reasoning comes back whole, unchanged and in order."""
        ids = {item["id"]: said for said in self.said for item in said if "id" in item}
        for at, item in enumerate(items):
            if item.get("type") != "reasoning":
                continue
            said = ids.get(item["id"])
            came = [_normal(one) for one in items[at : at + len(said or [])]]
            if said is None or came != [_normal(one) for one in said]:
                raise Refused("The encrypted content could not be verified.")
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        if calls != results:
            raise Refused("No tool output found for function call.")


def _normal(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item with its arguments as data: they come back equal, not in the same letters."""
    arguments = {"arguments": json.loads(item["arguments"])} if "arguments" in item else {}
    return {**item, **arguments}


def _stream(reply: dict[str, Any]) -> bytes:
    """The last event alone, which has everything."""
    event = {"type": "response.completed", "response": reply}
    return f"event: response.completed\ndata: {json.dumps(event)}\n\n".encode()


@contextmanager
def openai_2026() -> Iterator[OpenAI]:
    """A running server, at any host: it can be a proxy's too."""
    openai = OpenAI()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = urlsplit(self.path).path
            try:
                reply = openai.answer(path, body)
            except Refused as refused:
                error = {"message": str(refused), "type": "invalid_request_error",
                         "param": refused.param, "code": None}  # fmt: skip
                self._send(refused.status, json.dumps({"error": error}).encode())
                return
            streams = bool(body.get("stream")) and path == "/v1/responses"
            raw = _stream(reply) if streams else json.dumps(reply).encode()
            self._send(200, raw, "text/event-stream" if streams else "application/json")

        def _send(self, status: int, raw: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        openai.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield openai
        finally:
            server.shutdown()
