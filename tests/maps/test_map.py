"""`axe_nb.map`: order, laziness, failures as results, limits, and how a map ends.

Source: product.md "Exploring"; issue 13.
"""

from __future__ import annotations

import asyncio
import gc
import io
import os
import random
import re
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pandas
import pytest

import axe_nb
from axe_nb import Agent, AxeError, ConfigError, Request
from axe_nb.session.session import session
from tests.maps.conftest import Echo

pytestmark = pytest.mark.req("E-1", "E-2")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def texts(results: Any) -> list[str]:
    return [result.text for result in results]


def statuses(results: Any) -> list[str]:
    return [result.status for result in results]


async def wait(found: Any) -> None:
    await found


def test_for_and_await_give_the_order_of_the_prompts_and_async_for_that_of_the_ends(
    echo: Echo,
) -> None:
    async def ask() -> None:
        ended = [result.text async for result in axe_nb.map(echo.agent, prompts)]
        assert ended == ["B", "SLOW", "SLOW SLOW"]
        assert texts(await axe_nb.map(echo.agent, prompts)) == ordered
        assert texts(axe_nb.map(echo.agent, iter(prompts))) == ordered  # as in a notebook

    prompts, ordered = ["slow slow", "b", "slow"], ["SLOW SLOW", "B", "SLOW"]
    found = axe_nb.map(echo.agent, prompts)
    for _ in range(2):  # the second time, from what is kept
        assert texts(found) == texts(found.results) == ordered
    assert len(echo.asked) == 3
    asyncio.run(ask())
    assert list(axe_nb.map(echo.agent, [])) == []


@pytest.mark.parametrize("is_async", [False, True])
def test_prompts_are_taken_when_they_can_be_asked_and_plain_ones_in_the_callers_thread(
    is_async: bool, echo: Echo
) -> None:
    taken: list[threading.Thread] = []

    def plain() -> Iterator[str]:
        for number in range(10_000):
            taken.append(threading.current_thread())
            yield f"prompt {number}"

    async def later() -> AsyncIterator[str]:
        for prompt in plain():
            yield prompt

    results = iter(axe_nb.map(echo.agent, later() if is_async else plain(), concurrency=2))
    assert taken == []
    assert next(results).text == "PROMPT 0"
    time.sleep(0.1)
    assert len(taken) < 20, "two at once, and a few whose results wait to be received"
    assert is_async or set(taken) == {threading.current_thread()}
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", [list, iter])
def test_the_others_go_on_behind_a_slow_run(given: Any) -> None:
    all_asked, numbers = asyncio.Event(), count(1)

    @axe_nb.script("first_is_slow")
    async def model(request: Request) -> str:
        if next(numbers) == len(prompts):
            all_asked.set()
        if request.last == "first":
            await all_asked.wait()
        return request.last

    prompts = ["first", *(f"prompt {number}" for number in range(200))]
    agent = Agent("one", "script/first_is_slow")
    results = list(axe_nb.map(agent, given(prompts), concurrency=2, timeout=60))
    assert set(statuses(results)) == {"completed"}
    assert texts(results) == prompts


@pytest.mark.parametrize("blocks", [True, False])
def test_an_error_of_the_prompts_ends_the_map_and_keeps_what_was_done(
    blocks: bool, echo: Echo
) -> None:
    def prompts() -> Iterator[str]:
        yield "a"
        time.sleep(0.1)
        raise LookupError("no more rows")

    found = axe_nb.map(echo.agent, prompts(), concurrency=1)
    with pytest.raises(LookupError, match="no more rows"):
        list(found) if blocks else asyncio.run(wait(found))
    assert texts(found.results) == ["A"]


@pytest.mark.req("D-2")
def test_failures_are_results_in_their_place(echo: Echo) -> None:
    prompts: Any = ["a", "fail", 5, ["c", object()], "d"]
    found = axe_nb.map(echo.agent, prompts, expect="text ~ /A/")
    results = list(found)
    assert statuses(results) == ["completed", "error", "error", "error", "error"]
    assert isinstance(results[4].cause, axe_nb.ExpectationError)
    assert results[1].error == "server: out of order"
    assert "prompt must be text or a list, not int" in str(results[2].error)
    assert "part 2 of the prompt" in str(results[3].error)
    assert found.failures == results[1:]
    with pytest.raises(ConfigError, match="prompt must be text"):
        results[2].raise_for_status()


def test_the_timeout_is_that_of_each_run(echo: Echo) -> None:
    echo.hangs = {"never"}
    prompts = ["a", "never", *(f"slow {n}" for n in range(8))]
    results = list(axe_nb.map(echo.agent, prompts, timeout=0.3, concurrency=2))
    assert statuses(results) == ["completed", "timeout", *["completed"] * 8]
    assert results[1].error == "timeout after 0.3s"


