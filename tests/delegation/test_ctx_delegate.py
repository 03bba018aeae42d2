"""`ctx.delegate`: what a tool written in Python can start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from axe_nb import Request, RunResult, call
from axe_nb.agents.agent_tables import ChildBudget, SubAgentsConfig
from axe_nb.tools.tool import ToolContext
from tests.delegation.copies import boss, offered, play, recorded, results, told, tool
from tests.engine.in_process import agent, heard, said, stage


def run(use: Callable[[ToolContext], Any], parts: Any = None, **fields: Any) -> RunResult:
    """The boss's result; its tool `use` is this function, beside `peek`."""
    fields.setdefault("tools", ("grep",))
    return play(parts or {}, call("use"), mine=(tool("peek"), tool("use", fn=use)), **fields)


@pytest.mark.req("D-1", "O-18", "O-20")
def test_a_copy_of_the_caller_does_the_task_within_its_budget() -> None:
    log: list[Request] = []

    async def use(ctx: ToolContext) -> str:
        result = await ctx.delegate("count the files", scope="src")
        return f"{result.status}, {result.text}"

    result = run(use, {"use": recorded(log, said("three"))}, sub_agents_config=SubAgentsConfig())
    assert told(result) == "completed, three"
    assert log[0].last == "count the files\n\nFocus on: src"
    assert "15 tool calls" in log[0].system
    assert set(offered(log[0])) == {"peek", "use", "grep"}
    notes = result.children[0].metadata
    assert (notes["status"], notes["max_tokens"], notes["task_id"]) == ("completed", "8192", "0.1")


@pytest.mark.req("O-11", "O-25")
def test_its_tools_can_be_narrowed_to_some_of_the_callers() -> None:
    log: list[Request] = []

    async def use(ctx: ToolContext) -> str:
        return (await ctx.delegate("look", tools=["search_files"])).text

    child = recorded(log, said(call("peek"), "denied"))
    result = run(use, {"use": child})
    assert offered(log[0]) == ["grep"]
    one = result.children[0]
    assert heard(one)[0].is_error
    assert (one.tool_calls, one.text) == (1, "denied")


@pytest.mark.req("O-8", "D-18")
@pytest.mark.parametrize(("seconds", "told"), [(0.5, "500"), (float("inf"), "inf")])
def test_limits_that_are_given_stand_and_the_rest_is_the_budget(seconds: float, told: str) -> None:
    async def use(ctx: ToolContext) -> str:
        result = await ctx.delegate("look", limits={"tool_calls": 200, "seconds": seconds})
        return str(dict(result.metadata))

    config = SubAgentsConfig(budget=ChildBudget(max_tokens=4000))
    notes = run(use, sub_agents_config=config).children[0].metadata
    caps = (notes["max_tool_calls"], notes["max_tokens"], notes["timeout_ms"])
    assert caps == ("200", "4000", told)


@pytest.mark.req("D-1", "D-4")
def test_a_named_agent_has_its_own_everything() -> None:
    log: list[Request] = []

    async def use(ctx: ToolContext) -> str:
        return (await ctx.delegate("dig", agent="digger", scope="the cellar")).text

    digger = agent("digger", recorded(log, said("dug")), system_prompt="You dig.")
    lead = boss({}, call("use"))
    made = stage(lead, digger)
    result = made.play(tools=(tool("use", fn=use),))
    assert told(result) == "dug"
    assert log[0].system == "You dig."
    assert log[0].last == "Task: dig\n\nContext:\nFocus on: the cellar"
    assert offered(log[0]) == []
    assert result.children[0].agent == "digger"


@pytest.mark.req("D-3")
def test_depth_is_limited_to_three_or_as_configured() -> None:
    async def use(ctx: ToolContext) -> str:
        return (await ctx.delegate("deeper")).text

    deeper = {"use": said(call("use"), results)}
    chain = list(run(use, deeper).walk())
    assert len(chain) == 4
    assert told(chain[-1]) == "Error: Maximum sub-agent depth (3) exceeded"
    for depth in (1, 5):
        config = SubAgentsConfig(max_depth=depth)
        assert len(list(run(use, deeper, sub_agents_config=config).walk())) == depth + 1


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"task": "  "}, "Error: task is required"),
        ({"task": "t", "agent": "a", "tools": ["grep"]}, "Error: tools are for a copy"),
        ({"task": 3}, "Error: task takes a text, not 3"),
        ({"task": "t", "mode": "zz"}, "Error: mode takes plan, ask, auto, not 'zz'"),
        ({"task": "t", "limits": {"max_turns": 3}}, "Error: limits takes a dict of turns, tool_"),
        ({"task": "t", "tools": [print]}, "Error: tools takes a list of names"),
        ({"task": "t", "tools": "grep"}, "Error: tools takes a list of names"),
    ],
)
@pytest.mark.req("O-27")
def test_what_makes_no_sense_is_refused(more: dict[str, Any], text: str) -> None:
    result = run(lambda ctx: ctx.delegate(**more))
    assert told(result).startswith(text)
    assert result.children == ()


@pytest.mark.req("O-35", "D-19")
def test_a_mode_can_be_made_stricter_but_not_laxer() -> None:
    used: list[str] = []

    async def write(ctx: ToolContext) -> str:
        used.append(ctx.agent.name)
        return "written"

    def child(mode: Any, own: Any) -> str:
        async def use(ctx: ToolContext) -> str:
            return (await ctx.delegate("write", mode=mode)).text

        mine = (tool("write", "write", write), tool("use", fn=use))
        return told(play({"use": said(call("write"), results)}, call("use"), mine=mine, mode=own))

    assert child("auto", "auto") == "written"
    assert used == ["use"]
    assert "the call that started the sub-agent requested this mode" in child("plan", "auto")
    assert 'sub-agents cannot ask; set mode = "auto"' in child("auto", "ask")
    assert used == ["use"]
