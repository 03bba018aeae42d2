"""What a cap of `[limits]` refused when a tree was recorded is refused in each replay, no more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, Response, RunResult, call, script
from axe_nb.messages import Usage

REPLAYS = 4

CHILDREN = 6


def define(limits: Mapping[str, Any], seed: int, turns: int = 2) -> Agent:
    """A lead with children that ask in a random order."""
    chance = random.Random(seed)

    @axe_nb.tool
    async def rest() -> str:
        await asyncio.sleep(chance.random() / 100)
        return "rested"

    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn == 1:
            calls = [call("call_agent", agent="guide", task=f"{n}") for n in range(CHILDREN)]
            return Response("", tuple(calls), "tool_use", Usage(10, 10))
        return "\n".join(result.content for result in request.results)

    @script("guide")
    async def guide(request: Request) -> Any:
        await asyncio.sleep(chance.random() / 50)
        if request.turn < turns:
            return Response("", (call("rest"),), "tool_use", Usage(50, 10))
        return Response(f"{request.messages[0].content}: done", usage=Usage(50, 10))

    axe_nb.define(Agent(name="guide", model="script/guide", tools=("rest",)))
    lead_agent = Agent(name="lead", model="script/lead", sub_agents=("guide",), limits=limits)
    axe_nb.define(lead_agent)
    return lead_agent


def describe(result: RunResult) -> Any:
    return [
        (one.id, one.status, one.text, one.error, one.turns, one.messages) for one in result.walk()
    ]


@pytest.mark.req("D-59")
@pytest.mark.parametrize(
    "limits", [{"max_requests": 5}, {"max_requests": 9}, {"max_total_tokens": 350}]
)
@pytest.mark.parametrize("mode", ["replay", "auto"])
def test_refusals_of_parallel_children_replay_the_same(
    limits: dict[str, Any], mode: Any, project: Path
) -> None:
    agent = define(limits, seed=0)
    with axe_nb.cassette("tree.axe", "record"):
        first = axe_nb.run(agent, "Go")
    said = "".join(message.content for one in first.walk() for message in one.messages)
    errors = [one.error or "" for one in first.walk()]
    results = [r.content for one in first.walk() for m in one.messages for r in m.tool_results]
    assert any(f"limits.{next(iter(limits))}" in text for text in (said, *errors, *results))
    for seed in range(1, REPLAYS):
        define(limits, seed)
        with axe_nb.cassette("tree.axe", mode) as cassette:
            again = axe_nb.run(agent, "Go")
        assert (cassette.misses, cassette.recorded) == (0, 0)
        assert describe(again) == describe(first)


@pytest.mark.req("D-59")
def test_a_cap_that_was_raised_asks_for_what_it_had_refused(project: Path) -> None:
    with axe_nb.cassette("tree.axe", "record"):
        refused = axe_nb.run(define({"max_requests": 5}, seed=0, turns=1), "Go")
    assert not refused.ok
    with axe_nb.cassette("tree.axe", "auto") as cassette:
        result = axe_nb.run(define({"max_requests": 50}, seed=1, turns=1), "Go")
    assert (result.status, cassette.hits, len(result.children)) == ("completed", 5, CHILDREN)
    with axe_nb.cassette("tree.axe", "replay"):
        again = axe_nb.run(define({"max_requests": 50}, seed=2, turns=1), "Go")
    assert describe(again) == describe(result)
