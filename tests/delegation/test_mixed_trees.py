"""The four ways to delegate below one another, in every order: depth, failures, time, results."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from axe_nb import Agent, Request, RunResult, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.tools.tool import ToolContext
from tests.delegation import copies
from tests.delegation.chains import WAYS, Chain, by
from tests.delegation.copies import SECONDS, offered, recorded, tool
from tests.engine.in_process import agent, ask, heard, play, said

DEPTH = {"call_agent": 3, "subagent": 3, "spawn_agent": 2, "delegate_task": 2}


def refusal(way: str, limit: int, depth: int) -> str:
    own = {
        "call_agent": f"call_agent error: maximum sub-agent depth ({limit}) reached",
        "subagent": f"Error: Maximum subagent recursion depth ({limit}) exceeded. "
        f"Current depth: {depth}. Cannot spawn nested subagent.",
    }
    return own.get(way, f"[ERROR] Error: Maximum sub-agent depth ({limit}) exceeded")


def check_depth(ways: Sequence[str], result: RunResult) -> None:
    """The chain is as deep as it may be, and who may not go deeper hears it in his way's words."""
    runs = list(result.walk())
    limits = [DEPTH[way] for way in ways]
    reached = next((d for d, limit in enumerate(limits) if d >= limit), len(ways))
    assert len(runs) == reached + 1, ways
    assert [one.metadata.get("depth", "0") for one in runs] == [str(d) for d in range(reached + 1)]
    assert all(one.ok for one in runs)
    for depth, (way, one) in enumerate(zip(ways, runs[1:], strict=False)):
        assert one.metadata.get("recursion_depth") == (str(depth) if way == "subagent" else None)
    if reached < len(ways):
        [last] = heard(runs[-1])
        assert last.content == refusal(ways[reached], limits[reached], reached)
        assert last.is_error


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.req("D-1", "D-3", "X-3", "X-4", "X-5", "X-6", "X-17", "X-42", "O-13", "O-16", "O-17",
                 "O-39", "A-10.3", "A-7.3-5", "A-7.3-o", "A-7.2")  # fmt: skip
def test_every_order_of_four_levels_ends_at_the_default_depth_of_its_ways(first: str) -> None:
    for rest in itertools.product(WAYS, repeat=3):
        ways = (first, *rest)
        check_depth(ways, Chain(ways).play())


@pytest.mark.parametrize("depth", [0, 2, 4])
@pytest.mark.req("D-3", "D-4", "A-9.1")
def test_at_every_depth_just_those_ways_are_offered_that_may_still_be_used(depth: int) -> None:
    for order in itertools.permutations(WAYS):
        seen: dict[int, list[str]] = {}

        def note(level: int, request: Request, seen: dict[int, list[str]] = seen) -> None:
            if request.turn == 1:
                seen[level] = offered(request)

        Chain(order, note).play(sub_agents_config=SubAgentsConfig(max_depth=depth))
        for level, names in seen.items():
            expected = {way for way in WAYS if level < (depth or DEPTH[way])}
            assert set(names) & set(WAYS) == expected, (order, level)
            assert "mixed_peek" in names


TOLD: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "subagent": (
        "Delegate a focused task to a recursive agent instance with isolated conversation "
        "context. Use this when you need to explore a sub-problem independently without "
        "polluting the main conversation.",
        ["label", "task_prompt"],
        {"label": "string", "task_prompt": "string", "summary_prompt": "string",
         "allowed_tools": "array", "max_turns": "integer"},
    ),
    "spawn_agent": (
        "Spawn a sub-agent to perform a focused task independently. The sub-agent has its own "
        "context window and returns a result summary. Use for: parallel investigation, focused "
        "code search, isolated analysis. Do NOT use for trivial tasks a single tool call can "
        "handle.",
        ["task"],
        {"task": "string", "scope": "string", "max_tool_calls": "number", "mode": "string"},
    ),
    "delegate_task": (
        "Break a complex task into sub-tasks and run them sequentially. Each sub-task spawns a "
        "sub-agent. Results are aggregated into a single report. Use for multi-step "
        "investigations or when exploring multiple areas of the codebase.",
        ["plan", "subtasks"],
        {"plan": "string", "subtasks": "array"},
    ),
}  # fmt: skip
"""Tool → its description, the required ones of its parameters, and all with their types."""


