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
from typing import Any

import pytest

from axe_nb.events import Emit, Event, TextDelta
from axe_nb.session.portal import Portal, portal, pump


def ignore(_: object = None) -> None:
    pass


def delta(text: str) -> TextDelta:
    return TextDelta("0", 1, 1, text)


@pytest.fixture
def handler() -> Iterator[Any]:
    """What SIGINT does before the test, and must do after it."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    assert signal.getsignal(signal.SIGINT) is before


def test_the_work_is_elsewhere_and_its_events_are_shown_here_in_order() -> None:
    shown: list[tuple[str, int]] = []
    ticked: list[int] = []

    async def work(emit: Emit) -> int:
        for n in range(1000):
            emit(delta(str(n)))
        await asyncio.sleep(0.12)
        emit(delta("last"))
        return threading.get_ident()

    def show(event: Event) -> None:
        assert isinstance(event, TextDelta)
        shown.append((event.text, threading.get_ident()))

    here = threading.get_ident()
    there = pump(work, show, lambda: ticked.append(threading.get_ident()))
    assert [text for text, _ in shown] == [*map(str, range(1000)), "last"]
    assert {thread for _, thread in shown} == {here} == set(ticked)
    assert there != here
    assert len(ticked) >= 2, "also while nothing happens"


def test_what_the_work_raises_comes_back() -> None:
    async def work(emit: Emit) -> None:
        emit(delta("before"))
        raise LookupError("mine")

    shown: list[Event] = []
    with pytest.raises(LookupError, match=r"^mine$"):
        pump(work, shown.append, ignore)
    assert shown == [delta("before")]


def test_a_view_that_fails_stops_the_work() -> None:
    stopped = threading.Event()

    async def work(emit: Emit) -> None:
        emit(delta("x"))
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()

    def show(_: Event) -> None:
        raise ValueError("no display")

    with pytest.raises(ValueError, match="no display"):
        pump(work, show, ignore)
    assert stopped.wait(1)


@pytest.mark.parametrize("place", ["main", "loop", "thread"])
def test_it_works_wherever_the_caller_is(place: str) -> None:
    async def work(emit: Emit) -> str:
        await asyncio.sleep(0.01)
        return "done"

    def block() -> str:
        return pump(work, ignore, ignore)

    async def within_a_loop() -> str:
        return block()

    match place:
        case "main":
            assert block() == "done"
        case "loop":
            assert asyncio.run(within_a_loop()) == "done"
        case _:
            results: list[str] = []
            threads = [threading.Thread(target=lambda: results.append(block())) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(5)
            assert results == ["done"] * 8


def interrupting(how: Callable[[], None]) -> tuple[list[str], Callable[[Emit], Any]]:
    """Work that has the person interrupt it, and what it did."""
    done: list[str] = []

    async def work(emit: Emit) -> str:
        emit(delta("begun"))
        how()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            done.append("cancelled")
            await asyncio.sleep(0.05)
            emit(delta("last words"))
            raise
        return "never"

    return done, work


INTERRUPTS = {
    "signal": lambda: signal.raise_signal(signal.SIGINT),
    "kill": lambda: os.kill(os.getpid(), signal.SIGINT),
    "interrupt_main": _thread.interrupt_main,
}


@pytest.mark.req("D-8")
@pytest.mark.parametrize("how", INTERRUPTS)
def test_an_interrupt_cancels_the_work_and_waits_for_its_last_words(
    how: str, handler: object
) -> None:
    done, work = interrupting(INTERRUPTS[how])
    shown: list[Event] = []
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt, match=r"axe_nb\.last") as caught:
        pump(work, shown.append, ignore)
    assert time.monotonic() - began < 20, "the work would take 30 s"
    assert done == ["cancelled"]
    assert shown == [delta("begun"), delta("last words")]
    assert type(caught.value) is KeyboardInterrupt, "no other ends a script as Python does"
    [line] = caught.value._render_traceback_()  # type: ignore[attr-defined]
    assert line == "KeyboardInterrupt: stopped; axe_nb.last() has the partial result"


@pytest.mark.req("D-8")
def test_work_that_cannot_be_cancelled_is_left_behind(handler: object) -> None:
    release = asyncio.Event()

    async def work(emit: Emit) -> None:
        signal.raise_signal(signal.SIGINT)
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(KeyboardInterrupt):
        pump(work, ignore, ignore)
    assert not release.is_set()

    async def let_go(emit: Emit) -> None:
        release.set()

    pump(let_go, ignore, ignore)


@pytest.mark.req("D-8")
def test_a_second_interrupt_is_raised_at_once(handler: object) -> None:
    release = asyncio.Event()

    async def work(emit: Emit) -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await release.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            signal.raise_signal(signal.SIGINT)
            await release.wait()

    with pytest.raises(KeyboardInterrupt, match="at once"):
        pump(work, ignore, ignore)

    async def let_go(emit: Emit) -> None:
        release.set()

    pump(let_go, ignore, ignore)


def test_where_interrupts_are_ignored_they_stay_ignored() -> None:
    async def work(emit: Emit) -> str:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0.12)
        return "undisturbed"

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert pump(work, ignore, ignore) == "undisturbed"
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_before_the_work_begins_stops_it_too(handler: object) -> None:
    begun: list[str] = []

    def work(emit: Emit) -> Any:
        signal.raise_signal(signal.SIGINT)

        async def late() -> None:
            begun.append("begun")
            await asyncio.sleep(30)

        return late()

    with pytest.raises(KeyboardInterrupt):
        pump(work, ignore, ignore)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_nothing_that_work_raises_ends_the_loop(kind: type[BaseException]) -> None:
    going = threading.Event()

    async def other(emit: Emit) -> str:
        going.set()
        await asyncio.sleep(0.2)
        return "unharmed"

    async def exits(emit: Emit) -> None:
        raise kind("from within")

    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(pump(other, ignore, ignore)))
    thread.start()
    going.wait(30)
    with pytest.raises(kind, match="from within"):
        pump(exits, ignore, ignore)
    thread.join(5)
    assert results == ["unharmed"]


def test_closing_stops_what_runs_and_the_next_use_begins_anew() -> None:
    own = Portal()
    stopped = threading.Event()
    begun = threading.Event()

    async def generator() -> Any:
        try:
            yield
        finally:
            stopped.set()

    async def work() -> None:
        async for _ in generator():
            begun.set()
            await asyncio.sleep(30)

    running = own.begin(work())[0]
    assert begun.wait(30)
    began = time.monotonic()
    own.close()
    assert time.monotonic() - began < 20
    assert stopped.is_set()
    assert running.cancelled()

    async def again() -> str:
        return "again"

    assert own.begin(again())[0].result(30) == "again"
    own.close()
    own.close()


def test_closing_does_not_wait_for_what_cannot_be_stopped() -> None:
    own = Portal()
    begun, release = threading.Event(), threading.Event()

    async def blocks() -> None:
        begun.set()
        release.wait(60)

    own.begin(blocks())[0]
    assert begun.wait(30)
    began = time.monotonic()
    own.close()
    assert time.monotonic() - began < 30
    release.set()


def script(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A Python script's outcome, every warning shown."""
    words = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(words, capture_output=True, text=True, timeout=55, check=False, **options)


def test_a_process_ends_promptly_with_work_left_behind() -> None:
    began = time.monotonic()
    done = script(
        """
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
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n", "")
    assert time.monotonic() - began < 50


def test_importing_starts_no_thread() -> None:
    code = "import threading, axe_nb, axe_nb.session.portal; print(threading.active_count())"
    assert script(code).stdout == "1\n"


def test_the_loop_knows_its_own_thread() -> None:
    async def here() -> bool:
        return portal.is_here()

    assert portal.begin(here())[0].result(30)
    assert not portal.is_here()
