"""Bridge from blocking code to the event loop: one daemon thread for all blocking callers.

Events are delivered in the caller's thread, so that only it touches a display.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import queue
import signal
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

from axe_nb.errors import interrupted
from axe_nb.events import Emit, Event

T = TypeVar("T")

PUMP = 0.05
"""Polling interval in seconds; on Windows, an interrupt does not wake a bare `get()`."""

BATCH = 256
"""Maximum events shown between two ticks of the display."""

DRAIN = 0.4
"""Seconds that a cancelled run has to close its requests and report its partial result."""

ANSWER = 0.25
"""Seconds that the loop has to respond before it is replaced for later runs."""

STUCK = 0.7
"""Seconds past its deadline after which a run on an unresponsive loop is abandoned (D-58)."""


class Unresponsive(Exception):
    """The loop does not respond, and the time of the work is up."""


class _End:
    """Marks the end of the events."""


class Portal:
    """An event loop in its own thread, started on first use.

    A loop that a tool blocks is replaced. Once the tool returns, the old loop ends with the work
    that was begun on it: then it cancels all other tasks, gives them a moment, closes its
    connections and ends its thread, even if tasks ignore cancellation. Python cannot end a thread
    from outside: a tool that never returns (in C code, or in a loop without `await`) keeps that one
    thread, a daemon, and the connections of its loop until the process ends.
    """

    def __init__(self) -> None:
        self._works: weakref.WeakSet[Coroutine[Any, Any, Any]] = weakref.WeakSet()
        """The work begun, by which its tasks are told from those that tools started."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        """Loops that are to stop; any other loop that a tool stops is run again."""

    def begin(
        self, work: Coroutine[Any, Any, T]
    ) -> tuple[concurrent.futures.Future[T], asyncio.AbstractEventLoop]:
        """Starts a coroutine on the loop, or on a new one if a tool blocks the loop (D-58).

        Returns:
            Its future, and the loop, as later work may run on another one.
        """
        with self._lock:  # held until the work is scheduled, so that the loop is not retired before
            loop = self._ensure_loop()
            self._works.add(work)
            return asyncio.run_coroutine_threadsafe(work, loop), loop

    def is_here(self) -> bool:
        """True if called on the loop's own thread."""
        return threading.current_thread() is self._thread

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None and not self.is_here() and not answers(self._loop):
            if not self._loop.is_closed():  # it ends with the work that was begun on it
                asyncio.run_coroutine_threadsafe(self._stop_when_idle(), self._loop)
            self._loop = None
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(self._loop,), name="axe-nb-loop", daemon=True
            )
            self._thread.start()
        return self._loop

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
        """Stops the thread and closes its connections; the next use starts a new one."""
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
    """Cancels the remaining tasks, waits briefly, and closes the connections."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=DRAIN)
    # the connections are held in an async generator (providers/http.py)
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    await asyncio.wait({closing}, timeout=DRAIN)
    for task in {closing, *left}:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was given its chance


portal = Portal()
"""The loop thread of this process."""

atexit.register(portal.close)
if hasattr(os, "register_at_fork"):  # a forked process has the loop of its parent, but no thread
    os.register_at_fork(after_in_child=portal.__init__)  # type: ignore[misc]


def pump(
    work: Callable[[Emit], Coroutine[Any, Any, T]],
    show: Callable[[Event], None],
    tick: Callable[[], None],
    overdue: Callable[[], float] = lambda: 0.0,
    close: Callable[[], None] = lambda: None,
    halt: Callable[[], None] = lambda: None,
    serve: Callable[[Callable[[], None]], None] = lambda show_more: None,
) -> T:
    """Runs the work on the loop and returns its result, calling `show` and `tick` in this thread.

    An interrupt cancels the work, lets its last events arrive, and is then raised; a second one is
    raised at once.

    Args:
        work: (emit) → coroutine to run on the loop.
        show: receives each event, in order.
        tick: called after each batch of events, and every 50 ms.
        overdue: () → seconds that the work is past its deadline; 0.0 if it is not.
        close: called before work that does not end is abandoned; events that it emits later are
            not shown.
        halt: called at once on an interrupt, before the work is cancelled.
        serve: called after each `tick`, and may block; what it is given shows the events that come
            within 50 ms, and may be called by another thread meanwhile.

    Raises:
        KeyboardInterrupt: the caller was interrupted.
        Unresponsive: the work is overdue, and the loop does not respond.
    """
    inbox = _Inbox(show)

    async def working() -> T:
        try:
            return await work(inbox.put)
        finally:
            inbox.put(_End())

    def wake() -> None:
        halt()
        inbox.put(None)

    with record_interrupts(wake) as interrupt:
        future, loop = portal.begin(working())
        try:
            has_ended = _show_all(
                inbox, tick, serve, interrupt, future.cancel,
                lambda: overdue() > STUCK and not answers(loop),
            )  # fmt: skip
            if not has_ended:
                close()
                inbox.show_rest()
        except BaseException:
            future.cancel()
            raise
    if interrupt.at is not None:
        raise interrupted("stopped; axe_nb.last() has the partial result")
    if not has_ended:
        future.cancel()
        raise Unresponsive
    return future.result()


def run_and_wait(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the loop and returns its result; an interrupt cancels it.

    Raises:
        KeyboardInterrupt: the caller was interrupted.
    """
    return pump(lambda emit: work, lambda event: None, lambda: None)


