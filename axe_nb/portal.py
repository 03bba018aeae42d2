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

from axe_nb.errors import Interrupted
from axe_nb.events import Emit, Event

T = TypeVar("T")

PUMP = 0.05
"""Seconds between two looks; a bare `get()` is not woken by an interrupt on Windows."""

BATCH = 256
"""Events that are shown before the display is given a turn."""

DRAIN = 0.4
"""Seconds that a cancelled run gets to close its requests and report what it had."""


class _End:
    """The mark after the last event."""


class Portal:
    """An event loop in a thread of its own, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Starts a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def is_here(self) -> bool:
        """Whether the caller is on the loop's own thread."""
        return threading.current_thread() is self._thread

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
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
        try:
            loop.run_forever()
        finally:
            # closes the connections: they are held in an async generator (providers/http.py)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def close(self) -> None:
        """Ends the thread and its connections; the next use starts anew."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop and thread and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(1.0)


portal = Portal()
"""The loop thread of this process."""

atexit.register(portal.close)


def pump(
    work: Callable[[Emit], Coroutine[Any, Any, T]],
    show: Callable[[Event], None],
    tick: Callable[[], None],
) -> T:
    """What the work returns or raises; `show` and `tick` are called in this thread meanwhile.

    An interrupt cancels the work, lets its last events arrive, and is raised then; a second one
    is raised at once.

    Args:
        work: (emit) -> coroutine, to be run on the loop.
        show: takes each event, in order.
        tick: is called after each batch of events, and every 50 ms.

    Raises:
        Interrupted: the caller was interrupted.
    """
    events: queue.SimpleQueue[Event | _End] = queue.SimpleQueue()

    async def working() -> T:
        try:
            return await work(events.put)
        finally:
            events.put(_End())

    future = portal.submit(working())
    with _interrupts(future.cancel) as interrupted:
        try:
            _show_all(events, show, tick, interrupted)
        except BaseException:
            future.cancel()
            raise
    if interrupted:
        raise Interrupted("stopped; axe_nb.last() has what was finished")
    return future.result()


def _show_all(
    events: queue.SimpleQueue[Event | _End],
    show: Callable[[Event], None],
    tick: Callable[[], None],
    interrupted: list[float],
) -> None:
    while not (interrupted and time.monotonic() > interrupted[0] + DRAIN):
        with contextlib.suppress(queue.Empty):
            wait = PUMP
            for _ in range(BATCH):
                event = events.get(timeout=wait)
                if isinstance(event, _End):
                    return
                show(event)
                wait = 0.0
        tick()


@contextlib.contextmanager
def _interrupts(cancel: Callable[[], object]) -> Iterator[list[float]]:
    """Within it, the first interrupt cancels and is noted, the second is raised."""
    noted: list[float] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def interrupt(signum: int, frame: object) -> None:
        if noted:
            raise Interrupted("stopped at once")
        noted.append(time.monotonic())
        cancel()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
