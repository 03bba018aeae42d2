"""The caps of `[limits]` that hold by default: whatever a model asks for, a tree stays bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, call
from axe_nb.agents.agent_tables import SubAgentsConfig, TreeLimits
from tests.engine.in_process import agent, ask, heard, lead, said, stage, tool

DEEP = SubAgentsConfig(max_depth=5)


def everywhere(request: Request) -> Any:
    """A model that calls itself again and again, as often as it is asked."""
    return [ask("again", f"{request.agent} {n}") for n in range(40)]


def again(**limits: Any) -> Agent:
    return agent(
        "again", everywhere, sub_agents=("again",), sub_agents_config=DEEP,
        limits=TreeLimits(**limits),
    )  # fmt: skip


@pytest.mark.req("D-51")
def test_a_tree_that_recurses_ends_at_a_thousand_requests() -> None:
    result = stage(again()).play(timeout=0)
    assert sum(one.turns for one in result.walk()) <= 1000
    assert result.status == "error", "it counts no tokens (D-64)"
    assert str(result.error).startswith("limits.max_requests (1000) of again reached: again 1000 ")
    assert len(list(result.walk())) <= 1000, "no more children are started than may be asked"


@pytest.mark.req("D-51")
def test_the_error_of_a_cap_names_its_key_and_the_file(project: Path) -> None:
    agent("once", lambda request: [ask("once")])
    file = project / "axe" / "agents" / "once.toml"
    file.write_text(
        'name = "once"\nmodel = "script/once"\nsub_agents = ["once"]\n[limits]\nmax_requests = 2\n'
    )
    result = axe_nb.run("once", "go")
    assert result.status == "error"
    assert result.error == (
        "limits.max_requests (2) of once reached: once 2 requests; "
        "change it in axe/agents/once.toml"
    )
    changed = Agent.load("once").but(limits={"max_requests": 1})
    result = axe_nb.run(changed, "go")
    assert result.error == "limits.max_requests (1) of once reached: once 1 requests"


@pytest.mark.req("D-51")
def test_calls_of_a_reply_beyond_the_cap_are_answered_not_run() -> None:
    ran: list[str] = []

    async def note(ctx: Any) -> str:
        ran.append(ctx.call.id)
        return "ran"

    one = agent("one", said([call("note", n=n) for n in range(300)], "done"), tools=("note",))
    result = stage(one).play(tools=(tool("note", note),))
    assert result.ok
    assert len(ran) == result.tool_calls == 256
    results = heard(result)
    assert [r.content for r in results[:256]] == ["ran"] * 256
    assert {r.content for r in results[256:]} == {
        "Error: not run: limits.max_calls_per_reply (256) of one reached; make the other calls in "
        "later replies"
    }
    assert all(r.is_error for r in results[256:])
    assert len(results) == 300


@pytest.mark.req("D-51")
def test_the_strictest_cap_of_a_reply_above_holds_and_zero_is_none() -> None:
    many, none = said([call("nothing")] * 400, "done"), TreeLimits(max_calls_per_reply=0)
    child = agent("child", many, tools=("read_file",), limits=none)
    boss = replace(lead(ask("child")), limits=TreeLimits(max_calls_per_reply=7))
    assert stage(boss, child).play().children[0].tool_calls == 7
    assert stage(replace(boss, limits=none), child).play().children[0].tool_calls == 400


@pytest.mark.req("D-51")
@pytest.mark.parametrize(("most", "peak"), [(200, 200), (3, 3), (0, 250)])
def test_requests_in_flight_are_capped_for_the_tree(most: int, peak: int) -> None:
    now, highest = 0, 0

    async def child(request: Request) -> str:
        nonlocal now, highest
        now += 1
        highest = max(highest, now)
        await asyncio.sleep(0.02)
        now -= 1
        return "done"

    boss = replace(
        lead(*[ask("child", str(n)) for n in range(250)]), limits=TreeLimits(max_in_flight=most)
    )
    result = stage(boss, agent("child", child)).play(timeout=0)
    assert result.ok
    assert [one.text for one in result.children] == ["done"] * 250
    assert highest == peak


@pytest.mark.req("D-51")
def test_parents_that_wait_for_children_hold_no_slot() -> None:
    def model(request: Request) -> Any:
        mine = int(request.messages[0].content.removeprefix("Task: "))
        if request.turn > 1 or mine == 0:
            return "done"
        return [ask("level", f"{mine - 1}") for _ in range(2)]

    level = agent(
        "level", model, sub_agents=("level",), sub_agents_config=DEEP,
        limits=TreeLimits(max_in_flight=1),
    )  # fmt: skip
    result = stage(level).play("5", timeout=60)
    assert result.ok
    assert len(list(result.walk())) == 2**6 - 1


@pytest.mark.req("D-51")
def test_plain_tools_run_in_at_most_as_many_threads_and_may_start_children() -> None:
    lock = threading.Lock()
    now, highest = 0, 0

    @axe_nb.tool
    def slow() -> str:
        """Takes its time."""
        nonlocal now, highest
        with lock:
            now += 1
            highest = max(highest, now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return "slow"

    @axe_nb.tool
    def nested() -> str:
        """Starts a child, which has a call of its own to make."""
        return axe_nb.run("inner", "go").text

    model = said([call("slow")] * 20 + [call("nested")] * 6, "done")
    one = agent("one", model, tools=("slow", "nested"), limits=TreeLimits(max_in_flight=4))
    axe_nb.define(agent("inner", said([call("slow")], "inner"), tools=("slow",)))
    axe_nb.define(one)
    result = axe_nb.run("one", "go", timeout=60)
    assert result.ok
    assert [r.content for r in heard(result)] == ["slow"] * 20 + ["inner"] * 6
    assert highest <= 4


LIFTED = TreeLimits(max_requests=0, max_calls_per_reply=0, max_in_flight=0)


@pytest.mark.req("D-51")
@pytest.mark.parametrize(("limits", "most"), [(TreeLimits(), 4), (LIFTED, 25)])
@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_wide_tree_is_over_soon_after_its_time(
    seconds: float, limits: TreeLimits, most: float
) -> None:
    sent: list[float] = []

    async def model(request: Request) -> Any:
        sent.append(time.monotonic())
        await asyncio.sleep(seconds)
        return everywhere(request)

    one = replace(again(), model=agent("wide", model).model, limits=limits)
    cpu = time.process_time()
    with heartbeats() as beats:
        result = stage(one).play(timeout=2)
    assert result.status in ("timeout", "error")
    assert time.process_time() - cpu < most, "not by the clock, as the machine may be busy"
    # a request is sent right after a look at the clock, but the process may stand still in between:
    # then the last beat is that of its end, and the look was soon after the one before
    last = beats[bisect(beats, max(sent)) - 2]
    assert last - beats[0] < 2.5, "no request is sent when the time is up"


@contextmanager
def heartbeats() -> Iterator[list[float]]:
    """Yields the times at which this process did not stand still."""
    beats, done = [time.monotonic()], threading.Event()

    def beat() -> None:
        while not done.wait(0.01):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield beats
    finally:
        done.set()
        thread.join()


@pytest.mark.req("D-51")
def test_the_clock_starts_before_files_are_read(project: Path) -> None:
    began = time.monotonic()
    one = agent("one", "hi", files=("**/nothing-here-*.md",), workdir="/")
    result = stage(one).play(timeout=0.2)
    assert time.monotonic() - began < 5
    assert result.status == "timeout"
    assert result.warnings == ("not all files were read in time",)
    assert result.turns == 0
