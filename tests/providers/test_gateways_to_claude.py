"""A gateway that refuses calls in the history of a request without tools, as those to Claude do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent
from tests.wire.replay import Asked, Replay

REFUSAL = "Anthropic expects the `tools=` param to be passed in when messages contain tool calls"


class Gateway(Replay):
    """Its model calls the first tool once, then answers with data that does not fit, then fits."""

    def reply_to(self, name: str, asked: Asked) -> Mapping[str, Any]:
        super().reply_to(name, asked)
        body = asked.body
        has_calls = any("tool_calls" in message for message in body["messages"])
        if has_calls and not body.get("tools"):
            error = {"message": REFUSAL, "type": "invalid_request_error"}
            return {"status": 400, "body": {"error": error}}
        message: dict[str, Any] = {"role": "assistant", "content": '{"n": "many"}'}
        if body.get("tool_choice") == "none":
            message["content"] = '{"n": 3}'
        elif not has_calls:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": "{}"}
            call = {"id": "c", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {"body": {"choices": [{"finish_reason": "stop", "message": message}]}}


@axe_nb.tool
def look() -> str:
    """Looks at the map."""
    return "a map"


def test_a_repair_keeps_the_tools_and_forbids_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = Agent("a", "openai/anthropic/claude-sonnet-5-5", tools=[look], output=schema)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with Gateway({"x": {}}) as gateway:
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", gateway.url("x"))
        result = axe_nb.run(agent, "How many?", display=False)
        bodies = [asked.body for asked in gateway.log("x")]
    assert (result.data, result.error) == ({"n": 3}, None)
    first, second, repair = bodies
    assert repair["tools"] == first["tools"] == second["tools"]
    assert [body.get("tool_choice") for body in bodies] == [None, None, "none"]