class _Inbox:
    """The events of some work, and its end; one thread at a time shows them.

    A `get` that is interrupted by a signal just as it times out waits forever (CPython 3.11): a
    None wakes it.
    """

    def __init__(self, show: Callable[[Event], None]) -> None:
        self._events: queue.SimpleQueue[Event | _End | None] = queue.SimpleQueue()
        self._show = show
        self.put = self._events.put
        self.has_ended = False

    def show_more(self) -> None:
        """Shows the events that there are, or that come soon."""
        wait = PUMP
        with contextlib.suppress(queue.Empty):
            for _ in range(BATCH):
                event = self._events.get(timeout=wait)
                if event is None:
                    return
                if isinstance(event, _End):
                    self.has_ended = True
                    return
                self._show(event)
                wait = 0.0

    def show_rest(self) -> None:
        """Shows the events that there are."""
        with contextlib.suppress(queue.Empty):
            while True:
                event = self._events.get_nowait()
                if not isinstance(event, _End | None):
                    self._show(event)


def _show_all(
    inbox: _Inbox,
    tick: Callable[[], None],
    serve: Callable[[Callable[[], None]], None],
    interrupt: Interrupt,
    cancel: Callable[[], object],
    is_stuck: Callable[[], bool],
) -> bool:
    """Shows events until the work ends (True) or is abandoned (False)."""
    while interrupt.at is None or time.monotonic() < interrupt.at + DRAIN:
        if interrupt.at is not None:
            cancel()
        inbox.show_more()
        if inbox.has_ended:
            return True
        tick()
        serve(inbox.show_more)
        if inbox.has_ended:
            return True
        if is_stuck():
            break
    return False


class Interrupt:
    """A SIGINT handler that records the first signal and raises on the second."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.at: float | None = None
        """Time of the first signal, on the monotonic clock; None = none yet."""
        self._wake = wake

    def __call__(self, signum: int, frame: object) -> None:
        if self.at is not None:
            raise interrupted("stopped at once")
        self.at = time.monotonic()
        self._wake()


@contextlib.contextmanager
def record_interrupts(wake: Callable[[], None]) -> Iterator[Interrupt]:
    """Records interrupts within the block; outside the main thread there are none."""
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
    """Returns the event that an interrupt of the current cell sets, and how to stop watching.

    A kernel cancels the task of an interrupted cell. In that task alone a KeyboardInterrupt does
    no harm: IPython shows it, while in any other it would end the event loop.
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
        if signal.getsignal(signal.SIGINT) is note:  # else the kernel has put its own back
            signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    return seen, stop
