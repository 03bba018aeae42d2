"""delegate_task: seed 003 §5 and Task 7, with models that are functions."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any

import pytest

from axe_nb import ProviderError, Request, Response, call
from axe_nb.agents.agent_tables import ChildBudget, SubAgentsConfig
from axe_nb.messages import ToolCall
from tests.delegation.copies import SECONDS, play, recorded, told, tool
from tests.engine.in_process import heard, said


def plan(*subtasks: Any, goal: Any = "understand it", **more: Any) -> ToolCall:
    """A call of delegate_task; a text among the subtasks is a task without more."""
    steps = [{"task": s} if isinstance(s, str) else s for s in subtasks]
    return call("delegate_task", plan=goal, subtasks=steps, **more)


run = partial(play, tools=("delegate_task",), mine=(tool("peek"),))
"""The boss's result; it has `delegate_task` and a harmless tool."""


def broken(_: Request) -> Any:
    raise ProviderError("server", "gone")


@pytest.mark.req("O-28", "O-26", "D-6")
def test_the_report_holds_what_each_child_said() -> None:
    parts = {"subtask 0": said(call("peek"), "Found 5 files"), "subtask 1": said("Auth uses JWT")}
    result = run(parts, plan("Find all auth files", "Summarize the middleware"))
    assert SECONDS.sub("#", told(result)) == (
        "2 of 2 subtasks completed\n\n"
        "Subtask 0: Find all auth files\n"
        "1 tool calls, #\n\n"
        "Found 5 files\n\n"
        "Subtask 1: Summarize the middleware\n"
        "0 tool calls, #\n\n"
        "Auth uses JWT"
    )
    assert not heard(result)[0].is_error
    assert result.tool_calls == 1
    assert [c.task for c in result.children] == ["Find all auth files", "Summarize the middleware"]
    assert [c.id for c in result.children] == ["0.1", "0.1-1"]


@pytest.mark.req("O-28", "O-4", "D-5")
def test_subtasks_run_one_after_another_even_where_calls_are_parallel() -> None:
    diary: list[str] = []

    async def work(request: Request) -> str:
        diary.append(f"{request.agent} begins")
        await asyncio.sleep(0.01)
        diary.append(f"{request.agent} ends")
        return "done"

    run({"": work}, plan("a", "b", "c"))
    assert diary == [f"subtask {n} {what}" for n in range(3) for what in ("begins", "ends")]


@pytest.mark.req("O-29")
def test_a_subtask_is_told_what_the_one_that_it_depends_on_said() -> None:
    log: list[Request] = []
    parts = {
        "subtask 0": said("File list: a.ts, b.ts"),
        "subtask 1": recorded(log, said("Analyzed")),
    }
    result = run(parts, plan("List files", {"task": "Analyze files", "depends_on": 0}))
    assert log[0].last == (
        "Analyze files\n\n"
        "This is one step of a plan: understand it\n\n"
        "Result of subtask 0:\nFile list: a.ts, b.ts"
    )
    assert result.children[1].task == "Analyze files"


@pytest.mark.req("O-30", "D-21", "D-7")
def test_an_error_stops_the_rest() -> None:
    result = run({"subtask 1": broken}, plan("first", "failing step", "next step"))
    [answer] = heard(result)
    assert answer.is_error
    assert len(result.children) == 2
    assert SECONDS.sub("#", answer.content) == (
        "1 of 3 subtasks completed\n"
        "Stopped: subtask 1 ended with an error\n\n"
        "Subtask 0: first\n"
        "0 tool calls, #\n\n"
        "done\n\n"
        "Subtask 1: failing step\n"
        "[ERROR] Error: server: gone\n"
        "0 tool calls, #\n\n"
        "Subtask 2: next step\n"
        "not run"
    )


@pytest.mark.req("D-21", "O-6", "O-7", "D-7")
def test_used_up_budgets_and_timeouts_go_on_and_are_marked() -> None:
    log: list[Request] = []
    parts = {
        "subtask 0": lambda r: Response("so far", (call("peek"),)),
        "subtask 1": lambda r: Response("slowly", (call("peek"),), seconds=6),
        "subtask 2": recorded(log, said("done")),
    }
    config = SubAgentsConfig(budget=ChildBudget(max_tool_calls=2, timeout_ms=10000))
    steps = ("many", {"task": "slow", "depends_on": 0}, {"task": "last", "depends_on": 1})
    result = run(parts, plan(*steps), sub_agents_config=config)
    assert [c.status for c in result.children] == ["max_tool_calls", "timeout", "completed"]
    text = told(result)
    assert text.startswith("1 of 3 subtasks completed\n\n")
    assert "\n[BUDGET EXCEEDED] agent exceeded its budget of 2 tool calls\n2 tool calls" in text
    assert "\n[TIMEOUT] timeout after 10s\n1 tool calls, 10.0s\n\nslowly" in text
    assert "Result of subtask 1 (timeout):\nslowly" in log[0].last
    assert not heard(result)[0].is_error


@pytest.mark.req("D-5")
def test_with_max_concurrent_those_whose_dependency_is_done_run_together() -> None:
    diary: list[str] = []

    async def work(request: Request) -> str:
        number = request.agent[-1]
        diary.append(f"+{number}")
        await asyncio.sleep(0.02 if number == "0" else 0.01)
        diary.append(f"-{number}")
        return f"result {number}"

    steps = ("a", "b", {"task": "c", "depends_on": 0}, {"task": "d", "depends_on": 2}, "e")
    config = SubAgentsConfig(max_concurrent=3)
    result = run({"": work}, plan(*steps), sub_agents_config=config)
    assert set(diary[:3]) == {"+0", "+1", "+4"}, "three at once, none that has to wait"
    assert diary.index("+2") > diary.index("-0")
    assert diary.index("+3") > diary.index("-2")
    order = [int(n) for n in re.findall(r"^Subtask (\d)", told(result), re.MULTILINE)]
    assert order == [0, 1, 2, 3, 4], "reported in order all the same"
