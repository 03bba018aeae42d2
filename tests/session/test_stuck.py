"""Tools that do not stop defeat neither timeout nor interrupt, and hold up no later run (D-58)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, call
from axe_nb.events import RunFinished
from axe_nb.session.overrides import Overrides
from axe_nb.session.portal import portal
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from tests.engine.in_process import agent
from tests.waiting import eventually, open_files

pytestmark = pytest.mark.req("D-58", "D-8")

LONG = 8.0
"""Seconds that a tool blocks; what is asserted is that nobody waits for it."""


def boss(tool: str) -> Agent:
    return agent("boss", lambda r: call(tool) if r.turn == 1 else "done", tools=(tool,))


@pytest.fixture
def let_go() -> Any:
    """Ends the tools that a test leaves blocking."""
    over = threading.Event()
    yield over
    over.set()


def test_a_tool_that_blocks_the_loop_does_not_defeat_the_timeout(let_go: threading.Event) -> None:
    @axe_nb.tool
    async def block() -> str:
        let_go.wait(LONG)
        return "late"

    began = time.monotonic()
    result = axe_nb.run(boss("block"), "go", timeout=0.3)
    assert time.monotonic() - began < LONG - 2
    assert (result.status, result.turns, result.tool_calls) == ("timeout", 1, 1)
    assert result.error == (
        'timeout after 0.3s; tool "block" of agent "boss" blocked the event loop: '
        "define it with def, not async def"
    )
    assert axe_nb.last() is result
    began = time.monotonic()
    assert axe_nb.run(agent("next", "at once"), "go").text == "at once"
    assert time.monotonic() - began < LONG - 4


@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_tool_that_swallows_its_cancelling_is_left_behind(how: str) -> None:
    @axe_nb.tool
    async def stay() -> str:
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            with contextlib.suppress(BaseException):
                await asyncio.sleep(LONG)
        return "late"

    session, seen = Session(), []

    async def work() -> Any:
        seconds = 0.2 if how == "timeout" else 60
        overrides = Overrides(timeout=seconds)
        handle = session.start(RunRequest(agent=boss("stay"), overrides=overrides))
        task = asyncio.create_task(handle.execute(seen.append))
        if how == "cancel":
            await asyncio.sleep(0.2)
            handle.cancel()
        await asyncio.wait({task})
        return handle.finished

    began = time.monotonic()
    runner = asyncio.Runner()
    result = runner.get_loop().run_until_complete(work())
    assert time.monotonic() - began < LONG - 2
    assert result.status == ("timeout" if how == "timeout" else "cancelled")
    assert isinstance(seen[-1], RunFinished)
    for task in asyncio.all_tasks(runner.get_loop()):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is meant to stay
    runner.get_loop().close()


@pytest.mark.parametrize("what", ["tool", "task", "generator"])
def test_a_replaced_loop_ends_with_its_thread_and_sockets_whatever_swallows_its_cancelling(
    what: str, let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def swallow() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await swallow()

    kept: list[Any] = []

    @axe_nb.tool
    async def block() -> str:
        if what == "task":
            kept.append(asyncio.create_task(swallow()))
            await asyncio.sleep(0)
        if what == "generator":
            kept.append(generate())
            await anext(kept[0])
        let_go.wait(LONG)
        if what == "tool":
            await swallow()
        return "late"

    monkeypatch.setenv("OPENAI_API_KEY", "k")
    following = agent("next", "at once")
    with axe_nb.script_server("openai"):
        over_http = replace(boss("block"), model="openai/boss")
        axe_nb.run(following, "go")
        before, old, loop = open_files(), portal._thread, portal._loop
        assert axe_nb.run(over_http, "go", timeout=0.5).status == "timeout"
        assert axe_nb.run(following, "go").text == "at once"
        assert portal._thread is not old
        let_go.set()
        assert old
        assert loop
        assert eventually(lambda: not old.is_alive(), 20), "the thread of the replaced loop"
        assert eventually(loop.is_closed, 20), "the replaced loop"
        assert eventually(lambda: open_files() <= before, 20), "the sockets of the replaced loop"


def test_a_tool_that_stops_the_loop_stops_neither_its_run_nor_later_ones() -> None:
    @axe_nb.tool
    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "went on"

    assert axe_nb.run(boss("stop"), "go", timeout=20).text == "done"
    assert axe_nb.run(agent("next", "at once"), "go", timeout=20).text == "at once"


SCRIPT = """
    import asyncio, os, signal, sys, threading, time
    import axe_nb
    from axe_nb import Agent, call

    @axe_nb.tool
    async def block() -> str:
        os.write(1, bytes([98, 101, 103, 117, 110, 10]))  # print is captured
        {body}
        return "late"

    axe_nb.script("boss")(lambda r: call("block") if r.turn == 1 else "done")
    axe_nb.script("next")(lambda r: "at once")
    try:
        axe_nb.run(Agent("boss", "script/boss", tools=("block",)), "go")
    except KeyboardInterrupt as stop:
        print(stop)
    last = axe_nb.last()
    print(last.status, last.turns, last.error)
    began = time.monotonic()
    print(axe_nb.run(Agent("next", "script/next"), "go").text, time.monotonic() - began < 4)
    sys.stdout.flush()
    os._exit(0)
"""
BODIES = {
    "sleeps": "time.sleep(30)",
    "swallows": "exec('while True:\\n try: time.sleep(0.01)\\n except BaseException: pass')",
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by name on POSIX only")
@pytest.mark.parametrize("kind", BODIES)
def test_an_interrupt_comes_back_from_a_blocked_loop(kind: str, tmp_path: Path) -> None:
    code = textwrap.dedent(SCRIPT.format(body=BODIES[kind]))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(Path(axe_nb.__file__).parent.parent)},
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=25)
    assert time.monotonic() - began < 20
    assert err == ""
    first, second, third = out.splitlines()
    assert first == "stopped; axe_nb.last() has the partial result"
    assert second == (
        'cancelled 1 cancelled; tool "block" of agent "boss" blocked the event loop: '
        "define it with def, not async def"
    )
    assert third == "at once True"
