"""Cassettes: what was recorded from a server is replayed without it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, CassetteMiss, Request, Response, call, script, script_server
from axe_nb.messages import Usage
from axe_nb.scripting.wire import Protocol
from tests.protocols import provider_of
from tests.recording.runs import every_protocol, without_times

TOWNS = ("Rome", "Oslo", "Lima", "Bern", "Riga", "Bonn", "Cork", "Nice")


def define_tree(protocol: str, child_prompt: str = "You know\none town.\nBe brief.") -> None:
    provider = provider_of(protocol)
    lead = Agent("lead", f"{provider}/lead", system_prompt="You lead.", sub_agents=("guide",))
    axe_nb.define(lead)
    axe_nb.define(Agent("guide", f"{provider}/guide", system_prompt=child_prompt))


def define_scripts(seed: int = 0) -> None:
    chance = random.Random(seed)

    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn == 1:
            calls = tuple(call("call_agent", agent="guide", task=f"About {t}") for t in TOWNS)
            return Response("Let me ask.", calls, "tool_use", Usage(100, 20))
        return "\n".join(result.content for result in request.results)

    @script("guide")
    async def guide(request: Request) -> str:
        await asyncio.sleep(chance.random() / 50)
        return f"{request.last}: a fine town"


@every_protocol
@pytest.mark.req("D-59")
def test_a_recorded_tree_replays_without_its_server(protocol: Protocol, project: Path) -> None:
    define_scripts()
    define_tree(protocol)
    with script_server(protocol), axe_nb.cassette("tree.axe", "record") as recording:
        first = axe_nb.run("lead", "Compare")
        assert first.ok
        assert (recording.recorded, recording.hits) == (10, 0)
    assert all(one.reply is None for run in first.walk() for one in run.exchanges)
    with axe_nb.cassette("tree.axe", "replay") as replayed:  # no server, and no key
        again = axe_nb.run("lead", "Compare")
    assert without_times(again) == without_times(first)
    assert again.messages == first.messages
    assert (replayed.hits, replayed.misses, replayed.status().unused) == (10, 0, 0)


@pytest.mark.req("D-59")
def test_a_changed_prompt_of_a_child_is_named_and_only_it_is_asked_again(project: Path) -> None:
    define_scripts()
    define_tree("openai")
    with script_server("openai"), axe_nb.cassette("tree.axe", "record"):
        axe_nb.run("lead", "Compare")
    define_tree("openai", "You know\none city.\nBe brief.")
    with axe_nb.cassette("tree.axe", "replay"):
        result = axe_nb.run("lead", "Compare")
    with pytest.raises(CassetteMiss) as miss:
        result.raise_for_status()
    assert miss.value.lines() == [
        "cassette tree.axe has no answer for agent guide at 0.1/1: its system prompt changed in "
        'line 2: "one town." → "one city."',
        "in agent lead, turn 1",
        'record it with axe_nb.cassette("tree.axe", "auto"), then run this again',
    ]
    with script_server("openai") as server, axe_nb.cassette("tree.axe", "auto") as recording:
        assert axe_nb.run("lead", "Compare").ok
        assert len(server.requests) == 8
        assert (recording.hits, recording.recorded) == (2, 8)
    with axe_nb.cassette("tree.axe", "replay"):
        assert axe_nb.run("lead", "Compare").ok
