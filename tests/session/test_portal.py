"""Blocking code and the loop's thread: what comes back, who is called where, how it is stopped."""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from axe_nb import Request, RunResult
from axe_nb.events import Event, TextDelta
from axe_nb.session.drive import NullView, drive
from axe_nb.session.portal import run_and_wait
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import Session
from tests.engine.in_process import agent


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


def test_it_works_wherever_the_caller_is() -> None:
    async def work() -> str:
        await asyncio.sleep(0.01)
        return "done"

    async def within_a_loop() -> str:
        return run_and_wait(work())

    assert run_and_wait(work()) == "done"
    assert asyncio.run(within_a_loop()) == "done"
    with ThreadPoolExecutor(8) as threads:
        done = [threads.submit(lambda: run_and_wait(work())) for _ in range(8)]
        assert [one.result(5) for one in done] == ["done"] * 8


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
