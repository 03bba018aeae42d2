"""The Python face: run, arun, stream, last; where they may be called, and how they are stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import json
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, ProviderError, Request
from axe_nb.events import (
    Event,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from tests.engine.in_process import agent, ask, check_events, lead


def tree() -> Agent:
    """A lead and its two children, known to the session."""
    axe_nb.define(agent("child", lambda r: f"did {r.last}"))
    boss = lead(ask("child", "a"), ask("child", "b"))
    axe_nb.define(boss)
    return boss


async def for_ever(_: Request) -> str:
    await asyncio.Event().wait()
    return "never"


EXPECTED = "did Task: a\ndid Task: b"


@pytest.mark.req("D-2")
def test_failed_runs_are_returned_and_mistakes_are_raised() -> None:
    def fail(_: Request) -> str:
        raise ProviderError("overloaded", "busy")

    result = axe_nb.run(agent("failing", fail), "go")
    assert (result.status, result.error, result.ok) == ("error", "overloaded: busy", False)
    assert axe_nb.last() is result
    with pytest.raises(ProviderError):
        result.raise_for_status()
    with pytest.raises(ConfigError, match="agent config not found: nobody"):
        axe_nb.run("nobody", "go")
    with pytest.raises(ConfigError):
        axe_nb.run(agent("x", "x"), timeout=-1)
    assert axe_nb.last() is result


def test_stream_yields_the_seven_events_in_order_and_the_last_carries_the_result() -> None:
    tree()

    async def main() -> list[Event]:
        return [event async for event in axe_nb.stream("lead", "go")]

    events = asyncio.run(main())
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.result is axe_nb.last()
    assert last.result.text == EXPECTED
    check_events(events, last.result)
    assert [type(e) for e in events if e.run == "0"] == [
        RunStarted, TurnStarted, TurnFinished, ToolStarted, ToolStarted, ToolFinished,
        ToolFinished, TurnStarted, TurnFinished, RunFinished,
    ]  # fmt: skip
    assert [type(e) for e in events if e.run == "0.1"] == [
        RunStarted, TurnStarted, TurnFinished, RunFinished,
    ]  # fmt: skip


@pytest.mark.req("D-8")
@pytest.mark.parametrize("how", ["aclose", "break", "cancel"])
def test_leaving_a_stream_early_cancels_the_run(how: str) -> None:
    begun: list[str] = []
    stopped: list[str] = []

    async def model(request: Request) -> str:
        begun.append(request.agent)
        try:
            return await for_ever(request)
        finally:
            stopped.append(request.agent)

    axe_nb.define(agent("hangs", model))
    axe_nb.define(lead(ask("hangs"), ask("hangs")))

    async def until_two(names: list[str]) -> None:
        while len(names) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def read() -> None:
        at_work, events = 0, axe_nb.stream("lead", "go")
        async for event in events:
            at_work += isinstance(event, TurnStarted) and event.run != "0"
            if at_work == 2 and how != "cancel":
                await until_two(begun)
                break
        if how == "aclose":
            await events.aclose()
            assert stopped == ["hangs", "hangs"]

    async def main() -> None:
        reading = asyncio.create_task(read())
        await until_two(begun)
        if how == "cancel":
            reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        del reading
        gc.collect()
        await until_two(stopped)

    asyncio.run(main())
    last = axe_nb.last()
    assert last
    assert [r.status for r in last.walk()] == ["cancelled"] * 3


def test_run_inside_an_async_model_raises_at_once_and_names_the_way() -> None:
    async def model(_: Request) -> str:
        return axe_nb.run(agent("inner", "inner"), "x").text

    error = axe_nb.run(agent("outer", model), "go").error or ""
    assert "axe_nb.run was called inside an async tool" in error


def script(code: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)


OVER_SOCKETS = """
    import asyncio, axe_nb, gc
    from axe_nb import Agent, call, script_server

    @axe_nb.script("lead")
    def lead(request):
        if request.turn == 1:
            return [call("call_agent", agent="child", task=str(n)) for n in range(5)]
        return "done"

    axe_nb.script("child")(lambda request: request.last)
    axe_nb.define(Agent("child", "openai/child"))
    lead = Agent("lead", "openai/lead", sub_agents=("child",))
