"""The four ways to delegate below one another, in every order: depth, failures, time, results."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from axe_nb import Agent, ProviderError, Request, Response, RunResult, call
from axe_nb.agents.tables import ChildBudget, SubAgentsConfig
from axe_nb.tools.tool import Limits, ToolContext
from tests.delegation.chains import WAYS, Chain, Reply, by
from tests.delegation.copies import offered, tool
from tests.engine.in_process import heard

DEPTH = {"call_agent": 3, "subagent": 3, "spawn_agent": 2, "delegate_task": 2}

SECONDS = re.compile(r"\d+\.\ds$", re.MULTILINE)


def refusal(way: str, limit: int, depth: int) -> str:
    match way:
        case "call_agent":
            return f"call_agent error: maximum sub-agent depth ({limit}) reached"
        case "subagent":
            return (
                f"Error: Maximum subagent recursion depth ({limit}) exceeded. "
                f"Current depth: {depth}. Cannot spawn nested subagent."
            )
    return f"[ERROR] Error: Maximum sub-agent depth ({limit}) exceeded"


def check_depth(ways: Sequence[str], result: RunResult, configured: int = 0) -> None:
    """The chain is as deep as it may be, and who may not go deeper hears it in his way's words."""
    runs = list(result.walk())
    limits = [configured or DEPTH[way] for way in ways]
    reached = next((d for d, limit in enumerate(limits) if d >= limit), len(ways))
    assert len(runs) == reached + 1, ways
    assert [one.metadata.get("depth", "0") for one in runs] == [str(d) for d in range(reached + 1)]
    assert all(one.ok for one in runs)
    if reached < len(ways):
        [last] = heard(runs[-1])
        assert last.content == refusal(ways[reached], limits[reached], reached)
        assert last.is_error


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.req("D-1", "D-3", "X-17", "O-17", "O-39", "A-10.3")
def test_every_order_of_four_levels_ends_at_the_default_depth_of_its_ways(first: str) -> None:
    for rest in itertools.product(WAYS, repeat=3):
        ways = (first, *rest)
        check_depth(ways, Chain(ways).play())


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
@pytest.mark.req("D-3", "A-10.4")
def test_a_configured_depth_holds_for_every_order(depth: int) -> None:
    for order in itertools.permutations(WAYS):
        ways = (*order, *order[:2])
        config = SubAgentsConfig(max_depth=depth)
        check_depth(ways, Chain(ways).play(sub_agents_config=config), depth)


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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.req("D-3")
def test_a_child_can_lower_the_depth_below_itself_but_never_raise_it(way: str) -> None:
    """The helper's own table counts from where it stands in the tree, and only downwards."""
    for own, root, depth in ((1, 4, 1), (2, 4, 2), (5, 2, 2), (5, 1, 1)):
        chain = Chain(("call_agent", *[way] * 5))
        made = chain.set_up(sub_agents_config=SubAgentsConfig(max_depth=root))
        helper = made.session.agents["helper"]
        made.session.define(replace(helper, sub_agents_config=SubAgentsConfig(max_depth=own)))
        assert len(list(made.play().walk())) == depth + 1, (own, root)


def fails(at: int) -> Reply:
    def reply(level: int, request: Request) -> Any:
        if level == at:
            raise ProviderError("server", "boom")
        return None

    return reply


def chains(length: int) -> Iterator[tuple[str, ...]]:
    return itertools.product(WAYS, repeat=length)


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.req("D-2", "D-7", "A-13.1", "O-30")
def test_a_failure_at_any_level_is_heard_by_its_caller_and_harms_nobody_above(at: int) -> None:
    for ways in chains(3):
        result = Chain(ways, fails(at)).play(sub_agents_config=SubAgentsConfig(max_depth=5))
        *above, caller, broken = result.walk()
        assert broken.status == "error"
        assert len(above) == at - 1
        [answer] = heard(caller)
        assert answer.is_error
        assert "server: boom" in answer.content
        for one in above:
            assert one.ok
            assert not heard(one)[0].is_error, "it hears of a child that has done its best"
        assert result.ok


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.req("D-7", "O-6", "X-24", "D-17")
def test_a_used_up_budget_at_any_level_is_told_in_the_words_of_its_way(at: int) -> None:
    def endless(level: int, request: Request) -> Any:
        if level == at and request.tools:
            return Response("so far", (call("mixed_peek"),))
        return None

    for ways in chains(2):
        config = SubAgentsConfig(max_turns=3, budget=ChildBudget(max_tool_calls=3))
        result = Chain(ways[:at], endless).play(sub_agents_config=config)
        caller, spent = list(result.walk())[-2:]
        [answer] = heard(caller)
        match ways[at - 1]:
            case "call_agent":
                assert answer.is_error
                expected = {"max_turns", "max_tool_calls"}
            case "subagent":
                assert not answer.is_error
                assert answer.content.startswith(f"<{at}")
                expected = {"max_turns", "max_tool_calls"}
            case _:
                assert not answer.is_error
                assert "[BUDGET EXCEEDED]" in answer.content
                expected = {"max_tool_calls"}
        assert spent.status in expected
        assert result.ok


@pytest.mark.parametrize("below", WAYS)
@pytest.mark.req("O-22", "D-10", "D-36", "A-12.2")
def test_the_time_of_a_spawned_child_is_that_of_all_below_it(below: str) -> None:
    def slow(level: int, request: Request) -> Any:
        return Response("so far", (call("mixed_peek"),), seconds=3.0) if level == 2 else None

    config = SubAgentsConfig(budget=ChildBudget(timeout_ms=7000, max_tool_calls=90), timeout=20)
    result = Chain(("spawn_agent", below), slow).play(sub_agents_config=config)
    root, spawned, leaf = result.walk()
    assert (spawned.status, leaf.status, leaf.turns) == ("timeout", "timeout", 2)
    assert leaf.text == "so far"
    [answer] = heard(root)
    assert "[TIMEOUT] timeout after 7s\n1 tool calls" in answer.content
    assert not answer.is_error
    assert root.ok


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
        return (await ctx.delegate("level 1", limits=Limits(seconds=1.0))).status

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


@pytest.mark.req("D-4", "A-D4", "P-3")
def test_a_named_agent_below_a_copy_gets_nothing_of_the_copys_caller() -> None:
    """call_agent starts over: the caller's tools, prompt and parameters end there."""
    log: dict[int, Request] = {}

    def keep(level: int, request: Request) -> None:
        log.setdefault(level, request)

    chain = Chain(("subagent", "call_agent"), keep)
    made = chain.set_up(system_prompt="You lead.", params={"temperature": 0.5})
    helper = Agent("helper", made.session.agents["lead"].model)
    made.session.define(helper)
    made.play()
    assert log[1].system == "You lead."
    assert (log[2].system, log[2].tools, dict(log[2].params)) == ("", (), {})
    assert log[2].messages[0].content == "Task: level 2"
