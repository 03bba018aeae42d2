"""spawn_agent: every row of seed 003 that is about one child, with models that are functions."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from axe_nb import Agent, ConfigError, ProviderError, Request, Response, RunResult, Usage, call
from axe_nb.agents.agent_tables import ChildBudget, SubAgentsConfig
from axe_nb.delegation.spawn_agent import block, is_failure
from axe_nb.messages import ToolCall
from axe_nb.tools.tool import Limits
from tests.delegation.copies import offered, play, recorded, results, said, told, tool
from tests.engine.in_process import check_history, heard


def spawn(task: Any = "find the bug", **more: Any) -> ToolCall:
    return call("spawn_agent", task=task, **more)


def run(parts: Mapping[str, Any], *calls: Any, **fields: Any) -> Any:
    """The boss's result; it has `spawn_agent` and a harmless tool."""
    fields.setdefault("tools", ("spawn_agent",))
    fields.setdefault("mine", (tool("peek"),))
    return play(parts, *(calls or (spawn(),)), **fields)


def child(part: Any) -> dict[str, Any]:
    return {"spawn_agent": part}


def budget(**caps: int) -> SubAgentsConfig:
    return SubAgentsConfig(budget=ChildBudget(**caps))


def forever(request: Request) -> Any:
    return Response(f"turn {request.turn}", (call("peek"),))


@pytest.mark.req("O-14", "O-7", "D-44")
def test_the_model_is_told_of_the_tool_where_tools_names_it() -> None:
    log: list[Request] = []
    run({"lead": recorded(log, said("done"))})
    spec = next(spec for spec in log[0].tools if spec.name == "spawn_agent")
    assert spec.description == (
        "Spawn a sub-agent to perform a focused task independently. The sub-agent has its own "
        "context window and returns a result summary. Use for: parallel investigation, focused "
        "code search, isolated analysis. Do NOT use for trivial tasks a single tool call can "
        "handle."
    )
    schema = spec.input_schema()
    assert schema["required"] == ["task"]
    types = {name: entry["type"] for name, entry in schema["properties"].items()}
    assert types == {
        "task": "string",
        "scope": "string",
        "max_tool_calls": "number",
        "mode": "string",
    }
    assert schema["properties"]["mode"]["enum"] == ["plan", "auto"]
    assert "default: 15" in schema["properties"]["max_tool_calls"]["description"]


@pytest.mark.req("O-1", "O-3", "O-20", "O-26", "D-6", "O-34")
def test_a_child_that_completes_reports_in_a_block() -> None:
    log: list[Request] = []
    peeks = [call("peek")] * 3
    result = run(child(recorded(log, said(peeks, "Found the bug"))))
    [answer] = heard(result)
    assert re.fullmatch(r"3 tool calls, \d+\.\ds\n\nFound the bug", answer.content)
    assert not answer.is_error
    assert [m.content for m in log[0].messages] == ["find the bug"], "a fresh conversation"
    spawned = result.children[0]
    assert (spawned.status, spawned.tool_calls) == ("completed", 3)
    assert result.tool_calls == 1, "the child's calls are its own"


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
    assert "Search for auth patterns" in system
    assert "src" in system
    assert "10 tool calls" in system
    assert "concise" in system
    assert "summary" in system
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


@pytest.mark.req("O-21", "O-6", "D-35", "D-7", "D-18", "D-6")
def test_the_budget_of_tool_calls_is_kept_and_is_no_error() -> None:
    result = run(child(forever), spawn(max_tool_calls=3))
    spawned = result.children[0]
    assert (spawned.status, spawned.tool_calls) == ("max_tool_calls", 3)
    assert spawned.metadata["status"] == "budget_exceeded"
    [answer] = heard(result)
    assert re.fullmatch(
        r"\[BUDGET EXCEEDED\] agent exceeded its budget of 3 tool calls\n"
        r"3 tool calls, \d+\.\ds\n\n"
        r"turn 4",
        answer.content,
    )
    assert not answer.is_error
    assert result.ok
    check_history(spawned.messages)


