"""A reply that Anthropic's server pauses while its own tools work."""

from __future__ import annotations

from typing import Any

import pytest

import axe_nb
from axe_nb import Agent
from tests.providers import sdk
from tests.providers.dialects import KEY
from tests.wire.replay import Replay

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}


def reply(*content: Any, stop: str) -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 7}
    return {"status": 200, "body": {"content": content, "stop_reason": stop, "usage": usage}}


@pytest.mark.req("D-32")
def test_the_paused_blocks_go_back_and_the_reply_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    replies = [
        reply(SEARCH, stop="pause_turn"),
        reply({"type": "text", "text": "42"}, stop="end_turn"),
    ]
    with Replay({"x": {"sequence": replies}}) as server:
        monkeypatch.setenv("AXE_ANTHROPIC_BASE_URL", server.url("x"))
        result = axe_nb.run(Agent(name="a", model="anthropic/m"), "Search.")
        first, second = server.log("x")
    assert (result.text, result.turns) == ("42", 2)
    user = {"role": "user", "content": [{"type": "text", "text": "Search."}]}
    assert second.body["messages"] == [user, {"role": "assistant", "content": [SEARCH]}]
    sdk.takes("anthropic", first.body)
    sdk.takes("anthropic", second.body)