@pytest.mark.parametrize("way", TOLD)
@pytest.mark.req("X-1", "X-2", "X-41", "O-7", "O-14", "O-15", "D-44")
def test_the_model_is_told_of_a_way_where_tools_names_it(way: str) -> None:
    log: list[Request] = []
    copies.play({"lead": recorded(log, said("done"))}, tools=(way,))
    [spec] = log[0].tools
    schema = spec.input_schema()
    parameters = schema["properties"]
    types = {name: entry["type"] for name, entry in parameters.items()}
    assert (spec.description, schema["required"], types) == TOLD[way]
    match way:
        case "subagent":
            turns = parameters["max_turns"]
            assert (turns["minimum"], turns["maximum"]) == (1, 50)
            assert "default: 10" in turns["description"]
            assert parameters["allowed_tools"]["items"] == {"type": "string"}
        case "spawn_agent":
            assert parameters["mode"]["enum"] == ["plan", "auto"]
            assert "default: 15" in parameters["max_tool_calls"]["description"]
        case "delegate_task":
            items = parameters["subtasks"]["items"]
            assert items["required"] == ["task"]
            steps = {name: entry["type"] for name, entry in items["properties"].items()}
            assert steps == {"task": "string", "scope": "string", "depends_on": "number"}


@pytest.mark.parametrize("below", WAYS)
@pytest.mark.req("O-40", "D-8", "A-11.2")
def test_when_the_time_is_up_everything_below_is_cancelled(below: str) -> None:
    ended: list[str] = []

    async def hang(request: Request) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(request.agent)

    async def begin(ctx: ToolContext) -> str:
        return (await ctx.delegate("level 1", limits={"seconds": 1.0})).status

    def reply(level: int, request: Request) -> Any:
        if level == 0:
            return call("begin") if request.turn == 1 else request.last
        return hang(request) if level == 2 else None

    result = Chain(("", below), reply).play(mine=(tool("begin", fn=begin),))
    assert result.text == "timeout"
    assert [one.status for one in result.walk()] == ["completed", "timeout", "timeout"]
    assert len(ended) == 1


@pytest.mark.req("D-5", "A-11.3", "D-6")
def test_all_four_ways_in_one_response_answer_in_the_order_of_the_calls() -> None:
    def reply(level: int, request: Request) -> Any:
        if level == 0:
            calls = [by(way, 1) for way in WAYS]
            return calls if request.turn == 1 else "done"
        return "first" if request.tools else "summary"

    result = Chain((), reply).play()
    texts = [SECONDS.sub("#", one.content) for one in heard(result)]
    assert texts == [
        "first",
        "summary",
        "0 tool calls, #\n\nfirst",
        "1 of 1 subtasks completed\n\nSubtask 0: level 1\n0 tool calls, #\n\nfirst",
    ]
    assert [one.id for one in result.children] == ["0.1", "0.2", "0.3", "0.4"]


def chain(*max_depths: int) -> tuple[dict[str, bool], list[Agent]]:
    """Agents that each call the next where they may; and who was offered it."""
    offered: dict[str, bool] = {}

    def member(number: int) -> Agent:
        name, after = f"n{number}", f"n{number + 1}"

        def model(request: Request) -> Any:
            offered[name] = bool(request.tools)
            return ask(after) if request.turn == 1 and request.tools else f"end of {name}"

        depth = max_depths[number] if number < len(max_depths) else 0
        return agent(
            name, model, sub_agents=(after,), sub_agents_config=SubAgentsConfig(max_depth=depth)
        )

    return offered, [member(number) for number in range(7)]


@pytest.mark.req("A-9.1", "A-9.3", "A-9.4", "A-10.1", "A-10.2", "A-10.3", "A-10.4", "A-D6", "D-3",
                 "A-E4.1", "A-E4.2", "A-E4.3", "A-E4.4", "A-E4.5", "A-E4.6", "A-E2.5", "A-E2.6",
                 "A-E2.7", "P-5", "P-6")  # fmt: skip
@pytest.mark.parametrize(
    ("max_depths", "deepest"),
    [((0,), 3), ((1,), 1), ((2,), 2), ((3,), 3), ((4,), 4), ((5,), 5), ((5, 2), 2)],
)
def test_a_tree_is_as_deep_as_its_root_says_and_a_child_can_lower_that(
    max_depths: tuple[int, ...], deepest: int
) -> None:
    offered, agents = chain(*max_depths)
    result = play(*agents)
    assert offered == {f"n{depth}": depth < deepest for depth in range(deepest + 1)}
    runs = list(result.walk())
    assert [run.agent for run in runs] == [f"n{depth}" for depth in range(deepest + 1)]
    assert [run.metadata.get("depth", "0") for run in runs] == [str(d) for d in range(deepest + 1)]
    assert (runs[-1].turns, runs[-1].tool_calls) == (1, 0), "the deepest is asked once"
    assert result.ok