@pytest.mark.req("D-35")
def test_exactly_the_budget_and_then_an_answer_is_completed() -> None:
    peeks = [call("peek")] * 3
    result = run(child(said(peeks, "done")), spawn(max_tool_calls=3))
    assert result.children[0].status == "completed"
    over = [call("peek")] * 5
    result = run(child(said(over, "done")), spawn(max_tool_calls=3))
    one = result.children[0]
    assert (one.status, one.tool_calls) == ("max_tool_calls", 3)
    assert [r.is_error for r in one.log[0].results] == [False, False, False, True, True]


@pytest.mark.req("D-18", "O-7")
def test_the_context_of_a_child_is_bounded() -> None:
    def growing(request: Request) -> Any:
        return Response("so far", (call("peek"),), usage=Usage(1000 * request.turn, 10))

    result = run(child(growing), sub_agents_config=budget(max_tokens=2500))
    one = result.children[0]
    assert (one.status, one.turns) == ("max_tokens", 3)
    assert one.metadata["status"] == "budget_exceeded"
    assert told(result).startswith("[BUDGET EXCEEDED] agent exceeded its budget of 2500 tokens\n")
    assert not heard(result)[0].is_error


@pytest.mark.req("O-22", "O-40", "D-8", "D-36", "D-6", "D-7")
def test_the_time_of_a_child_is_bounded_and_its_work_so_far_kept() -> None:
    def slow(request: Request) -> Any:
        return Response(f"turn {request.turn}", (call("peek"),), seconds=2.0)

    result = run(child(slow), sub_agents_config=budget(timeout_ms=5000))
    one = result.children[0]
    assert (one.status, one.turns) == ("timeout", 2)
    assert one.metadata["status"] == "timeout"
    [answer] = heard(result)
    assert answer.content.startswith("[TIMEOUT] timeout after 5s\n2 tool calls, ")
    assert answer.content.endswith("\n\nturn 2")
    assert not answer.is_error
    assert result.ok


@pytest.mark.req("O-23", "O-26", "O-41", "D-6", "D-7")
def test_a_child_whose_server_fails_is_an_error_with_the_reason() -> None:
    def broken(request: Request) -> Any:
        raise ProviderError("server", "connection refused")

    result = run(child(broken))
    [answer] = heard(result)
    assert re.fullmatch(
        r"\[ERROR\] Error: server: connection refused\n0 tool calls, \d+\.\ds", answer.content
    )
    assert answer.is_error
    assert result.children[0].metadata["status"] == "error"
    assert result.ok, "the parent goes on"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("error", "[ERROR] Error: why\n2 tool calls, 1.5s\n\nso far"),
        ("max_turns", "[BUDGET EXCEEDED] why\n2 tool calls, 1.5s\n\nso far"),
        ("max_tool_calls", "[BUDGET EXCEEDED] why\n2 tool calls, 1.5s\n\nso far"),
        ("max_tokens", "[BUDGET EXCEEDED] why\n2 tool calls, 1.5s\n\nso far"),
        ("timeout", "[TIMEOUT] why\n2 tool calls, 1.5s\n\nso far"),
        ("cancelled", "[CANCELLED] why\n2 tool calls, 1.5s\n\nso far"),
    ],
)
@pytest.mark.req("D-6", "O-41", "O-12", "D-7")
def test_the_status_stands_first_where_a_child_did_not_complete(status: Any, text: str) -> None:
    one = RunResult(
        status=status, text="so far", agent="a", model="m", error="why", tool_calls=2,
        duration_ms=1500,
    )  # fmt: skip
    assert block(one) == text
    assert is_failure(one) is (status in ("error", "cancelled"))


@pytest.mark.req("O-12", "O-13", "O-8", "D-34")
def test_what_is_known_of_a_child_is_on_its_result() -> None:
    def finish(request: Request) -> Response:
        time.sleep(0.02)
        return Response("done", usage=Usage(200, 20))

    part = said(Response("", (call("peek"),), usage=Usage(100, 10)), finish)
    result = run(child(part), spawn(max_tool_calls=5))
    one = result.children[0]
    assert dict(one.metadata) == {
        "task_id": "0.1",
        "depth": "1",
        "status": "completed",
        "tool_call_count": "1",
        "token_estimate": "330",
        "max_tool_calls": "5",
        "max_tokens": "8192",
        "timeout_ms": "60000",
    }
    assert one.text == "done"
    assert one.duration_ms >= 20


