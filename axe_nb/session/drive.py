"""Executes a run with a view, which receives every event, regular ticks and the result.

Events are shown and the user is prompted in the caller's thread. While a prompt blocks this
thread, another thread updates the view, if the view is live.
Source: D-19, D-48, D-58.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Protocol

from axe_nb.engine.person import Decision, Question
from axe_nb.errors import interrupted
from axe_nb.events import Event, discard
from axe_nb.results import RunResult
from axe_nb.session.portal import DRAIN, PUMP, STUCK, answers, portal, record_interrupts
from axe_nb.session.runs import RunHandle

PAUSE = 0.2
"""Delay in seconds before the user is prompted, so that the view can show the call first."""

END = object()


class View(Protocol):
    """Interface of views, which show a run in a notebook, on a terminal line, or not at all."""

    @property
    def streams(self) -> bool:
        """True if the view shows replies as they arrive."""

    @property
    def is_live(self) -> bool:
        """True if another thread may update the view while a prompt blocks the caller's thread."""

    def event(self, event: Event) -> None:
        """Receives each event of the run, in order. Must neither block nor raise."""

    def tick(self) -> None:
        """Redraws the view if an update is due. Called several times a second."""

    def finish(self, result: RunResult | None) -> None:
        """Shows the result; called once, when the run ends, with None if the run never started."""


class NullView:
    streams = is_live = False

    def event(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def finish(self, result: RunResult | None) -> None: ...


class Line(Protocol):
    """Interface of one-line displays; each update replaces the line."""

    def show(self, text: str, share: float = 0) -> None:
        """Shows a progress text; `share` is the part of the work that is done, from 0 to 1."""

    def finish(self, text: str) -> None: ...


class NoLine:
    def show(self, text: str, share: float = 0) -> None: ...

    def finish(self, text: str) -> None: ...


class Approver:
    """Queues questions on the event loop's thread; `serve` asks the user in the caller's thread."""

    def __init__(self, answer: Callable[[Question], Decision]) -> None:
        self._answer = answer
        self._asked_at = -math.inf
        self._questions: queue.SimpleQueue[tuple[Question, Future[Decision]]] = queue.SimpleQueue()

    async def ask_person(self, question: Question) -> Decision:
        """Queues the question and returns the user's answer; awaited on the event loop."""
        future: Future[Decision] = Future()
        self._asked_at = time.monotonic()
        self._questions.put((question, future))
        return await asyncio.wrap_future(future)

    async def ask_person_here(self, question: Question) -> Decision:
        """Prompts the user in the event loop's thread, which blocks the loop."""
        await asyncio.sleep(PAUSE)
        return self._prompt(question)

    def serve(self, meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Asks the user the next question, once the view has had time to show the call."""
        if time.monotonic() < self._asked_at + PAUSE:
            return
        with suppress(queue.Empty):
            question, future = self._questions.get_nowait()
            if future.set_running_or_notify_cancel():  # otherwise its run was cancelled
                with meanwhile():
                    future.set_result(self._prompt(question))

    def _prompt(self, question: Question) -> Decision:
        """Prompts the user; an interrupt or the end of input counts as the answer `stop` (D-48)."""
        is_main = threading.current_thread() is threading.main_thread()
        # SIGINT must end the `input()`
        before = signal.signal(signal.SIGINT, signal.default_int_handler) if is_main else None
        try:
            return self._answer(question)
        except (KeyboardInterrupt, EOFError):
            return Decision("stop")
        finally:
            if is_main:
                signal.signal(signal.SIGINT, before)


class _Inbox:
    """Queue of a run's events, with `END` as the last item; one thread at a time shows the events.

    A None in the queue wakes a `get` that a signal has interrupted and that would otherwise wait
    forever (CPython 3.11).
    """

    def __init__(self, show: Callable[[Event], None]) -> None:
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._show = show
        self.has_ended = False

    def show_more(self) -> None:
        wait = PUMP
        with suppress(queue.Empty):
            for _ in range(256):  # after which the display ticks
                event = self.events.get(timeout=wait)
                self.has_ended = self.has_ended or event is END
                if event is None or event is END:
                    return
                self._show(event)
                wait = 0.0


def drive(handle: RunHandle, view: View, approver: Approver | None = None) -> RunResult:
    """Executes a run in the portal's thread, shows it in this thread, and returns the result.

    An interrupt cancels the run; KeyboardInterrupt is raised once the run's last events have
    arrived, or after `DRAIN` seconds, and `handle.finished` is then the result so far. A second
    interrupt is raised at once.
    `approver` answers the run's questions. Raises concurrent.futures.CancelledError if the run is
    cancelled before it starts.
    """
    try:
        return _run_and_show(handle, view, approver)
    except KeyboardInterrupt:
        handle.abandon(view.event)
        raise
    except CancelledError:  # by `handle.cancel()`
        if handle.finished is None:
            raise
        return handle.finished
    except BaseException:  # raised by the view or the approver: nothing shows the run any more
        handle.abandon(discard)
        raise
    finally:
        view.finish(handle.finished)


def _run_and_show(handle: RunHandle, view: View, approver: Approver | None) -> RunResult:
    inbox = _Inbox(view.event)
    ask_person = approver.ask_person if approver else None

    async def work() -> RunResult:
        try:
            return await handle.execute(inbox.events.put, ask_person, streams=view.streams)
        finally:
            inbox.events.put(END)

    def stop_sending() -> None:
        handle.halt()
        inbox.events.put(None)

    with record_interrupts(stop_sending) as interrupt:
        future, loop = portal.begin(work())
        try:
            while not inbox.has_ended:
                if interrupt.at is not None:
                    if time.monotonic() >= interrupt.at + DRAIN:
                        break
                    future.cancel()
                inbox.show_more()
                if inbox.has_ended:
                    break
                view.tick()
                if approver is not None:
                    approver.serve(lambda: _keep_showing(view, inbox.show_more))
                if handle.overdue() > STUCK and not answers(loop):
                    break
            if not inbox.has_ended:
                handle.close()
                while not inbox.events.empty():
                    inbox.show_more()
        except BaseException:
            future.cancel()
            raise
    if interrupt.at is not None:
        raise interrupted("stopped; axe_nb.last() has the partial result")
    if inbox.has_ended:
        return future.result()
    future.cancel()
    handle.abandon(view.event, timed_out=True)
    return handle.result(0)


@contextmanager
def _keep_showing(view: View, show_more: Callable[[], None]) -> Iterator[None]:
    if not view.is_live:
        yield
        return
    is_over = threading.Event()
    faults: list[BaseException] = []

    def work() -> None:
        try:
            while not is_over.is_set():
                show_more()
                view.tick()
        except BaseException as fault:
            faults.append(fault)

    # ipykernel 7 assigns outputs to cells by context
    run = contextvars.copy_context().run
    thread = threading.Thread(target=run, args=(work,), name="axe-nb-view", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if faults:
        raise faults[0]


async def drive_here(handle: RunHandle, view: View, approver: Approver | None = None) -> RunResult:
    """Executes a run like `drive`, but on the caller's own event loop."""
    ask_person = approver.ask_person_here if approver else None

    async def tick() -> None:
        while True:
            await asyncio.sleep(PUMP)
            view.tick()

    try:
        async with asyncio.TaskGroup() as group:  # a view that fails stops the run
            ticker = group.create_task(tick())
            result = await handle.execute(view.event, ask_person, streams=view.streams)
            ticker.cancel()
        return result
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        view.finish(handle.finished)
