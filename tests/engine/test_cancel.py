"""Cancelling a run: the whole tree stops, what was finished is kept and can be gone on with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from axe_nb import Request, Response, RunError, RunResult, Usage, call
from axe_nb.events import RunStarted, ToolFinished, TurnStarted
from axe_nb.messages import close_open_calls
from axe_nb.tools.tool import ToolContext
from tests.engine.in_process import (
    Stage,
    agent,
    ask,
    check_events,
    check_history,
    heard,
    lead,
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


@pytest.mark.req("D-8", "A-11.2", "A-E5.6", "A-C7", "D-2", "A-13.2")
def test_cancelling_the_parent_cancels_all_below_it() -> None:
    watch = Watch()
    middle = agent("middle", lambda r: [ask("leaf")] * 2, sub_agents=("leaf",))
    played = stage(lead(ask("middle"), ask("middle")), middle, agent("leaf", watch.model()))
    result = cancelled(played, lambda: watch.begun == 4)
    assert watch.stopped == 4
    assert {run.status for run in result.walk()} == {"cancelled"}
    assert [run.id for run in result.walk()] == [
        "0", "0.1", "0.1.1", "0.1.2", "0.2", "0.2.1", "0.2.2",
    ]  # fmt: skip
    assert (result.exit_code, result.ok) == (130, False)
    check_events(played.events, result)
    with pytest.raises(RunError):
        result.raise_for_status()


def counting(request: Request) -> Any:
    if request.turn == 1:
        return Response("let me see", (call("fast"), call("slow"), call("fast")), "x", Usage(3, 2))
    return f"{len(request.messages)} messages"


async def fast(_: ToolContext) -> str:
    return "quick"


@pytest.mark.req("D-8", "D-32", "D-2")
@pytest.mark.parametrize("parallel", [True, False])
def test_what_was_finished_is_kept_and_the_conversation_goes_on(parallel: bool) -> None:
    watch = Watch()
    boss = lead(parallel=parallel)
    boss = agent("boss", counting, sub_agents_config=boss.sub_agents_config)
    played = stage(boss)
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


@pytest.mark.req("D-8", "D-32")
def test_a_run_that_is_cancelled_in_its_first_request_can_go_on() -> None:
    watch = Watch()
    played = stage(agent("boss", watch.model()))
    result = cancelled(played, lambda: watch.begun == 1)
    assert (result.turns, result.text, len(result.messages)) == (0, "", 1)
    played.root = agent("boss", lambda r: f"{r.turn} {r.last}")
    assert asyncio.run(played.ask("again", continue_from=result)).text == "1 again"


@pytest.mark.req("D-8")
def test_children_that_wait_for_their_place_are_never_started() -> None:
    watch = Watch()
    played = stage(lead(*[ask("hang")] * 5, max_concurrent=2), agent("hang", watch.model()))
    result = cancelled(played, lambda: watch.begun == 2)
    assert [c.id for c in result.children] == ["0.1", "0.2"]
    assert (watch.begun, watch.stopped) == (2, 2)
    check_events(played.events, result)


@pytest.mark.req("D-8", "A-E5.6")
def test_finished_children_keep_their_results() -> None:
    watch = Watch()
    played = stage(
        lead(ask("quick"), ask("hang"), ask("quick")),
        agent("quick", lambda _: Response("done", (), "stop", Usage(1, 1))),
        agent("hang", watch.model()),
    )
    result = cancelled(
        played,
        lambda: watch.begun == 1 and sum(isinstance(e, RunStarted) for e in played.events) == 4
        and len(played.events) >= 13,
    )  # fmt: skip
    assert [c.status for c in result.children] == ["completed", "cancelled", "completed"]
    assert [c.text for c in result.children] == ["done", "", "done"]
    assert [r.content for r in heard(result)] == ["done", "done"]
    check_events(played.events, result)


@pytest.mark.req("D-8")
@pytest.mark.parametrize("parallel", [True, False])
def test_a_tool_that_ignores_its_cancelling_does_not_keep_the_run_alive(parallel: bool) -> None:
    watch = Watch()

    async def deaf(ctx: ToolContext) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await watch.hang(ctx)
        return "as if nothing had happened"

    boss = lead(call("deaf"), call("deaf"), then="unreachable", parallel=parallel)
    played = stage(boss)
    result = cancelled(played, lambda: watch.begun >= 1, tools=(tool("deaf", deaf),))
    assert (result.status, result.turns, result.text) == ("cancelled", 1, "")
    check_events(played.events, result)


@pytest.mark.req("D-8")
def test_a_tool_that_fails_while_it_is_cancelled_changes_nothing() -> None:
    watch = Watch()

    async def messy(ctx: ToolContext) -> str:
        try:
            return await watch.hang(ctx)
        finally:
            raise ValueError("could not clean up")

    played = stage(lead(call("messy"), then="unreachable"))
    result = cancelled(played, lambda: watch.begun == 1, tools=(tool("messy", messy),))
    assert (result.status, result.turns) == ("cancelled", 1)


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


@pytest.mark.req("D-8")
def test_the_fault_of_a_provider_ends_the_run_in_its_events_too() -> None:
    class Broken:
        name = "script"

        async def send(self, request: Request, on_delta: Any = None) -> Response:
            raise MemoryError("a fault of ours")

    from axe_nb.engine.clock import Clock
    from axe_nb.engine.loop import Run
    from axe_nb.engine.plan import make_plan
    from axe_nb.engine.scope import AgentSource, Env, RunScope
    from axe_nb.tools.tool import Job, Limits

    events: list[Any] = []
    boss = agent("boss", "x")

    async def work() -> RunResult:
        env = Env(
            agents=AgentSource(load=lambda name: boss, provider_for=lambda *_: Broken()),
            emit=events.append,
        )
        scope = RunScope.root(boss, Limits(), env, Clock(None))
        return await Run(await make_plan(scope, Job(boss, "t", "t"))).execute()

    result = asyncio.run(work())
    assert (result.status, result.error) == ("error", "MemoryError: a fault of ours")
    assert [type(e) for e in events[:2]] == [RunStarted, TurnStarted]
    check_events(events, result)