@pytest.mark.parametrize("task", ["", "   ", None])
@pytest.mark.req("O-27", "O-41", "D-12")
def test_a_missing_task_is_an_error_at_once(task: str | None) -> None:
    result = run({}, call("spawn_agent") if task is None else spawn(task))
    [answer] = heard(result)
    assert answer.content.startswith("[ERROR] Error: task is required")
    assert answer.is_error
    assert result.children == ()


CALLS = [
    (5, "5", ""),
    ("7", "7", ""),
    (" 8 ", "8", ""),
    (9.0, "9", ""),
    ("9.5", "9", ""),
    (200, "100", "Note: max_tool_calls was clamped to 100"),
    ("1000000", "100", "Note: max_tool_calls was clamped to 100"),
    (10**400, "100", "Note: max_tool_calls was clamped to 100"),
    (None, "15", ""),
    ("many", "15", "Note: max_tool_calls was ignored: it is not a number"),
    (True, "15", "Note: max_tool_calls was ignored: it is not a number"),
    ([5], "15", "Note: max_tool_calls was ignored: it is not a number"),
    ({"n": 5}, "15", "Note: max_tool_calls was ignored: it is not a number"),
    (float("inf"), "15", "Note: max_tool_calls was ignored: it is not a number"),
    (float("nan"), "15", "Note: max_tool_calls was ignored: it is not a number"),
]


@pytest.mark.parametrize(("given", "granted", "note"), CALLS, ids=[str(c[0])[:9] for c in CALLS])
@pytest.mark.req("O-8", "O-9", "O-42", "D-18")
def test_the_budget_that_a_model_gives_is_read_kindly(given: Any, granted: str, note: str) -> None:
    log: list[Request] = []
    result = run(child(recorded(log, said("done"))), spawn(max_tool_calls=given))
    assert result.children[0].metadata["max_tool_calls"] == granted
    assert f"You can make {granted} tool calls" in log[0].system
    assert told(result).endswith(note or "done")


@pytest.mark.parametrize("given", [0, -1, "0", "-3", 0.0])
@pytest.mark.req("O-10", "D-18")
def test_a_budget_of_nothing_is_refused(given: Any) -> None:
    result = run({}, spawn(max_tool_calls=given))
    [answer] = heard(result)
    assert answer.content == "[ERROR] Error: maxToolCalls must be positive"
    assert answer.is_error
    assert result.children == ()


@pytest.mark.req("O-10", "D-36")
def test_a_configured_budget_is_checked_at_load() -> None:
    text = 'name = "a"\nmodel = "script/a"\n[sub_agents_config.budget]\ntimeout_ms = 1000'
    with pytest.raises(ConfigError, match=r"budget.timeout_ms must be at least 5000"):
        Agent.from_toml(text)


@pytest.mark.req("O-16", "O-17", "O-39", "O-13", "D-3")
def test_two_levels_are_the_most_and_the_third_is_refused() -> None:
    deeper = recorded(log := [], said(spawn("deeper"), results))
    result = run(child(deeper))
    chain = list(result.walk())
    assert [one.metadata.get("depth") for one in chain] == [None, "1", "2"]
    last = heard(chain[-1])[0]
    assert last.content == "[ERROR] Error: Maximum sub-agent depth (2) exceeded"
    assert last.is_error
    assert [("spawn_agent" in offered(one)) for one in log if one.turn == 1] == [True, False]


@pytest.mark.req("O-9", "O-18", "D-18")
def test_whatever_is_started_below_a_budget_is_within_it() -> None:
    """Calls and context: a subagent has the budget of the spawned agent, subtasks have no more."""

    async def begin(ctx: Any) -> str:
        return (await ctx.delegate("begin", limits=Limits(tool_calls=4, tokens=3000))).text

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
