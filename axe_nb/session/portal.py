"""From blocking code to the loop and back: one daemon thread runs all runs of blocking callers.

The caller's thread pumps the events, so that only it touches a display.
Source: jupyter-facts §0.1, §0.2, §1; house style §4, §7; product.md "Interrupt".
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from axe_nb.errors import interrupted
from axe_nb.events import Emit, Event

T = TypeVar("T")

PUMP = 0.05
"""Seconds between two looks; a bare `get()` is not woken by an interrupt on Windows."""

BATCH = 256
"""Events that are shown before the display is given a turn."""

DRAIN = 0.4
"""Seconds that a cancelled run gets to close its requests and report what it had."""


ANSWER = 0.25
"""Seconds that the loop has to answer before later runs get a new one."""

STUCK = 0.7
"""Seconds over a run's time, with the loop not answering, after which it is given up (D-58)."""


class Unresponsive(Exception):
    """The loop does not answer, and the time of the work is up."""


class _End:
    """The mark after the last event."""


class Portal:
    """An event loop in a thread of its own, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Starts a coroutine on the loop; on a new one, if a tool blocks the loop (D-58)."""
        return self.begin(work)[0]

    def begin(
        self, work: Coroutine[Any, Any, T]
    ) -> tuple[concurrent.futures.Future[T], asyncio.AbstractEventLoop]:
        """As `submit`, and the loop that it was started on: the next work may get another one."""
        with self._lock:  # until the work is on the loop, so that the loop cannot retire before
            loop = self._running()
            return asyncio.run_coroutine_threadsafe(work, loop), loop

    def is_here(self) -> bool:
        """Whether the caller is on the loop's own thread."""
        return threading.current_thread() is self._thread

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None and not self.is_here() and not answers(self._loop):
            _retire(self._loop)
            self._loop = None
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(self._loop,), name="axe-nb-loop", daemon=True
            )
            self._thread.start()
        return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            with contextlib.suppress(
                SystemExit, KeyboardInterrupt
            ):  # a task's, kept for its caller
                loop.run_forever()
                break
        try:
            loop.run_until_complete(_wound_up())
        finally:
            loop.close()

    def close(self) -> None:
        """Ends the thread and its connections; the next use starts anew."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop and thread and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(1.0)


def answers(loop: asyncio.AbstractEventLoop, seconds: float = ANSWER) -> bool:
    """Whether a loop of another thread does something within so many seconds."""
    answered = threading.Event()
    try:
        loop.call_soon_threadsafe(answered.set)
    except RuntimeError:  # it is closed
        return False
    return answered.wait(seconds)


def _retire(loop: asyncio.AbstractEventLoop) -> None:
    """Has a loop that gets no more work end with the last that it has."""
    if not loop.is_closed():
        asyncio.run_coroutine_threadsafe(_outlast(), loop)


async def _outlast() -> None:
    """Ends the loop when everything else on it has ended."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        await asyncio.wait(left)
    asyncio.get_running_loop().stop()


async def _wound_up() -> None:
    """Stops what still runs, as far as it lets itself be stopped, and closes the connections."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=DRAIN)
    # the connections are held in an async generator (providers/http.py)
    await asyncio.get_running_loop().shutdown_asyncgens()


portal = Portal()
"""The loop thread of this process."""

atexit.register(portal.close)


def pump(
    work: Callable[[Emit], Coroutine[Any, Any, T]],
    show: Callable[[Event], None],
    tick: Callable[[], None],
    overdue: Callable[[], float] = lambda: 0.0,
    close: Callable[[], None] = lambda: None,
) -> T:
    """What the work returns or raises; `show` and `tick` are called in this thread meanwhile.

    An interrupt cancels the work, lets its last events arrive, and is raised then; a second one
    is raised at once.

    Args:
        work: (emit) -> coroutine, to be run on the loop.
        show: takes each event, in order.
        tick: is called after each batch of events, and every 50 ms.
        overdue: () -> seconds that the work has been over its time; 0.0 = it is not.
        close: is called before the wait for a work that does not end is given up: the events that
            it emits from then on are not shown.

    Raises:
        KeyboardInterrupt: the caller was interrupted.
        Unresponsive: the work is overdue, and the loop does not answer.
    """
    events: queue.SimpleQueue[Event | _End | None] = queue.SimpleQueue()

    async def working() -> T:
        try:
            return await work(events.put)
        finally:
            events.put(_End())

    # a `get` that a signal interrupts at the end of its time waits for ever (CPython 3.11):
    # the handler wakes it with None
    with _interrupts(lambda: events.put(None)) as interrupt:
        future, loop = portal.begin(working())
        try:
            has_ended = _show_all(
                events, show, tick, interrupt, future.cancel,
                lambda: overdue() > STUCK and not answers(loop),
            )  # fmt: skip
            if not has_ended:
                close()
                _show_rest(events, show)
        except BaseException:
            future.cancel()
            raise
    if interrupt.at is not None:
        raise interrupted("stopped; axe_nb.last() has what was finished")
    if not has_ended:
        future.cancel()
        raise Unresponsive
    return future.result()


def run_and_wait(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns or raises; an interrupt cancels it.

    Raises:
        KeyboardInterrupt: the caller was interrupted.
    """
    return pump(lambda emit: work, lambda event: None, lambda: None)


def _show_all(
    events: queue.SimpleQueue[Event | _End | None],
    show: Callable[[Event], None],
    tick: Callable[[], None],
    interrupt: _Interrupt,
    cancel: Callable[[], object],
    is_stuck: Callable[[], bool],
) -> bool:
    """Whether the work has ended; else the wait for it has been given up."""
    while interrupt.at is None or time.monotonic() < interrupt.at + DRAIN:
        if interrupt.at is not None:
            cancel()
        with contextlib.suppress(queue.Empty):
            wait = PUMP
            for _ in range(BATCH):
                event = events.get(timeout=wait)
                if event is None:
                    break
                if isinstance(event, _End):
                    return True
                show(event)
                wait = 0.0
        tick()
        if is_stuck():
            break
    return False


def _show_rest(
    events: queue.SimpleQueue[Event | _End | None], show: Callable[[Event], None]
) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            event = events.get_nowait()
            if not isinstance(event, _End | None):
                show(event)


class _Interrupt:
    """A handler of SIGINT that notes the first one and raises the second."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.at: float | None = None
        """When it came, on the monotonic clock; None = not yet."""
        self._wake = wake

    def __call__(self, signum: int, frame: object) -> None:
        if self.at is not None:
            raise interrupted("stopped at once")
        self.at = time.monotonic()
        self._wake()


@contextlib.contextmanager
def _interrupts(wake: Callable[[], None]) -> Iterator[_Interrupt]:
    """A block in which interrupts are noted; elsewhere than in the main thread there are none."""
    interrupt = _Interrupt(wake)
    before = signal.getsignal(signal.SIGINT)
    is_mine = threading.current_thread() is threading.main_thread()
    if not is_mine or not callable(before):  # ignored, or no business of Python's
        yield interrupt
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
