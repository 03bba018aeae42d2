"""What models make of arguments: each call is read kindly or refused, none raises or hangs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from axe_nb import Request
from axe_nb.messages import ToolCall
from tests.delegation.copies import tool
from tests.engine.in_process import agent, check_events, check_history, heard, stage

DATA = Path(__file__).parent / "data"


def whole(value: Any) -> Any:
    """The value with what is too large for a file written out."""
    match value:
        case {"$repeat": [text, times]}:
            return text * times
        case {"$list": [entry, times]}:
            return [whole(entry)] * times
        case {"$nest": depth}:
            inner: Any = "end"
            for _ in range(depth):
                inner = {"in": [inner]}
            return inner
        case dict():
            return {key: whole(entry) for key, entry in value.items()}
        case list():
            return [whole(entry) for entry in value]
    return value


def cases() -> list[Any]:
    """One parameter per entry of the files: (tool, entry)."""
    return [
        pytest.param(file.stem, entry, id=f"{file.stem}: {entry['why']}")
        for file in sorted(DATA.glob("*.json"))
        for entry in json.loads(file.read_text("utf-8"))
    ]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("name", "entry"), cases())
@pytest.mark.req("O-10", "O-27", "O-31", "O-41", "O-42", "X-7", "X-8", "X-9", "X-10", "X-11",
                 "X-14", "X-15", "X-28", "X-37", "A-7.1", "A-7.3-2", "A-7.3-3", "A-7.3-4",
                 "A-7.3-o", "A-E3.1", "A-E3.2", "A-E3.3", "D-7", "D-11", "D-12", "D-13", "D-18",
                 "D-21")  # fmt: skip
def test_a_malformed_call_is_an_error_result_or_read_kindly(name: str, entry: Any) -> None:
    call = ToolCall("", name, whole(entry.get("arguments", {})), entry.get("raw", ""))

    def model(request: Request) -> Any:
        return call if request.agent == "lead" and request.turn == 1 else "done"

    ways = ("subagent", "spawn_agent", "delegate_task")
    lead = agent("lead", model, tools=ways, sub_agents=("helper",), mode="auto")
    made = stage(lead, agent("helper", "done"))
    result = asyncio.run(made.ask(tools=(tool("peek"), *ways)))
    [answer] = heard(result)
    assert entry["says"] in answer.content
    assert len(result.children) == entry["children"]
    assert answer.is_error is (entry["children"] == 0)
    assert len(answer.content) < 5000, "what a model sent is not sent back at length"
    assert (result.ok, result.text) == (True, "done")
    check_events(made.events, result)
    for one in result.walk():
        assert len(one.agent) < 100
        assert "\n" not in one.agent
        check_history(one.messages)
    json.dumps(result.to_dict())