ECHO = Agent(name="a", model="script/echo")


@pytest.mark.parametrize(
    ("agent", "options", "problem"),
    [
        ("nobody", {}, "nobody"),
        (Agent(name="a", model="openai/x"), {}, "no API key"),
        (ECHO, {"modell": "x"}, "unknown option"),
        (ECHO, {"concurrency": 0}, "concurrency"),
        (ECHO, {"keep": "all"}, "keep takes"),
        (ECHO, {"budget": -1}, "budget"),
        (ECHO, {"budget": {"max_turns": 1}}, "max_turns"),
        (ECHO, {"budget": 1}, "price of the model"),
        (ECHO, {"resume": "no/such/folder/x"}, "resume file"),
        (ECHO, {"resume": True}, "resume takes the path of a file, not True"),
        (ECHO, {"executor": 4}, "executor takes"),
    ],
)
def test_a_mistake_that_all_runs_share_is_raised_before_the_first(
    agent: Any, options: dict[str, Any], problem: str, echo: Echo, project: object
) -> None:
    taken: list[str] = []
    prompts = (taken.append(prompt) or prompt for prompt in "abc")  # type: ignore[func-returns-value]
    with pytest.raises(ConfigError, match=problem):
        axe_nb.map(agent, prompts, **options)
    assert taken == echo.asked == []


def test_what_is_no_iterable_of_prompts_is_refused(echo: Echo) -> None:
    frame, told = pandas.DataFrame({"question": ["a", "b"]}), "prompts takes an iterable"
    for prompts in ("one text", {"a": 1}, 5, None, frame):
        with pytest.raises(ConfigError, match=rf"{told}[\s\S]* one column of a table"):
            axe_nb.map(echo.agent, prompts)  # type: ignore[arg-type]
    assert texts(axe_nb.map(echo.agent, frame["question"])) == ["A", "B"]


def test_agents_are_read_once_and_only_the_usage_of_the_session_is_written(
    echo: Echo, project: Path
) -> None:
    file = project / "axe" / "agents" / "echo.toml"
    file.write_text('name = "echo"\nmodel = "script/echo"\n')
    before = axe_nb.run("echo", "before")

    def prompts() -> Iterator[str]:
        yield "a"
        file.write_text("broken")
        yield "b"

    assert texts(axe_nb.map("echo", prompts(), concurrency=1)) == ["A", "B"]
    assert axe_nb.last() is before
    assert session.conversations == {"echo": before}
    assert session.spent["echo", "script/echo"].runs == 3


def test_a_map_inside_a_tool_is_refused(echo: Echo) -> None:
    def look() -> str:
        return str(list(axe_nb.map(echo.agent, ["a"])))

    axe_nb.script("caller")(lambda r: axe_nb.call("look") if r.turn == 1 else r.results[0].content)
    result = axe_nb.run(Agent(name="caller", model="script/caller", tools=(look,)), "go")
    assert "axe_nb.map was called inside a tool" in result.text


def test_leaving_a_loop_another_thread_or_the_task_that_awaits_it_stops_a_map(echo: Echo) -> None:
    echo.hangs = {"never"}
    left = axe_nb.map(echo.agent, ["a", "never", "never", "d"], concurrency=3)
    assert next(iter(left)).text == "A"
    gc.collect()
    assert (left.stopped, echo.at_once) == ("the loop over it was left", 0)
    assert set(statuses(left.results[1:])) <= {"cancelled", "completed"}
    found = axe_nb.map(echo.agent, ["a", "never", "c", "d"], concurrency=2)
    threading.Timer(0.2, found.cancel).start()
    assert statuses(found) == ["completed", "cancelled", "completed", "completed"]
    awaited = axe_nb.map(echo.agent, ["a", "never"])
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(wait(awaited), 0.2))
    assert statuses(awaited.results) == ["completed", "cancelled"]
    assert found.stopped == awaited.stopped == "cancelled"
    assert echo.at_once == 0


@pytest.fixture
def blocking(echo: Echo) -> None:
    """The prompt `block` blocks the event loop."""

    @axe_nb.script("echo")
    async def block(request: Request) -> str:
        if request.last == "block":
            time.sleep(6.0)  # noqa: ASYNC251 - what a tool of a user may do
        text: str = await echo.answer(request)
        return text


