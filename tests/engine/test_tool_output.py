"""What a tool gives back and what it does to its arguments, of whatever kind the tool is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import axe_nb
from axe_nb import RunResult, call
from axe_nb.messages import ToolCall
from axe_nb.tools.tool import MAX_OUTPUT, Effect, Tool, ToolContext, ToolError, ToolOutput
from tests.engine.in_process import agent, heard, lead, play

LONG = "ü" * 5_000_000


def raw(answer: Any, effect: Effect = "read") -> Tool:
    """A tool that is no Python function: it answers, or raises, just so."""

    async def run(_: ToolContext, __: Mapping[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Tool("raw", "A tool.", {}, run, effect)


def outcome(tool: Tool, **arguments: Any) -> RunResult:
    return play(lead(call(tool.name, **arguments), then="done"), tools=[tool])


@pytest.mark.req("X-38")
@pytest.mark.parametrize(
    ("answer", "is_error"),
    [(LONG, False), (ToolOutput(LONG), False), (ToolError(LONG), True), (ValueError(LONG), True)],
    ids=["text", "output", "error", "fault"],
)
def test_a_long_answer_is_cut_once(answer: object, is_error: bool) -> None:
    [told] = heard(outcome(raw(answer)))
    assert told.is_error is is_error
    assert told.content.count("... (truncated: the first 65536 of ") == 1
    assert MAX_OUTPUT < len(told.content.encode()) < MAX_OUTPUT + 100


@pytest.mark.req("D-6")
def test_what_a_way_to_delegate_reports_is_not_cut() -> None:
    [told] = heard(outcome(raw("x" * 100_000, "delegate")))
    assert len(told.content) == 100_000


def test_a_tool_that_changes_its_arguments_does_not_change_history() -> None:
    seen: list[ToolCall] = []

    async def run(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        assert isinstance(arguments, dict)
        ctx.call.arguments["deep"]["list"].clear()
        arguments["deep"]["list"].append("more")
        arguments.clear()
        return "ok"

    given = {"deep": {"list": [1, [2]]}}
    tool = Tool("change", "A tool.", {}, run, "read")

    def model(request: axe_nb.Request) -> Any:
        if request.turn == 1:
            return call("change", **given)
        seen.extend(c for m in request.messages for c in m.tool_calls)
        return "done"

    result = play(agent("lead", model), tools=[tool])
    assert seen[0].arguments == {"deep": {"list": [1, [2]]}}
    assert result.log[0].calls[0].arguments == {"deep": {"list": [1, [2]]}}
    assert result.tool_calls == 1
    assert not heard(result)[0].is_error
