"""Sessions and the thread of their loop: who is called where, and how tools that stick are left."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, call
from axe_nb.events import Event, RunFinished, TextDelta
from axe_nb.session.drive import NullView, drive, drive_here
from axe_nb.session.overrides import Overrides
from axe_nb.session.portal import portal, run_and_wait
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from tests.engine.in_process import agent, ask_session
from tests.waiting import eventually, open_files


@pytest.mark.req("D-25", "A-C4")
def test_settings_are_read_anew_for_every_run(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what the server sets is taken away while it runs, and back when it ends
    with axe_nb.script_server("openai") as server, monkeypatch.context() as environ:
        axe_nb.script("echo")(lambda request: request.last)
        environ.delenv("OPENAI_API_KEY")
        environ.delenv("AXE_OPENAI_BASE_URL")
        session = Session()
        one = session.define(Agent("one", "openai/echo"))
        with pytest.raises(ConfigError, match="no API key"):
            asyncio.run(ask_session(session, one, "x"))
        (tmp_path / "config/axe").mkdir(parents=True)
        (tmp_path / "config/axe/config.toml").write_text(
            f'[providers.openai]\napi_key = "k"\nbase_url = "{server.base_url}/v1"'
        )
        assert asyncio.run(ask_session(session, one, "x")).text == "x"


@pytest.mark.req("D-2")
def test_a_handle_is_one_run_and_sends_nothing_a_second_time() -> None:
    sent: list[str] = []
    handle = Session().start(RunRequest(agent=agent("one", lambda r: sent.append("x") or "hi")))

    async def work() -> None:
        assert [event async for event in handle.events()]
        with pytest.raises(RuntimeError, match="this run of one has already been started"):
            assert [event async for event in handle.events()]

    asyncio.run(work())
    assert (sent, handle.result(0).text) == (["x"], "hi")


@pytest.mark.parametrize(
    "shows",
    [drive, lambda handle, view: asyncio.run(drive_here(handle, view))],
    ids=["drive", "drive_here"],
)
def test_a_view_that_fails_at_a_tick_stops_the_run_and_is_told(shows: Any) -> None:
    @axe_nb.script("slow")
    async def model(request: Request) -> str:
        await asyncio.sleep(30)
        return "late"

    class Broken(NullView):
        def tick(self) -> None:
            raise ZeroDivisionError("of the view")

    handle = Session().start(RunRequest(agent=Agent("one", "script/slow"), prompt="go"))
    with pytest.raises(ZeroDivisionError, match="of the view"):
        shows(handle, Broken())
    assert handle.finished is not None
    assert handle.finished.status == "cancelled"


@pytest.mark.req("D-8")
def test_nobody_waits_for_a_handle_that_is_cancelled_before_anyone_runs_it() -> None:
    handle = Session().start(RunRequest(agent=agent("one", "hi")))
    handle.cancel()
    assert handle.done

    async def wait() -> None:
        await handle

    for waiting in (lambda: handle.result(5), lambda: asyncio.run(wait())):
        with pytest.raises(axe_nb.AxeError, match="cancelled before it began"):
            waiting()


class Watching(NullView):
    """Keeps the words that it is shown, and the threads in which it is called."""

    streams = True

    def __init__(self) -> None:
        self.words: list[str] = []
        self.threads: list[int] = []

    def event(self, event: Event) -> None:
        self.threads.append(threading.get_ident())
        if isinstance(event, TextDelta):
            self.words.append(event.text)

    def tick(self) -> None:
        self.threads.append(threading.get_ident())


def watch(model: Callable[[Request], Any], view: Watching | None = None) -> RunResult:
    handle = Session().start(RunRequest(agent=agent("one", model), prompt="go"))
    return drive(handle, view or Watching())


@pytest.fixture
def handler() -> Iterator[Any]:
    """What SIGINT does before the test, and must do after it."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_is_elsewhere_and_its_events_are_shown_here_in_order() -> None:
    there: list[int] = []

    async def model(_: Request) -> Any:
        there.append(threading.get_ident())
        for n in range(1000):
            yield f"{n} "
        await asyncio.sleep(0.12)
        yield "last"

    view = Watching()
    assert watch(model, view).ok
    assert "".join(view.words) == "".join(f"{n} " for n in range(1000)) + "last"
    assert {threading.get_ident()} == set(view.threads) != set(there)


INTERRUPTS = {
    "signal": lambda: signal.raise_signal(signal.SIGINT),
    "kill": lambda: os.kill(os.getpid(), signal.SIGINT),
    "interrupt_main": _thread.interrupt_main,
}


@pytest.mark.req("D-8")
@pytest.mark.parametrize("how", INTERRUPTS)
def test_an_interrupt_cancels_a_run_and_waits_for_its_last_words(how: str, handler: object) -> None:
    done: list[str] = []

    async def model(_: Request) -> Any:
        yield "begun"
        INTERRUPTS[how]()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            done.append("cancelled")
            await asyncio.sleep(0.05)
            raise

    began = time.monotonic()
    view = Watching()
    with pytest.raises(KeyboardInterrupt, match=r"axe_nb\.last") as caught:
        watch(model, view)
    assert time.monotonic() - began < 20, "the work would take 30 s"
    assert (done, view.words) == (["cancelled"], ["begun"])
    assert type(caught.value) is KeyboardInterrupt, "no other ends a script as Python does"
    [line] = caught.value._render_traceback_()  # type: ignore[attr-defined]
    assert line == "KeyboardInterrupt: stopped; axe_nb.last() has the partial result"


@pytest.mark.req("D-8")
def test_a_second_interrupt_is_raised_at_once_unless_ignored(handler: object) -> None:
    async def model(_: Request) -> str:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(0.12 if is_ignored else 30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            signal.raise_signal(signal.SIGINT)
        return "undisturbed"

    is_ignored = False
    with pytest.raises(KeyboardInterrupt, match="at once"):
        watch(model)
    is_ignored = True
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert watch(model).text == "undisturbed"
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_nothing_that_work_raises_ends_the_loop(kind: type[BaseException]) -> None:
    going = threading.Event()

    async def other() -> str:
        going.set()
        await asyncio.sleep(0.2)
        return "unharmed"

    async def exits() -> None:
        raise kind("from within")

    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(run_and_wait(other())))
    thread.start()
    going.wait(30)
    with pytest.raises(kind, match="from within"):
        run_and_wait(exits())
    thread.join(5)
    assert results == ["unharmed"]


LEFT = """
import asyncio
from axe_nb.session.portal import portal
async def work():
    try:
        await asyncio.sleep(60)
    finally:
        print("stopped", flush=True)
portal.begin(work())[0]
portal.begin(asyncio.sleep(0))[0].result()
"""

IDLE = "import threading, axe_nb, axe_nb.session.portal; print(threading.active_count())"


@pytest.mark.parametrize(("code", "told"), [(LEFT, "stopped\n"), (IDLE, "1\n")])
def test_a_process_ends_with_work_left_behind(code: str, told: str) -> None:
    words = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=55, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


stuck = pytest.mark.req("D-58", "D-8")

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


@stuck
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


@stuck
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


@stuck
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


@stuck
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


@stuck
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
