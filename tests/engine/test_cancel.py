"""Cancelling a run: the whole tree stops, what was finished is kept and can be gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from axe_nb import Request, Response, RunError, RunResult, Usage, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.events import ToolFinished
from axe_nb.messages import close_open_calls
from axe_nb.tools.tool import ToolContext
from tests.engine.in_process import (
    Stage,
    agent,
    ask,
    check_events,
    check_history,
    exit_code,
    failed,
    heard,
    lead,
    said,
    stage,
    texts,
    tool,
)

INTERRUPTED = "Error: interrupted before this call had a result."


def cancelled(played: Stage, when: Callable[[], bool], **overrides: Any) -> RunResult:
    """The result of a run that is cancelled as soon as `when` is true."""

    async def interrupting() -> None:
        running = asyncio.create_task(played.ask(**overrides))
        async with asyncio.timeout(60):
            while not when():  # noqa: ASYNC110 - what is waited for is many things
                await asyncio.sleep(0.005)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupting())
    assert played.session.last
    return played.session.last


class Watch:
    """Whether a model or tool that never ends has begun, and whether it was stopped."""

    def __init__(self) -> None:
        self.begun = self.stopped = 0

    async def hang(self, _: Any) -> str:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped += 1
        return "never"

    def model(self) -> Callable[[Request], Any]:
        async def hang(request: Request) -> str:
            return await self.hang(request)

        return hang


async def fast(_: ToolContext) -> str:
    return "quick"


@pytest.mark.req("D-8", "D-32", "D-2")
@pytest.mark.parametrize("parallel", [True, False])
def test_what_was_finished_is_kept_and_the_conversation_goes_on(parallel: bool) -> None:
    watch = Watch()
    calls = call("fast"), call("slow"), call("fast")
    model = said(
        Response("let me see", calls, "x", Usage(3, 2)), lambda r: f"{len(r.messages)} messages"
    )
    played = stage(agent("boss", model, sub_agents_config=SubAgentsConfig(parallel=parallel)))
    tools = (tool("fast", fast), tool("slow", watch.hang))

    def is_stuck() -> bool:
        finished = sum(isinstance(event, ToolFinished) for event in played.events)
        return watch.begun == 1 and finished == (2 if parallel else 1)

    result = cancelled(played, is_stuck, tools=tools)
    assert (result.status, result.error) == ("cancelled", "cancelled")
    assert (result.text, result.turns, result.usage) == ("let me see", 1, Usage(3, 2))
    assert result.tool_calls == (3 if parallel else 2), "those that had begun"
    done = ["quick", "quick"] if parallel else ["quick"]
    assert texts(result) == done
    check_history(close_open_calls(result.messages))

    again = asyncio.run(played.ask("go on", continue_from=result, tools=tools))
    assert again.status == "completed"
    assert again.text == "4 messages"
    check_history(again.messages)
    told = [r.content for r in again.messages[2].tool_results]
    assert told == (["quick", INTERRUPTED, "quick"] if parallel
                    else ["quick", INTERRUPTED, INTERRUPTED])  # fmt: skip
    assert [m.role for m in again.messages] == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.req("D-8")
def test_an_event_loop_that_ends_early_leaves_no_run_behind() -> None:
    watch = Watch()
    played = stage(lead(ask("hang")), agent("hang", watch.model()))

    async def leaving() -> None:
        started = asyncio.create_task(played.ask())
        while not watch.begun:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert not started.done()

    asyncio.run(leaving())
    assert watch.stopped == 1
    assert played.session.last
    check_events(played.events, played.session.last)


async def for_ever(_: Request) -> str:
    await asyncio.Event().wait()
    return "never"


@pytest.mark.req("A-12.1", "A-12.3", "A-7.3-13", "A-E7.6", "D-10", "A-13.2", "P-8", "P-9")
@pytest.mark.parametrize(("seconds", "shown"), [(0.8, "0.8"), (1.25, "1.25"), (1, "1")])
def test_a_child_timeout_is_told_to_the_parent_which_goes_on(seconds: float, shown: str) -> None:
    played = stage(
        lead(ask("hanging"), ask("quick"), timeout=seconds),
        agent("hanging", for_ever),
        agent("quick", "ok"),
    )
    result = played.play()
    assert texts(result) == [failed("hanging", f"timeout after {shown}s"), "ok"]
    assert [r.is_error for r in heard(result)] == [True, False]
    assert result.ok
    child = result.children[0]
    assert (child.status, child.error) == ("timeout", f"timeout after {shown}s")
    check_events(played.events, result)


@pytest.mark.req("A-12.2", "A-7.3-13", "D-10", "A-E6.6", "A-E2.10", "A-11.2", "D-8")
@pytest.mark.parametrize("setting", [0, 60])
def test_a_child_has_no_more_time_than_its_run(setting: float) -> None:
    played = stage(lead(ask("hanging"), timeout=setting), agent("hanging", for_ever))
    result = played.play(timeout=0.8)
    assert (result.status, result.error, exit_code(result)) == ("timeout", "timeout after 0.8s", 3)
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
    played = stage(lead(ask("hanging")), agent("hanging", for_ever))
    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        result = runner.run(played.ask(timeout=seconds))
    assert [run.status for run in result.walk()] == ["timeout", "timeout"]
    assert result.children[0].error == f"timeout after {seconds}s"
