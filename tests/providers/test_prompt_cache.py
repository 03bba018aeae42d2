"""Marks for Anthropic's prompt cache."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from axe_nb.messages import Message, ToolCall, ToolResult
from axe_nb.providers.anthropic import body
from tests.providers import sdk
from tests.providers.dialects import CALL_AGENT, ask

LONG = "You lead. " * 500


def turns(count: int) -> list[Message]:
    """A conversation after so many calls."""
    said = [Message("user", "hi")]
    for n in range(count):
        call = ToolCall(f"c{n}", "call_agent", {"n": n})
        results = (ToolResult(f"c{n}", f"found {n}", name="call_agent"),)
        said += [Message("assistant", "", (call,)), Message("tool", tool_results=results)]
    return said


def sent(count: int = 0, **more: Any) -> dict[str, Any]:
    more = {"tools": (CALL_AGENT, CALL_AGENT), "system": LONG, **more}
    data: dict[str, Any] = json.loads(body(ask(*turns(count), **more)))
    sdk.takes("anthropic", copy.deepcopy(data))
    return data


def marked(data: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The places of the marks."""
    places: list[tuple[Any, ...]] = []

    def walk(value: Any, path: tuple[Any, ...]) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in items:
            if key == "cache_control":
                places.append(path)
            elif isinstance(entry, (dict, list)):
                walk(entry, (*path, key))

    walk(data, ())
    return places


def test_tools_system_prompt_and_history_are_marked_in_at_most_four_places() -> None:
    assert marked(sent()) == [("system", 0), ("tools", 1), ("messages", 0, "content", 0)]
    assert marked(sent(3)) == [
        ("system", 0), ("tools", 1), ("messages", 4, "content", 0), ("messages", 6, "content", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [{"tools": ()}, {"system": "short"}, {"params": {"cache_control": {"type": "ephemeral"}}}],
)
def test_what_would_not_pay_or_is_marked_by_the_user_gets_none(more: dict[str, Any]) -> None:
    assert [place for place in marked(sent(**more)) if place] == []


def test_a_conversation_that_goes_on_without_tools_is_marked() -> None:
    said = [Message("user", LONG), Message("assistant", "yes"), Message("user", "and?")]
    data = json.loads(body(ask(*said)))
    assert marked(data) == [("messages", 0, "content", 0), ("messages", 2, "content", 0)]


def test_a_history_that_ends_in_the_models_words_is_marked_before_them() -> None:
    """As after a reply that was paused, which may end in blocks that take no mark."""
    paused = Message("assistant", echo={"anthropic": [{"type": "server_tool_use", "id": "s"}]})
    data = json.loads(body(ask(*turns(1), paused, tools=(CALL_AGENT,), system=LONG)))
    assert [place[1] for place in marked(data) if place[0] == "messages"] == [2]
