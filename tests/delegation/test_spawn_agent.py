"""spawn_agent: every row of seed 003 that is about one child, with models that are functions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from axe_nb import ProviderError, Request, Response, RunResult, Usage, call
from axe_nb.agents.agent_tables import ChildBudget, SubAgentsConfig
from axe_nb.delegation.spawn_agent import block, is_failure
from axe_nb.messages import ToolCall, close_open_calls
from tests.delegation.copies import SECONDS, offered, play, recorded, told, tool
from tests.engine.in_process import check_history, heard, said


def spawn(task: Any = "find the bug", **more: Any) -> ToolCall:
    return call("spawn_agent", task=task, **more)


def run(parts: Mapping[str, Any], *calls: Any, **fields: Any) -> Any:
    fields.setdefault("tools", ("spawn_agent",))
    fields.setdefault("mine", (tool("peek"),))
    return play(parts, *(calls or (spawn(),)), **fields)


def child(part: Any) -> dict[str, Any]:
    return {"spawn_agent": part}


def budget(**caps: int) -> SubAgentsConfig:
    return SubAgentsConfig(budget=ChildBudget(**caps))


def forever(request: Request) -> Any:
    return Response(f"turn {request.turn}", (call("peek"),))


def bounded(request: Request) -> Any:
    return Response("so far", (call("peek"),), usage=Usage(1000 * request.turn, 10))


def slow(request: Request) -> Any:
    return Response(f"turn {request.turn}", (call("peek"),), seconds=2.0)


def broken(request: Request) -> Any:
    raise ProviderError("server", "connection refused")


PEEKS = [call("peek")] * 3

ENDS: dict[str, tuple[Any, dict[str, Any], SubAgentsConfig, str, int, str]] = {
    "completed": (said(PEEKS, "Found the bug"), {}, budget(), "completed", 3,
                  "3 tool calls, #\n\nFound the bug"),
    "just its calls": (said(PEEKS, "done"), {"max_tool_calls": 3}, budget(), "completed", 3,
                       "3 tool calls, #\n\ndone"),
    "too many calls": (said([call("peek")] * 5, "done"), {"max_tool_calls": 3}, budget(),
                       "budget_exceeded", 3,
                       "[BUDGET EXCEEDED] agent exceeded its budget of 3 tool calls\n"
                       "3 tool calls, #"),
    "calls": (forever, {"max_tool_calls": 3}, budget(), "budget_exceeded", 3,
              "[BUDGET EXCEEDED] agent exceeded its budget of 3 tool calls\n"
              "3 tool calls, #\n\nturn 4"),
    "context": (bounded, {}, budget(max_tokens=2500), "budget_exceeded", 2,
                "[BUDGET EXCEEDED] agent exceeded its budget of 2500 tokens\n"
                "2 tool calls, #\n\nso far"),
    "time": (slow, {}, budget(timeout_ms=5000), "timeout", 2,
             "[TIMEOUT] timeout after 5s\n2 tool calls, #\n\nturn 2"),
    "server": (broken, {}, budget(), "error", 0,
               "[ERROR] Error: server: connection refused\n0 tool calls, #"),
}  # fmt: skip
"""What a child does, its call, its configuration → its status, its calls, what is heard of it."""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.req("O-1", "O-3", "O-6", "O-7", "O-20", "O-21", "O-22", "O-23", "O-26", "O-34", "O-40",
                 "O-41", "D-6", "D-7", "D-8", "D-18", "D-35", "D-36")  # fmt: skip
def test_a_child_reports_in_a_block_and_a_used_up_budget_is_no_error(end: str) -> None:
    part, more, config, status, calls, text = ENDS[end]
    log: list[Request] = []
    result = run(child(recorded(log, part)), spawn(**more), sub_agents_config=config)
    [answer] = heard(result)
    assert SECONDS.sub("#", answer.content) == text
    assert answer.is_error is (status == "error")
    [spawned] = result.children
    assert (spawned.metadata["status"], spawned.tool_calls) == (status, calls)
    assert [m.content for m in log[0].messages] == ["find the bug"], "a fresh conversation"
    assert (result.ok, result.tool_calls) == (True, 1), "the child's calls are its own"
    check_history(close_open_calls(spawned.messages))
    if spawned.status == "max_tool_calls":  # those beyond the budget are answered too
        assert len(spawned.log[-1].results) == len(spawned.log[-1].calls)


@pytest.mark.req("O-18", "O-33", "D-39")
def test_the_system_prompt_holds_the_task_and_the_rules_and_nothing_of_the_project(
    project: Path,
) -> None:
    (project / "src").mkdir()
    (project / "src" / "note.md").write_text("project context", "utf-8")
    (project / "axe" / "SKILL.md").write_text("project skill", "utf-8")
    log: list[Request] = []
    run(
        child(recorded(log, said("done"))),
        spawn("Search for auth patterns", max_tool_calls=10),
        system_prompt="You lead.",
        files=("*.md",),
        skill="SKILL.md",
        workdir="src",
    )
    system = log[0].system
    for part in ("Search for auth patterns", "src", "10 tool calls", "concise", "summary"):
        assert part in system
    for foreign in ("OPIS", "You lead.", "project context", "project skill", str(project)):
        assert foreign not in system


@pytest.mark.req("O-2", "O-5", "D-4")
def test_the_child_has_the_callers_model_tools_and_parameters() -> None:
    log: list[Request] = []
    tools = ("spawn_agent", "delegate_task", "grep")
    result = run(
        child(recorded(log, said("done"))), tools=tools, params={"temperature": 0.1}, mine=()
    )
    assert result.children[0].model == result.model
    assert log[0].params == {"temperature": 0.1}
    assert offered(log[0]) == list(tools)


@pytest.mark.parametrize(
    ("status", "tag"), [("max_turns", "BUDGET EXCEEDED"), ("cancelled", "CANCELLED")]
)
@pytest.mark.req("D-6", "O-41", "O-12", "D-7")
def test_the_status_stands_first_where_a_child_did_not_complete(status: Any, tag: str) -> None:
    one = RunResult(
        status=status, text="so far", agent="a", model="m", error="why", tool_calls=2,
        duration_ms=1500,
    )  # fmt: skip
    assert block(one) == f"[{tag}] why\n2 tool calls, 1.5s\n\nso far"
    assert is_failure(one) is (status == "cancelled")


@pytest.mark.req("O-12", "O-13", "O-8", "D-34")
def test_what_is_known_of_a_child_is_on_its_result() -> None:
    def finish(request: Request) -> Response:
        time.sleep(0.02)
        return Response("done", usage=Usage(200, 20))

    part = said(Response("", (call("peek"),), usage=Usage(100, 10)), finish)
    result = run(child(part), spawn(max_tool_calls=5))
    one = result.children[0]
    assert dict(one.metadata) == {
        "task_id": "0.1", "depth": "1", "status": "completed", "tool_call_count": "1",
        "token_estimate": "330", "max_tool_calls": "5", "max_tokens": "8192",
        "timeout_ms": "60000",
    }  # fmt: skip
    assert one.text == "done"
    assert one.duration_ms >= 20


CALLS = [
    (5, "5", ""), (" 8 ", "8", ""), (9.0, "9", ""), ("9.5", "9", ""), (None, "15", ""),
    (200, "100", "clamped to 100"), (10**400, "100", "clamped to 100"),
    ("many", "15", "ignored: it is not a number"), (True, "15", "ignored: it is not a number"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "granted", "note"), CALLS, ids=[str(c[0])[:9] for c in CALLS])
@pytest.mark.req("O-8", "O-9", "O-42", "D-18")
def test_the_budget_that_a_model_gives_is_read_kindly(given: Any, granted: str, note: str) -> None:
    log: list[Request] = []
    result = run(child(recorded(log, said("done"))), spawn(max_tool_calls=given))
    assert result.children[0].metadata["max_tool_calls"] == granted
    assert f"You can make {granted} tool calls" in log[0].system
    assert told(result).endswith(f"Note: max_tool_calls was {note}" if note else "done")


@pytest.mark.req("O-9", "O-18", "D-18")
def test_whatever_is_started_below_a_budget_is_within_it() -> None:
    """Calls and context: a subagent has the budget of the spawned agent, subtasks have no more."""

    async def begin(ctx: Any) -> str:
        return (await ctx.delegate("begin", limits={"tool_calls": 4, "tokens": 3000})).text

    def part(request: Request) -> Any:
        step = call("delegate_task", plan="", subtasks=[{"task": "deeper"}])
        return said([call("subagent", label="scout", task_prompt="t"), step], "done")(request)

    def scout(request: Request) -> Any:
        return Response("hm", (call("peek"),), usage=Usage(1000 * request.turn, 0))

    log: list[Request] = []
    result = play(
        {"begin": part, "scout": scout, "subtask 0": recorded(log, said("done"))},
        call("begin"),
        mine=(tool("peek"), tool("begin", fn=begin)),
        tools=("subagent", "delegate_task"),
    )
    below, step = result.children[0].children
    assert (below.status, below.turns) == ("max_tokens", 5), "four turns and the summary"
    notes = step.metadata
    assert (notes["max_tool_calls"], notes["max_tokens"]) == ("4", "3000")
    assert "You can make 4 tool calls" in log[0].system


@pytest.mark.req("O-37")
def test_a_child_leaves_no_file_behind(project: Path) -> None:
    before = sorted(project.rglob("*"))
    run(child(said(call("peek"), "done")))
    assert sorted(project.rglob("*")) == before
