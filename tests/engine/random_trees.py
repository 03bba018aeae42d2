"""Random trees of agents, stopped at random moments, held to what every run promises.

`python -X dev -W error -m tests.engine.random_trees --trees 300 --seed 1` plays them in the
portal's thread, as a notebook does, with cancels, timeouts and real interrupts; the exit code is 1
if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import CancelledError
from typing import Any

import axe_nb
from axe_nb import Agent, ProviderError, Request, Response, RunResult, ToolContext, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.events import Event, RunStarted
from axe_nb.messages import close_open_calls
from axe_nb.session.drive import NullView, drive
from axe_nb.session.overrides import Overrides
from axe_nb.session.portal import portal
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from tests.engine.in_process import check_events, check_history
from tests.waiting import open_files


@axe_nb.tool
async def naps(ctx: ToolContext) -> str:
    """Sleeps a little."""
    await asyncio.sleep(0.003)
    return "rested"


@axe_nb.tool
def works() -> str:
    """Works in a thread."""
    time.sleep(0.002)
    return "worked"


@axe_nb.tool
async def fails() -> str:
    """Raises."""
    raise LookupError("failed")


@axe_nb.tool
async def holds_on(ctx: ToolContext) -> str:
    """Ignores its first cancelling."""
    try:
        await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        await asyncio.sleep(0.005)
    return "held"


@axe_nb.tool
async def both(ctx: ToolContext) -> str:
    """Two children of which the first that answers counts."""
    begun = [asyncio.ensure_future(ctx.delegate("nap")) for _ in range(2)]
    for task in begun:  # whatever it comes to, it is not asked again
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
    done, _ = await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    return str(len(done))


@axe_nb.tool
def nested() -> str:
    """A run in a tool."""
    return axe_nb.run(Agent("inner", "script/inner"), "x").status


TOOLS = ("naps", "works", "fails", "holds_on", "both", "nested")


def cast(chance: random.Random, session: Session, depth: int = 0) -> Agent:
    """An agent with random turns, and agents below it."""
    name = f"agent{len(session.agents)}"
    agent = Agent(name, f"script/{name}")
    session.define(agent)
    below = [cast(chance, session, depth + 1).name for _ in range(chance.randint(0, 2 - depth))]
    turns = [
        tuple(
            call("call_agent", agent=chance.choice(below), task="x")
            if below and chance.random() < 0.5
            else call(chance.choice((*TOOLS, "unknown")))
            for _ in range(chance.randint(1, 4))
        )
        for _ in range(chance.randint(0, 3))
    ]
    end = chance.choice(("text", "text", "text", "fails", "cut"))

    async def model(request: Request) -> Any:
        await asyncio.sleep(chance.choice((0.0, 0.001, 0.004)))
        if request.turn <= len(turns) and request.tools:
            return turns[request.turn - 1]
        if end == "fails":
            raise ProviderError("server", "down")
        return Response("cut", (), "length") if end == "cut" else "the end"

    axe_nb.script(name)(model)
    config = SubAgentsConfig(
        parallel=chance.random() < 0.8, max_concurrent=chance.choice((0, 0, 1, 2)),
        timeout=chance.choice((0, 0, 0.01)),
    )  # fmt: skip
    agent = Agent(
        name, f"script/{name}", sub_agents=tuple(below), tools=TOOLS, sub_agents_config=config
    )
    session.define(agent)
    return agent


class Stopping(NullView):
    """Keeps the events, and stops the run at one of them."""

    def __init__(self, at: int, stop: Any) -> None:
        self.events: list[Event] = []
        self._at = at
        self._stop = stop

    def event(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) == self._at:
            self._stop()


def play(seed: int) -> tuple[str, RunResult]:
    """Plays one tree; (how it was stopped, its result)."""
    chance = random.Random(seed)
    session = Session()
    root = cast(chance, session)
    how = chance.choice(("left alone", "cancelled", "timed out", "interrupted"))
    timeout = chance.uniform(0.002, 0.05) if how == "timed out" else 30.0
    handle = session.start(
        RunRequest(agent=root, prompt="go", overrides=Overrides(timeout=timeout))
    )
    stops = {
        "cancelled": handle.cancel, "interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
    }  # fmt: skip
    view = Stopping(chance.randint(1, 60) if how in stops else -1, stops.get(how))
    with contextlib.suppress(KeyboardInterrupt, CancelledError):
        drive(handle, view)
    result = handle.finished
    assert result is not None
    seen = len(view.events)
    check(view.events, result)
    assert session.last is result
    wait_until_nothing_is_left()
    assert len(view.events) == seen, "an event after the root's end"
    return how, result


def check(events: list[Event], result: RunResult) -> None:
    """Pairs of events, one result per call in order, every child in its place."""
    check_events(events, result)
    started = [event.run for event in events if isinstance(event, RunStarted)]
    assert sorted(started) == sorted(one.id for one in result.walk())
    for one in result.walk():
        check_history(close_open_calls(one.messages))
        for turn in one.log:
            calls = [c.id for c in turn.calls]
            told = [r.call_id for r in turn.results]
            assert told == [c for c in calls if c in told], "results in call order"
            assert one.status != "completed" or told == calls or turn.closing
    total = result.total_usage.total
    assert total == sum(one.usage.total for one in result.walk())


def tasks() -> set[asyncio.Task[Any]]:
    loop = portal._loop
    return {task for task in asyncio.all_tasks(loop) if not task.done()} if loop else set()


def threads() -> set[str]:
    return {t.name for t in threading.enumerate()} - {"MainThread", "axe-nb-loop"}


def wait_until_nothing_is_left() -> None:
    """Threads that were abandoned end by themselves, soon."""
    end = time.monotonic() + 5
    while (tasks() or threads()) and time.monotonic() < end:
        time.sleep(0.002)
    assert not tasks(), f"left running: {tasks()}"
    assert not threads(), f"left running: {threads()}"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    os.environ["AXE_NB_HISTORY"] = "0"  # its thread lives as long as the process
    axe_nb.script("inner")(lambda request: "inner end")
    play(asked.seed)
    before, runs, broken = open_files(), 0, []
    for seed in range(asked.seed, asked.seed + asked.trees):
        try:
            _, result = play(seed)
        except Exception:
            broken.append(f"seed {seed}: {traceback.format_exc()}")
            continue
        runs += len(list(result.walk()))
    gc.collect()
    if open_files() != before:
        broken.append(f"{open_files() - before} files left open")
    print(f"{asked.trees} trees, {runs} runs, {len(broken)} broken promises")
    print(*broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    warnings.simplefilter("error")
    sys.exit(main())