@pytest.mark.usefixtures("blocking")
@pytest.mark.parametrize("last", ["never 2", "block"])
def test_an_interrupt_is_back_at_once_and_keeps_what_was_done(last: str, echo: Echo) -> None:
    echo.hangs = {"never", "never 2"}

    found = axe_nb.map(echo.agent, ["a", "never", last], concurrency=3)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    told = "has the runs so far; with resume=PATH, the same call would continue"
    with pytest.raises(KeyboardInterrupt, match=told):
        list(found)
    assert time.monotonic() - began < 4.0
    assert found.stopped == "interrupted"
    assert statuses(found.results)[1:] == ["cancelled", "cancelled"]
    assert "3 of 3 runs" in repr(found), "each is counted once"


@pytest.mark.usefixtures("blocking")
def test_a_tool_that_blocks_the_event_loop_costs_its_map_no_more_than_its_timeout(
    echo: Echo,
) -> None:
    began = time.monotonic()
    found = axe_nb.map(echo.agent, ["a", "block"], timeout=0.5, concurrency=1)
    assert statuses(found) == ["completed", "timeout"]
    assert found.stopped == "a tool blocked the event loop"
    assert time.monotonic() - began < 5.0


def test_a_budget_of_requests_holds_for_all_turns_of_all_runs_and_stops_cleanly() -> None:
    axe_nb.script("turns")(
        lambda request: axe_nb.call("list_dir", path=".") if request.turn < 5 else "done"
    )
    agent = Agent(name="turns", model="script/turns", tools=("list_dir",))
    prompts = (f"p{n}" for n in range(50))
    found = axe_nb.map(agent, prompts, budget={"max_requests": 12}, concurrency=4)
    results = list(found)
    assert sum(r.turns for r in results) == 12
    assert found.stopped == "the budget of this map was reached: max_requests = 12"
    assert {(r.status, r.error) for r in results if not r.ok} == {("cancelled", found.stopped)}


@pytest.mark.parametrize("options", [{"concurrency": 2}, {"budget": {"max_in_flight": 2}}])
def test_no_more_runs_go_on_at_once_than_are_allowed(options: Any, echo: Echo) -> None:
    list(axe_nb.map(echo.agent, [f"slow {n}" for n in range(8)], **options))
    assert echo.most == 2


@pytest.fixture
def priced(tmp_path: Path) -> None:
    """A word costs a dollar."""
    config = tmp_path / "config" / "axe" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[prices."script/echo"]\ninput = 1000000\noutput = 0\n')


@pytest.mark.usefixtures("priced")
@pytest.mark.parametrize("whose", ["map", "session"])
def test_a_budget_in_dollars_stops_the_map(whose: str, echo: Echo) -> None:
    if whose == "session":
        session.budget.set(3.0)
    budget = 3.0 if whose == "map" else None
    found = axe_nb.map(echo.agent, ["word"] * 20, budget=budget, concurrency=1)
    results = list(found)
    assert 3 <= len(results) < 20
    assert found.stopped.startswith(f"the budget of this {whose} was reached")
    if whose == "session":
        assert results[-1].status == "cancelled", "so that a resume file has it asked again"


