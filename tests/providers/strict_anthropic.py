"""A loopback server that refuses what Anthropic's API refuses of its models that think.

Its model calls `look` once if that is offered, then answers; it thinks before each reply, and signs
its thinking for the system prompt, the tools and the messages before it, with a key of its own.
Replies that are not streamed end like those through a proxy whose patience is shorter than the
thinking.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tests.wire.replay import Asked, Replay
from tests.wire.search_server import event, stream

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


class StrictAnthropic(Replay):
    """The server; `patience` are the seconds after which a proxy before it closes a silent
    connection, `silence` those that its model thinks."""

    def __init__(self, *, patience: float | None = None, silence: float = 0.0) -> None:
        super().__init__({})
        self.bodies: list[dict[str, Any]] = []
        self.patience = patience
        self.silence = silence

    def reply_to(self, name: str, asked: Asked) -> Mapping[str, Any]:
        body = asked.body
        self.bodies.append(body)
        try:
            check(body, asked.headers["anthropic-version"], self.root)
        except Refusal as refusal:
            error = {"type": "invalid_request_error", "message": str(refusal)}
            return {"status": 400, "body": {"type": "error", "error": error}}
        if body.get("stream"):
            return {"headers": {"content-type": "text/event-stream"}, "stream": self.stream(body)}
        if self.patience is not None and self.silence > self.patience:
            time.sleep(self.patience)
            return {"network": "close_before_headers"}
        time.sleep(self.silence)
        return {"body": answer(body, self.root)}

    def stream(self, body: dict[str, Any]) -> Iterator[str]:
        first, *others = map(event, stream(answer(body, self.root)))
        yield first
        until = time.monotonic() + self.silence
        while time.monotonic() < until:  # while it thinks
            yield event({"type": "ping"})
            time.sleep(0.05)
        yield from others


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
    """Raises Refusal for a request that the server that signs with the key would refuse."""
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