"""


@pytest.mark.parametrize(
    "use",
    [
        'print(axe_nb.run(lead, "go").text)',
        '[print(asyncio.run(axe_nb.arun(lead, "go")).text, end="") for _ in range(3)]; print()',
    ],
)
def test_no_socket_loop_or_thread_is_left_open(use: str) -> None:
    code = f"    with script_server('openai'):\n        {use}\n    gc.collect()"
    done = script(OVER_SOCKETS + code)
    assert done.stderr == ""
    assert done.stdout in ("done\n", "donedonedone\n")
    assert done.returncode == 0


INTERRUPTED = """
    import asyncio, json, sys, time, axe_nb
    from axe_nb import Agent, call, script_server

    @axe_nb.script("lead")
    def lead(request):
        if request.turn == 1:
            return [call("call_agent", agent="child", task=str(n)) for n in range(8)]
        return "went on"

    @axe_nb.script("child")
    async def child(request):
        print("begun", flush=True)
        await asyncio.sleep(60)
        return "never"

    axe_nb.define(Agent("child", "{provider}/child"))
    lead = Agent("lead", "{provider}/lead", sub_agents=("child",))
    with script_server("openai") as server:
"""


def begin(code: str, provider: str) -> subprocess.Popen[str]:
    """A script in a process of its own, in which all children are at work."""
    words = [sys.executable, "-W", "error", "-c"]
    words += [textwrap.dedent(INTERRUPTED.replace("{provider}", provider) + code)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout
    assert [process.stdout.readline() for _ in range(8)] == ["begun\n"] * 8
    time.sleep(0.1)
    return process


on_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals have names on POSIX only")


@on_posix
@pytest.mark.req("D-8", "A-E5.6")
@pytest.mark.parametrize("provider", ["script", "openai"])
def test_ctrl_c_in_a_script_gives_a_keyboard_interrupt_and_keeps_the_run(provider: str) -> None:
    code = """
        try:
            axe_nb.run(lead, "go")
        except KeyboardInterrupt as stop:
            print(time.monotonic())
            last = axe_nb.last()
            print(str(stop))
            print(json.dumps([[r.status for r in last.walk()], last.turns]))
            print(axe_nb.run(lead, "go on", continue_from=last).text)
            print(server.aborted, server.open_requests)
        """
    with begin(code, provider) as running:
        interrupted = time.monotonic()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=55)
    assert (running.returncode, err) == (0, "")
    back, text, statuses, answer, requests = out.splitlines()
    assert float(back) - interrupted < 1.0, "the gate; 0.1 s where nothing else runs"
    assert text == "stopped; axe_nb.last() has the partial result"
    assert json.loads(statuses) == [["cancelled"] * 9, 1]
    assert answer == "went on"
    assert requests == ("8 0" if provider == "openai" else "0 0")


@on_posix
@pytest.mark.req("D-8")
@pytest.mark.parametrize("use", ['axe_nb.run(lead, "go")', 'asyncio.run(axe_nb.arun(lead, "go"))'])
def test_an_unhandled_ctrl_c_ends_a_script_as_python_does(use: str) -> None:
    with begin(f"        {use}\n", "openai") as running:
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=50)
    assert (running.returncode, out) == (-signal.SIGINT, "")
    assert err.count("Traceback (most recent call last)") <= 2
    assert err.splitlines()[-1].startswith("KeyboardInterrupt")
    assert not [w for w in ("never retrieved", "destroyed", "ignored in", "Warning") if w in err]


def test_the_help_of_run_describes_every_parameter() -> None:
    text = inspect.getdoc(axe_nb.run) or ""
    for name in inspect.signature(axe_nb.run).parameters:
        assert re.search(rf"^    {name}: ", text, re.MULTILINE), name
    assert "options:" not in text
