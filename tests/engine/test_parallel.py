"""Several calls in one response: side by side or in order, always one result each, in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from axe_nb import Request, call
from axe_nb.events import RunFinished, RunStarted
from tests.engine.in_process import agent, ask, check_events, lead, play, stage, texts, tool


@pytest.mark.req("A-11.1", "A-8.2a", "A-E5.2", "D-5", "P-7", "A-D2")
@pytest.mark.parametrize(("size", "together", "cap"), [(20, 20, 0), (9, 1, 1), (9, 3, 3)])
def test_all_children_of_one_response_are_at_work_at_once_up_to_max_concurrent(
    size: int, together: int, cap: int
) -> None:
    now = most = 0
    complete = asyncio.Event()

    async def answer(request: Request) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == together:
            complete.set()
        await asyncio.wait_for(complete.wait(), 5)
        await asyncio.sleep(0.01)
        now -= 1
        return request.last

    calls = [ask("one", f"t{n}") for n in range(size)]
    result = play(lead(*calls, max_concurrent=cap), agent("one", answer))
    assert most == together
    assert texts(result) == [f"Task: t{n}" for n in range(size)]


@pytest.mark.req("A-11.5", "A-8.2a", "A-E5.3", "D-5")
def test_without_parallel_one_ends_before_the_next_begins() -> None:
    boss = lead(*[ask("one", f"t{n}") for n in range(4)], parallel=False)
    played = stage(boss, agent("one", lambda r: r.last))
    result = played.play()
    runs = [
        (type(e).__name__, e.run)
        for e in played.events
        if isinstance(e, RunStarted | RunFinished) and e.run != "0"
    ]
    assert runs == [(kind, f"0.{n}") for n in range(1, 5) for kind in ("RunStarted", "RunFinished")]
    assert texts(result) == [f"Task: t{n}" for n in range(4)]
    assert not result.log[0].parallel


@pytest.mark.req("A-11.3", "A-E5.2")
def test_results_come_in_call_order_whoever_is_first() -> None:
    ended: list[str] = []
    turns = [asyncio.Event() for _ in range(6)]
    turns[5].set()

    async def slow(request: Request) -> str:
        number = int(request.last.removeprefix("Task: "))
        await turns[number + 1].wait()
        ended.append(str(number))
        turns[number].set()
        return str(number)

    played = stage(lead(*[ask("slow", str(n)) for n in range(5)]), agent("slow", slow))
    result = played.play()
    assert ended == ["4", "3", "2", "1", "0"]
    assert texts(result) == ["0", "1", "2", "3", "4"]
    assert [c.text for c in result.children] == ["0", "1", "2", "3", "4"]
    assert [c.id for c in result.children] == ["0.1", "0.2", "0.3", "0.4", "0.5"]
    calls = [c.id for c in result.log[0].calls]
    assert [c.call_id for c in result.children] == calls
    check_events(played.events, result)


@pytest.mark.req("A-E5.1", "A-11.1", "D-58")
def test_the_turns_of_a_run_are_one_task_and_each_tool_is_another() -> None:
    models: list[Any] = []
    tools: list[Any] = []

    async def note(_: Any) -> Any:
        tools.append(asyncio.current_task())
        return "noted"

    async def model(request: Request) -> Any:
        models.append(asyncio.current_task())
        return call("note") if request.turn < 3 else "end"

    play(agent("boss", model), tools=(tool("note", note),))
    assert len(set(models)) == 1
    assert len({*tools, *models}) == 3
