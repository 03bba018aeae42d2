"""Whatever tree models make of it, wherever it is cancelled: the books are right."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axe_nb import Agent, ProviderError, Request, Response, RunResult, Usage, call
from axe_nb.agents.tables import SubAgentsConfig
from axe_nb.events import Event, ToolFinished, ToolStarted, TurnFinished
from axe_nb.messages import close_open_calls
from axe_nb.tools.tool import ToolContext
from axe_nb.views.outline import Outline, as_lines, as_text
from axe_nb.views.transcript import Transcript
from tests.engine.in_process import (
    agent,
    ask,
    check_events,
    check_history,
    heard,
    stage,
    tool,
)

ENDS = ("text", "empty", "cut", "refused", "crash", "endless")
CALLS = ("fine", "fails", "cancels", "unknown", "ghost", "blank", "stranger")


@dataclass(frozen=True)
class Plan:
    """What an agent does: turns of calls, then an end."""

    turns: tuple[tuple[Plan | str, ...], ...]
    end: str
    parallel: bool
    cap: int
    sleeps: tuple[float, ...] = field(default=(0.0,))


def plans(below: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    calls = st.lists(st.one_of(below, st.sampled_from(CALLS)), min_size=1, max_size=4).map(tuple)
    return st.builds(
        Plan,
        st.lists(calls, max_size=2).map(tuple),
        st.sampled_from(ENDS),
        st.booleans(),
        st.sampled_from((0, 1, 2)),
        st.lists(st.sampled_from((0.0, 0.001, 0.002)), min_size=1, max_size=3).map(tuple),
    )


LEAVES = st.builds(
    Plan, st.just(()), st.sampled_from(ENDS[:-1]), st.just(True), st.just(0),
    st.lists(st.sampled_from((0.0, 0.001)), min_size=1, max_size=2).map(tuple),
)  # fmt: skip
TREES = st.recursive(LEAVES, plans, max_leaves=8)


def cast(plan: Plan, number: Iterator[int]) -> list[Agent]:
    """The agents of a plan, its own first."""
    name = f"agent{next(number)}"
    below: list[Agent] = []
    turns: list[list[Any]] = []
    subs = ["ghost"]
    for calls in plan.turns:
        turns.append([])
        for one in calls:
            if isinstance(one, Plan):
                agents = cast(one, number)
                below += agents
                subs.append(agents[0].name)
                turns[-1].append(ask(agents[0].name))
            else:
                turns[-1].append(
                    {"ghost": ask("ghost"), "blank": ask("ghost", " "), "stranger": ask("x")}.get(
                        one, call(one)
                    )
                )

    async def model(request: Request) -> Any:
        await asyncio.sleep(plan.sleeps[request.turn % len(plan.sleeps)])
        if request.turn <= len(turns):
            return Response(
                f"turn {request.turn}", tuple(turns[request.turn - 1]), "x", Usage(2, 1)
            )
        match plan.end:
            case "refused":
                raise ProviderError("auth", "no")
            case "crash":
                raise RuntimeError("crash")
            case "cut":
                return Response("cut", (call("fine"),), "length", Usage(2, 1))
            case "endless":
                return Response("", (call("fine"),), "x", Usage(2, 1))
            case end:
                return Response("" if end == "empty" else "the end", (), "stop", Usage(2, 1))

    config = SubAgentsConfig(parallel=plan.parallel, max_concurrent=plan.cap, max_depth=5)
    return [
        agent(name, model, sub_agents=tuple(subs), sub_agents_config=config,
              tools=("fine", "fails", "cancels")),
        *below,
    ]  # fmt: skip


async def fine(_: ToolContext) -> str:
    await asyncio.sleep(0)
    return "fine"


async def fails(_: ToolContext) -> str:
    raise LookupError("failed")


async def cancels(_: ToolContext) -> str:
    raise asyncio.CancelledError


TOOLS = tuple(tool(fn.__name__, fn) for fn in (fine, fails, cancels))


def counted(kind: type, events: list[Event], run: str) -> int:
    return sum(isinstance(event, kind) and event.run == run for event in events)


def check_books(result: RunResult, events: list[Event]) -> None:
    for run in result.walk():
        assert run.turns == len(run.log) == counted(TurnFinished, events, run.id)
        assert run.usage == Usage(2 * run.turns, run.turns)
        assert run.tool_calls == counted(ToolStarted, events, run.id)
        told = [one for turn in run.log for one in turn.results]
        assert len(told) == counted(ToolFinished, events, run.id)
        check_history(close_open_calls(run.messages))
        order = [c.id for turn in run.log for c in turn.calls]
        assert [c.call_id for c in run.children] == sorted(
            (c.call_id for c in run.children), key=order.index
        )
        for turn in run.log:
            calls = [c.id for c in turn.calls]
            results = [r.call_id for r in turn.results]
            assert results == [c for c in calls if c in results], "in call order"
            if run.status == "completed":
                assert results == calls
        for child in run.children:
            answers = [r for r in told if r.call_id == child.call_id]
            if answers:
                assert answers[0].is_error == (not child.ok)
                assert answers[0].content == child.text or child.error in answers[0].content
            else:
                assert child.status == "cancelled" or result.status == "cancelled"
    assert result.total_usage.total == 3 * counted_all(TurnFinished, events)


def counted_all(kind: type, events: list[Event]) -> int:
    return sum(isinstance(event, kind) for event in events)


@pytest.mark.req("D-2", "D-8", "D-32", "A-11.3", "A-11.4", "A-13.1", "A-8.6", "A-8.8")
@settings(
    max_examples=150, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(plan=TREES, stop=st.one_of(st.none(), st.integers(1, 60)))
def test_events_results_and_histories_agree(plan: Plan, stop: int | None) -> None:
    agent("after", "after")
    played = stage(*cast(plan, iter(range(1000))))
    shown = Transcript()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        me = asyncio.current_task()
        assert me

        def emit(event: Event) -> None:
            played.events.append(event)
            shown.apply(event, 0.0)
            if len(played.events) == stop:
                loop.call_soon(me.cancel)

        played.emit = emit
        with contextlib.suppress(asyncio.CancelledError):
            await played.ask(tools=TOOLS)

    asyncio.run(run())
    result = played.session.last
    assert result
    check_events(played.events, result)
    check_books(result, played.events)
    assert shown.root
    live = as_lines(Outline(shown.root, "axe_nb.last()"))
    assert "\n".join(live) == as_text(result)
    played.emit = None
    again = asyncio.run(
        played.ask("go on", continue_from=result, model="script/after", tools=TOOLS)
    )
    assert again.text == "after"
    assert heard(again) == ()
