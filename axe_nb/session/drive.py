"""Runs a handle with a view, which receives every event, regular ticks and the result.

Source: D-58.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Protocol

from axe_nb.events import Event, discard
from axe_nb.results import RunResult
from axe_nb.session.approval import Approver
from axe_nb.session.portal import PUMP, Unresponsive, pump
from axe_nb.session.runs import AlreadyStarted, RunHandle


class View(Protocol):
    """Shows a run in a notebook display, on a terminal line, or not at all."""

    @property
    def streams(self) -> bool:
        """True if it shows replies as they arrive."""

    @property
    def is_live(self) -> bool:
        """True if another thread may show what happens while this one waits for the person."""

    def event(self, event: Event) -> None:
        """Receives each event, in order; neither blocks nor raises."""

    def tick(self) -> None:
        """Called often; redraws if it is time to."""

    def finish(self, result: RunResult | None) -> None:
        """Called once, at the end; None = the run never started."""


class NullView:
    """A view that shows nothing."""

    streams = is_live = False

    def event(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def finish(self, result: RunResult | None) -> None: ...


class Line(Protocol):
    """Shows one line, and replaces it."""

    def show(self, text: str) -> None:
        """Shows the line as it is now."""

    def finish(self, text: str) -> None:
        """Shows the line that is kept, or removes it."""


class NoLine:
    """A line that no one sees."""

    def show(self, text: str) -> None: ...

    def finish(self, text: str) -> None: ...


def drive(handle: RunHandle, view: View, approver: Approver | None = None) -> RunResult:
    """Runs a handle in the portal's thread and shows it in this one; returns the result.

    Args:
        handle: the run.
        view: shows the run.
        approver: takes the run's questions, which are answered in this thread; None = no one can be
            prompted.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
        concurrent.futures.CancelledError: the run was cancelled before it started.
        AlreadyStarted: the handle has been driven before.
        KeyboardInterrupt: the user stopped the run; `handle.finished` is the result so far.
    """
    ask_person = approver.ask_person if approver else None

    def serve(show_more: Callable[[], None]) -> None:
        if approver is not None:
            approver.serve(lambda: _keep_showing(view, show_more))

    try:
        return pump(
            lambda emit: handle.execute(emit, ask_person, streams=view.streams), view.event,
            view.tick, handle.overdue, handle.close, handle.halt, serve,
        )  # fmt: skip
    except Unresponsive:
        result = handle.abandon(view.event, timed_out=True)
        assert result is not None
        return result
    except KeyboardInterrupt:
        handle.abandon(view.event)
        raise
    except AlreadyStarted:  # it is another's run
        raise
    except CancelledError:  # by `handle.cancel()`
        if handle.finished is None:
            raise
        return handle.finished
    except BaseException:  # of the view or the approver: no one watches the run any more
        handle.abandon(discard)
        raise
    finally:
        view.finish(handle.finished)


@contextmanager
def _keep_showing(view: View, show_more: Callable[[], None]) -> Iterator[None]:
    """Keeps showing a run in another thread within the block, if its view is live."""
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
    """Like `drive`, on the caller's own event loop.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
    """
    ask_person = approver.ask_person_here if approver else None
    try:
        async with asyncio.TaskGroup() as group:  # a view that fails stops the run
            ticker = group.create_task(_tick(view))
            result = await handle.execute(view.event, ask_person, streams=view.streams)
            ticker.cancel()
        return result
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        view.finish(handle.finished)


async def _tick(view: View) -> None:
    while True:
        await asyncio.sleep(PUMP)
        view.tick()
