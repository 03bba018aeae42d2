"""A run and a view of it: the view gets every event, time to draw, and the result at the end.

Source: product.md "Notebook", "Python"; house style §4, §8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from axe_nb.events import Emit, Event, RunFinished, RunResult
from axe_nb.session.desk import Desk
from axe_nb.session.portal import PUMP, pump

Work: TypeAlias = Callable[[Emit], Coroutine[Any, Any, RunResult]]
"""(emit) -> a coroutine that runs an agent."""


class View(Protocol):
    """What watches a run: a notebook's display, a terminal's line, nothing."""

    def event(self, event: Event) -> None:
        """Takes each event, in order; neither blocks nor raises."""

    def tick(self) -> None:
        """Is called often; draws when it is time to."""

    def finish(self, result: RunResult | None) -> None:
        """Is called once, at the end; None where the run never began, or could not report."""


class Blind:
    """A view that shows nothing."""

    def event(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def finish(self, result: RunResult | None) -> None: ...


class _Watched:
    """Hands events to a view, and keeps the root's result, also of a run that is stopped."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.result: RunResult | None = None

    def event(self, event: Event) -> None:
        if isinstance(event, RunFinished) and event.run == "0":
            self.result = event.result
        self._view.event(event)


def watched(
    work: Work,
    view: View,
    keep: Callable[[RunResult], object] = id,
    desk: Desk | None = None,
) -> RunResult:
    """The result of a run in the portal's thread, watched from this one.

    Args:
        work: runs the agent.
        view: watches it.
        keep: is handed the result, also that of a run that fails or is stopped.
        desk: where the work puts questions, which are answered in this thread; None = nowhere.

    Raises:
        ConfigError: anything that is wrong before a word is sent.
        KeyboardInterrupt: the person stopped it.
    """
    seen = _Watched(view)

    def tick() -> None:
        view.tick()
        if desk is not None:
            desk.serve()

    try:
        return pump(work, seen.event, tick)
    finally:
        if seen.result is not None:
            keep(seen.result)
        view.finish(seen.result)


async def watched_here(work: Work, view: View) -> RunResult:
    """The result of a run in the caller's own loop, watched from there.

    Raises:
        ConfigError: anything that is wrong before a word is sent.
    """
    seen = _Watched(view)
    ticker = asyncio.ensure_future(_tick(view))
    try:
        return await work(seen.event)
    finally:
        ticker.cancel()
        view.finish(seen.result)


async def _tick(view: View) -> None:
    while True:
        await asyncio.sleep(PUMP)
        view.tick()