@pytest.mark.usefixtures("priced")
def test_a_last_run_that_passes_the_budget_is_told(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "limits.max_cost ($0.50) of this {} exceeded: $1.00"
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    found = axe_nb.map(echo.agent, ["word"], budget=0.5)
    assert statuses(found) == ["completed"]
    assert found.stopped == "", "nothing was left to ask"
    assert told.format("map") in terminal.getvalue()
    assert told.format("grid") in str(axe_nb.grid(echo.agent, "word", budget=0.5))
    assert "exceeded" not in str(axe_nb.grid(echo.agent, "word", budget=1.0))


def test_memory_is_bounded_where_nothing_is_kept(echo: Echo) -> None:
    once = axe_nb.map(echo.agent, ["a"], keep="nothing")
    assert (texts(once), once.results) == (["A"], [])

    def grow(number: int) -> int:
        for _ in axe_nb.map(echo.agent, (f"p{n}" for n in range(number)), keep="nothing"):
            echo.asked.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        grow(50)
        few = grow(50)
        assert grow(500) - few < 200_000
    finally:
        tracemalloc.stop()


def test_a_map_is_iterated_over_by_one_at_a_time_and_says_what_it_is(echo: Echo) -> None:
    found = axe_nb.map(echo.agent, ["a", "fail"])
    assert "0 of 2 runs, 0 failed; not started: iterate over it, or await it" in repr(found)
    first = iter(found)
    next(first)
    with pytest.raises(AxeError, match="already being iterated over"):
        next(iter(found))
    list(first)
    assert repr(found).startswith("<map of echo: 2 of 2 runs, 1 error")


def test_a_finished_map_is_a_table_with_its_failures_first_that_opens_each_run(echo: Echo) -> None:
    found = axe_nb.map(echo.agent, ["<b>one", "fail", "two"])
    assert "<table" not in found._repr_html_()
    assert not list(found)[1].ok
    page = found._repr_html_()
    assert re.findall(r"<tr><td [^>]*>(\d)</td>", page) == ["1", "0", "2"]
    assert page.count("<details><summary>") >= 3
    assert ("&lt;b&gt;one" in page, "<b>one" in page) == (True, False)


@pytest.mark.parametrize("length", [1, sys.maxsize])
def test_a_wrong_length_of_the_prompts_is_no_error(echo: Echo, length: int) -> None:
    class Prompts(list[str]):
        def __len__(self) -> int:
            return length

    assert len(list(axe_nb.map(echo.agent, Prompts(["slow"] * 5), concurrency=1))) == 5


@pytest.mark.req("E-8")
def test_a_terminal_has_one_rewritten_line(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    list(axe_nb.map(echo.agent, [f"slow {n}" for n in range(8)], concurrency=2))
    lines = terminal.getvalue().split("\r")
    assert re.search(r"^echo: \d of 8 runs, 0 failed .*\d/s · about \d s left", lines[-2])
    assert lines[-1] == "echo: 8 of 8 runs, 0 failed · 16 tokens".ljust(len(lines[-1]) - 1) + "\n"
    assert terminal.getvalue().count("\n") == 1
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    list(axe_nb.map(echo.agent, ["a"], display=False))
    monkeypatch.setattr("sys.stderr", piped := io.StringIO())
    list(axe_nb.map(echo.agent, ["a"]))
    assert terminal.getvalue() == piped.getvalue() == ""


PROMPTS = ["same", "same", "slow", "other", "same", "same", "slow"]


@pytest.fixture
def numbered() -> Iterator[Agent]:
    """An agent that numbers its answers in the order of arrival, which is by chance."""
    numbers = count(1)

    async def answer(request: Request) -> str:
        await asyncio.sleep(random.random() / 50)
        return f"answer {next(numbers)}"

    axe_nb.script("numbered")(answer)
    return Agent(name="numbered", model="script/numbered")


def ask(agent: Agent, **options: Any) -> list[str]:
    return [r.text for r in axe_nb.map(agent, PROMPTS, **options)]


@pytest.mark.req("D-59")
def test_equal_prompts_replay_their_own_answers_in_any_timing(
    numbered: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "cassette.txt"
    with axe_nb.cassette(path, mode="record"):
        recorded = ask(numbered, concurrency=7)
    assert len(set(recorded)) == len(PROMPTS)
    for concurrency in (1, 3, 7):
        with axe_nb.cassette(path, mode="replay"):
            assert ask(numbered, concurrency=concurrency) == recorded
            assert ask(numbered, keep="nothing")[0] == "", "each is played once"


@pytest.mark.req("D-59", "E-6")
def test_a_grid_replays_equal_cases_of_its_judge_in_any_timing(tmp_path: Path) -> None:
    numbers = count(1)

    @axe_nb.script("same")
    async def answer(request: Request) -> Any:
        await asyncio.sleep(random.random() / 50)
        if "fail" in request.last:
            raise axe_nb.ProviderError("bad_request", "no", status=400)
        return {"score": next(numbers), "reason": "so"} if request.agent == "judge" else "the same"

    agent, judge = Agent("same", "script/same"), Agent("judge", "script/same")

    def compare(mode: Any, concurrency: int) -> list[float | None]:
        with axe_nb.cassette(tmp_path / "c", mode=mode):
            grid = axe_nb.grid(
                [agent, agent.but(name="other")], "P {{ input }}", inputs=["a", "fail"],
                judge=judge, repeats=3, concurrency=concurrency,
            )  # fmt: skip
        return [run.score for run in grid.runs]

    recorded = compare("record", 6)
    assert sorted(filter(None, recorded)) == [1, 2, 3, 4, 5, 6]
    assert compare("replay", 1) == compare("replay", 4) == recorded


@pytest.mark.req("D-59")
def test_the_cassette_of_the_environment_records_maps_and_a_miss_is_the_result_of_its_run(
    echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_CASSETTE", str(tmp_path / "c"))
    monkeypatch.setenv("AXE_CASSETTE_MODE", "record")
    ask(echo.agent)
    axe_nb.run(echo.agent, "same")
    assert session.cassette is not None
    assert session.cassette.recorded == len(PROMPTS) + 1
    session.use_cassette(None)
    with axe_nb.cassette(tmp_path / "c", mode="replay"):
        first, second = axe_nb.map(echo.agent, ["other", "new"])
    assert first.ok
    assert isinstance(second.cause, axe_nb.CassetteMiss)
