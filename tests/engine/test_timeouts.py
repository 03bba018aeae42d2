"""Whose time is up, what the parent hears of it, and that it is really stopped."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from axe_nb import Agent, Request, Response, RunError, Usage, call
from axe_nb.tools.tool import ToolContext
from tests.engine.in_process import (
    agent,
    ask,
    check_events,
    check_history,
    heard,
    lead,
    play,
    stage,
    texts,
    tool,
)


async def for_ever(_: Request) -> str:
    await asyncio.Event().wait()
    return "never"


def hanging() -> Agent:
    return agent("hanging", for_ever)


def failed(name: str, seconds: str) -> str:
    return (
        f'Error: sub-agent "{name}" failed - timeout after {seconds}s. '
        "You may retry or proceed without this result."
    )


@pytest.mark.req("A-12.1", "A-12.3", "A-7.3-13", "A-E7.6", "D-10", "A-13.2", "P-8", "P-9")
@pytest.mark.parametrize(("seconds", "shown"), [(0.8, "0.8"), (1.25, "1.25"), (1, "1")])
def test_a_child_timeout_is_told_to_the_parent_which_goes_on(seconds: float, shown: str) -> None:
    played = stage(
        lead(ask("hanging"), ask("quick"), timeout=seconds), hanging(), agent("quick", "ok")
    )
    result = played.play()
    assert texts(result) == [failed("hanging", shown), "ok"]
    assert [r.is_error for r in heard(result)] == [True, False]
    assert result.ok
    child = result.children[0]
    assert (child.status, child.error) == ("timeout", f"timeout after {shown}s")
    check_events(played.events, result)


@pytest.mark.req("A-12.2", "A-7.3-13", "D-10", "A-E6.6", "A-E2.10", "A-11.2", "D-8")
@pytest.mark.parametrize("setting", [0, 60])
def test_a_child_has_no_more_time_than_its_run(setting: float) -> None:
    played = stage(lead(ask("hanging"), timeout=setting), hanging())
    result = played.play(timeout=0.8)
    assert (result.status, result.error, result.exit_code) == ("timeout", "timeout after 0.8s", 3)
    [child] = result.children
    assert (child.status, child.error) == ("timeout", "timeout after 0.8s"), "the run's own setting"
    with pytest.raises(RunError, match=r"(?m)^timeout after 0\.8s$"):
        result.raise_for_status()
    check_events(played.events, result)


class CoarseLoop(asyncio.SelectorEventLoop):
    """A loop whose clock ticks as that of Windows does: its timers fire up to a tick too early."""

    TICK = 0.0156

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = self.TICK

    def time(self) -> float:
        return super().time() // self.TICK * self.TICK


@pytest.mark.req("A-12.2", "D-10", "A-C6")
@pytest.mark.parametrize("seconds", [0.8, 0.807, 0.813])
def test_a_timeout_is_told_from_an_interrupt_also_by_a_coarse_clock(seconds: float) -> None:
    played = stage(lead(ask("hanging")), hanging())
    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        result = runner.run(played.ask(timeout=seconds))
    assert [run.status for run in result.walk()] == ["timeout", "timeout"]
    assert result.children[0].error == f"timeout after {seconds}s"


@pytest.mark.req("D-8", "A-E6.6")
def test_what_was_finished_before_is_kept() -> None:
    async def model(request: Request) -> Any:
        if request.turn == 2:
            await for_ever(request)
        return Response("so far", (call("note"),), "tool_calls", Usage(7, 5))

    async def note(_: ToolContext) -> str:
        return "noted"

    slow = agent("slow", model, tools=("note",))
    result = play(lead(ask("slow"), timeout=1), slow, tools=(tool("note", note),))
    [child] = result.children
    assert (child.status, child.text, child.turns, child.tool_calls) == ("timeout", "so far", 1, 1)
    assert child.usage == Usage(7, 5)
    assert texts(child) == ["noted"]
    check_history(child.messages)


@pytest.mark.req("D-8")
@pytest.mark.parametrize("parallel", [True, False])
def test_a_tool_that_ignores_its_cancelling_does_not_outlive_the_time(parallel: bool) -> None:
    async def deaf(_: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        except BaseException:
            return "as if nothing had happened"
        return "never"

    boss = lead(call("deaf"), call("deaf"), then="unreachable", parallel=parallel)
    result = play(boss, timeout=1, tools=(tool("deaf", deaf),))
    assert (result.status, result.text, result.turns) == ("timeout", "", 1)


@pytest.mark.req("D-8")
def test_a_blocking_tool_is_left_behind() -> None:
    release = threading.Event()

    def model(request: Request) -> Any:
        release.wait(60)
        return "late"

    result = play(lead(ask("blocking"), timeout=0.1, then="on"), agent("blocking", model))
    assert texts(result) == [failed("blocking", "0.1")]
    release.set()
