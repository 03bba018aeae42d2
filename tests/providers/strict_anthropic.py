"""A loopback server that refuses what Anthropic's API refuses of its models that think.

Its model calls `look` once if that is offered, then answers; it thinks before each reply, and signs
its thinking for the system prompt, the tools and the messages before it, with a key of its own.
Replies that are not streamed end like those through a proxy whose patience is shorter than the
thinking.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

THOUGHT = "I count the towns."
ANSWER = "Three."

ROOM = 2000
"""Tokens that its thinking takes."""

MESSAGE_KEYS = {"role", "content"}
TOOL_KEYS = {"name", "description", "input_schema", "cache_control"}
BLOCK_KEYS = {
    "text": {"type", "text", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}


class Refusal(Exception):
    """The words of a 400."""


class StrictAnthropic(ThreadingHTTPServer):
    """The server; ends with its `with` block."""

    daemon_threads = True

    def __init__(self, *, patience: float | None = None, silence: float = 0.0) -> None:
        """Starts it.

        Args:
            patience: seconds after which a proxy before it closes a silent connection.
            silence: seconds that its model thinks.
        """
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[dict[str, Any]] = []
        self.patience = patience
        self.silence = silence
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> StrictAnthropic:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.shutdown()
        self.server_close()


def sign(body: dict[str, Any], before: int, key: str) -> str:
    """The signature of thinking that follows the first messages of a request."""
    system = body.get("system", "")
    text = system if isinstance(system, str) else system[0]["text"]
    prefix = [key, text, body.get("tools", []), body["messages"][:before]]
    plain = json.dumps(_without_marks(prefix), sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:20]


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(one) for one in value]
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
    return value


def check(body: dict[str, Any], version: str, key: str) -> None:
    """Checks a request to the server that signs with the key.

    Raises:
        Refusal: it would be refused.
    """
    if not isinstance(body.get("max_tokens"), int):
        raise Refusal("max_tokens: Field required")
    if version != "2023-06-01" and "temperature" in body:
        raise Refusal("temperature: Extra inputs are not permitted")
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    thinking = body.get("thinking", {})
    if thinking.get("type") in ("disabled", "enabled"):
        raise Refusal(
            f'"thinking.type.{thinking["type"]}" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
    if forced:
        raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")
    for tool in body.get("tools", []):
        if extra := tool.keys() - TOOL_KEYS:
            raise Refusal(f"tools.0.custom.{extra.pop()}: Extra inputs are not permitted")
    for number, message in enumerate(body["messages"]):
        if extra := message.keys() - MESSAGE_KEYS:
            raise Refusal(f"messages.{number}.{extra.pop()}: Extra inputs are not permitted")
        for at, block in enumerate(message["content"]):
            where = f"messages.{number}.content.{at}"
            if extra := block.keys() - BLOCK_KEYS[block["type"]]:
                raise Refusal(f"{where}.{extra.pop()}: Extra inputs are not permitted")
            if block["type"] == "thinking" and block["signature"] != sign(body, number, key):
                raise Refusal(
                    f"{where}: Invalid `signature` in `thinking` block: the conversation before "
                    "it differs from the one that it was produced for"
                )


def answer(body: dict[str, Any], key: str) -> dict[str, Any]:
    """The reply of its model."""
    shown = body.get("thinking", {}).get("display") == "summarized"
    thought = {
        "type": "thinking", "thinking": THOUGHT if shown else "",
        "signature": sign(body, len(body["messages"]), key),
    }  # fmt: skip
    last = body["messages"][-1]["content"][-1]["type"]
    offered = [tool["name"] for tool in body.get("tools", [])]
    may_call = body.get("tool_choice", {}).get("type") != "none"
    call = {"type": "tool_use", "id": f"t{len(body['messages'])}", "name": "look", "input": {}}
    said: list[dict[str, Any]] = [{"type": "text", "text": ANSWER}]
    stop = "end_turn"
    if "look" in offered and may_call and last == "text":
        said, stop = [call], "tool_use"
    if body["max_tokens"] < ROOM:
        said, stop = [], "max_tokens"
    used = min(body["max_tokens"], ROOM)
    return {
        "id": "m", "type": "message", "role": "assistant", "model": body["model"],
        "content": [thought, *said], "stop_reason": stop, "stop_sequence": None,
        "usage": {
            "input_tokens": 5, "output_tokens": used + 2,
            "output_tokens_details": {"thinking_tokens": used},
        },
    }  # fmt: skip


def stream(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a reply, without those that keep the connection busy."""
    head = {**reply, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}]
    for index, block in enumerate(reply["content"]):
        match block["type"]:
            case "thinking":
                start = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "text":
                start = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": block["text"]}]
            case _:
                start, deltas = {**block, "input": {}}, []
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    changes = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": changes, "usage": reply["usage"]})
    return [*events, {"type": "message_stop"}]


class _Handler(BaseHTTPRequestHandler):
    server: StrictAnthropic
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.bodies.append(body)
        try:
            check(body, self.headers["anthropic-version"], server.url)
        except Refusal as refusal:
            error = {"type": "invalid_request_error", "message": str(refusal)}
            self._send(400, {"type": "error", "error": error})
            return
        if body.get("stream"):
            self._stream(stream(answer(body, server.url)))
            return
        if server.patience is not None and server.silence > server.patience:
            time.sleep(server.patience)
            self.close_connection = True
            return
        time.sleep(server.silence)
        with suppress(OSError):  # the client may have gone
            self._send(200, answer(body, server.url))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, events: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        until = time.monotonic() + self.server.silence
        for number, event in enumerate(events):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            while number == 0 and time.monotonic() < until:  # while it thinks
                self.wfile.write(b'event: ping\ndata: {"type": "ping"}\n\n')
                self.wfile.flush()
                time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        pass
