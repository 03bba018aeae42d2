"""Bridge from blocking code to the event loop: one daemon thread for all blocking callers."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

from axe_nb.errors import interrupted

T = TypeVar("T")

PUMP = 0.05
"""Polling interval in seconds; on Windows, an interrupt does not end a wait without a timeout."""

DRAIN = 0.4
"""Time in seconds that a cancelled run has to close its requests and report a partial result."""

ANSWER = 0.25
"""Time in seconds that the event loop has to respond before another loop replaces it."""

STUCK = 0.7
"""Seconds after which an overdue run on an unresponsive event loop is abandoned (D-58)."""


class Portal:
    """An event loop in its own thread, started on first use.

    A loop that a tool blocks is replaced. Once the tool returns, the old loop completes the work
    that was begun on it, cancels all other tasks, closes its connections and ends its thread. A
    tool that never returns keeps its daemon thread: Python cannot end a thread from outside.
    """

    def __init__(self) -> None:
        self._works: weakref.WeakSet[Coroutine[Any, Any, Any]] = weakref.WeakSet()
        """Coroutines started here, to distinguish their tasks from those that tools started."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        """Loops that must stop. Any other loop that a tool stops is run again."""

    def begin(
        self, work: Coroutine[Any, Any, T]
    ) -> tuple[concurrent.futures.Future[T], asyncio.AbstractEventLoop]:
        """Starts a coroutine, and returns its future and event loop. Replaces a blocked loop."""
        with self._lock:  # held until the work is scheduled, so that the loop is not retired before
            if self._loop is not None and not self.is_here() and not answers(self._loop):
                if not self._loop.is_closed():
                    asyncio.run_coroutine_threadsafe(self._stop_when_idle(), self._loop)
                self._loop = None
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="axe-nb-loop", daemon=True
                )
                self._thread.start()
            self._works.add(work)
            return asyncio.run_coroutine_threadsafe(work, self._loop), self._loop

    def is_here(self) -> bool:
        return threading.current_thread() is self._thread

    async def _stop_when_idle(self) -> None:
        works = {task for task in asyncio.all_tasks() if task.get_coro() in self._works}
        if works:
            await asyncio.wait(works)
        self._stop(asyncio.get_running_loop())

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ending.add(loop)
        loop.call_soon_threadsafe(loop.stop)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while loop not in self._ending:
            # raised by a task; its caller receives them from the future
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()
        try:
            loop.run_until_complete(_shut_down())
        finally:
            loop.close()

    def close(self) -> None:
        """Stops the thread and closes its connections; the next use starts a new thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop and thread and thread.is_alive():
            self._stop(loop)
            thread.join(1.0)


def answers(loop: asyncio.AbstractEventLoop, seconds: float = ANSWER) -> bool:
    """True if a loop in another thread responds within `seconds`."""
    answered = threading.Event()
    try:
        loop.call_soon_threadsafe(answered.set)
    except RuntimeError:  # the loop is closed
        return False
    return answered.wait(seconds)


async def _shut_down() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=DRAIN)
    # the connections are held in an async generator (providers/http.py)
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    await asyncio.wait({closing}, timeout=DRAIN)
    for task in {closing, *left}:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it had time to end


portal = Portal()

atexit.register(portal.close)
if hasattr(os, "register_at_fork"):  # a forked process has the loop of its parent, but no thread
    os.register_at_fork(after_in_child=portal.__init__)  # type: ignore[misc]


def run_and_wait(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the portal's loop and returns its result; an interrupt cancels it."""
    future, _ = portal.begin(work)
    try:
        while not future.done():  # on Windows, an interrupt does not wake a bare `result()`
            concurrent.futures.wait([future], PUMP)
        return future.result()
    except BaseException:
        future.cancel()
        raise


class Interrupt:
    """A SIGINT handler that records the first signal and raises on the second."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.at: float | None = None
        self._wake = wake

    def __call__(self, signum: int, frame: object) -> None:
        if self.at is not None:
            raise interrupted("stopped at once")
        self.at = time.monotonic()
        self._wake()


@contextlib.contextmanager
def record_interrupts(wake: Callable[[], None]) -> Iterator[Interrupt]:
    """Records interrupts within the block, if it runs in the main thread and SIGINT is handled."""
    interrupt = Interrupt(wake)
    before = signal.getsignal(signal.SIGINT)
    is_mine = threading.current_thread() is threading.main_thread()
    if not is_mine or not callable(before):  # ignored, or not handled by Python
        yield interrupt
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def watch_cell() -> tuple[threading.Event, Callable[[], None]]:
    """Returns an event that an interrupt of the current cell sets, and a function to stop watching.

    A kernel cancels the task of an interrupted cell. IPython shows a KeyboardInterrupt that is
    raised in that task, but a KeyboardInterrupt in any other task would end the event loop.
    """
    seen = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    task = asyncio.current_task()
    is_cell = task is not None and getattr(task.get_coro(), "__name__", "") == "run_cell_async"
    is_mine = threading.current_thread() is threading.main_thread()
    if not is_cell or not is_mine or not callable(before):
        return seen, lambda: None

    def note(number: int, frame: FrameType | None) -> None:
        seen.set()
        before(number, frame)

    def stop() -> None:
        if signal.getsignal(signal.SIGINT) is note:  # otherwise the kernel has restored its own
            signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    return seen, stop
