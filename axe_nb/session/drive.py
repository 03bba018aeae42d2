"""A run and a view of it: the view gets every event, time to draw, and the result at the end.

Source: product.md "Notebook", "Python"; house style §4, §8; D-58.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import Protocol

from axe_nb.events import Event, RunResult
from axe_nb.session.approval import Approver
from axe_nb.session.portal import PUMP, Unresponsive, pump
from axe_nb.session.runs import RunHandle


class View(Protocol):
    """Shows a run: in a notebook's display, in a terminal's line, or not at all."""

    def event(self, event: Event) -> None:
        """Takes each event, in order; neither blocks nor raises."""

    def tick(self) -> None:
        """Is called often; draws when it is time to."""

    def finish(self, result: RunResult | None) -> None:
        """Is called once, at the end; None = the run never began."""


class NullView:
    """A view that shows nothing."""

    def event(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def finish(self, result: RunResult | None) -> None: ...


def drive(handle: RunHandle, view: View, approver: Approver | None = None) -> RunResult:
    """Runs it in the portal's thread, shown in this one: its result, however it ended.

    Args:
        handle: the run.
        view: shows it.
        approver: takes the run's questions, which are answered in this thread; None = nobody can be
            asked.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
        concurrent.futures.CancelledError: it was cancelled before it began.
        KeyboardInterrupt: the person stopped it; `handle.finished` is what was done by then.
    """
    ask_person = approver.ask_person if approver else None

    def tick() -> None:
        view.tick()
        if approver is not None:
            approver.serve()

    try:
        return pump(
            lambda emit: handle.execute(emit, ask_person), view.event, tick,
            handle.overdue, handle.close,
        )  # fmt: skip
    except Unresponsive:
        result = handle.abandon(view.event, timed_out=True)
        assert result is not None
        return result
    except KeyboardInterrupt:
        handle.abandon(view.event, timed_out=False)
        raise
    except CancelledError:  # by `handle.cancel()`
        if handle.finished is None:
            raise
        return handle.finished
    except BaseException:  # of the view or the approver: nobody watches the run any more
        handle.abandon(_ignore, timed_out=False)
        raise
    finally:
        view.finish(handle.finished)


def _ignore(event: Event) -> None:
    """Takes events that no view wants."""


async def drive_here(handle: RunHandle, view: View, approver: Approver | None = None) -> RunResult:
    """As `drive`, in the caller's own event loop.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
    """
    ticker = asyncio.ensure_future(_tick(view))
    try:
        return await handle.execute(view.event, approver.ask_person_here if approver else None)
    finally:
        ticker.cancel()
        view.finish(handle.finished)


async def _tick(view: View) -> None:
    while True:
        await asyncio.sleep(PUMP)
        view.tick()
