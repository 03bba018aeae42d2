"""Runs the tasks of a map in this process, with the handle that `axe_nb.arun` uses too.

Source: product.md "Exploring"; D-1, D-8, D-58.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axe_nb.errors import AxeError
from axe_nb.events import discard
from axe_nb.maps.batch import Batch
from axe_nb.maps.pool import Turnstile
from axe_nb.maps.tasks import Task
from axe_nb.results import RunResult
from axe_nb.session.runs import RunHandle

OUT_OF_BUDGET = "the budget of this session was reached"


class LocalRuns:
    """The runs in progress."""

    chunk = 1

    def __init__(self, batch: Batch, concurrency: int) -> None:
        self._batch = batch
        self.workers = concurrency
        self._turnstile = Turnstile() if batch.session.cassette else None
        self._handles: dict[int, tuple[Task, RunHandle]] = {}
        """Index → run in progress."""

    async def prepare(self) -> None:
        """See `drives.Runs`."""

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks, one after the other.

        Raises:
            asyncio.CancelledError: the map was stopped; the results so far have been passed on.
            KeyboardInterrupt, SystemExit: raised by a model; likewise.
        """
        for task in tasks:
            try:
                if not self._batch.settle(task):
                    await self._run(task)
            finally:
                self.leave(task)

    async def _run(self, task: Task) -> None:
        batch = self._batch
        if self._turnstile is not None:
            await self._turnstile.wait(task.index)
        if why := batch.find_end():
            batch.stop_for(why)
            return
        handle = batch.session.start(batch.make_request(task), lambda: self.leave(task))
        self._handles[task.index] = task, handle
        try:
            self._finish(task, handle, await handle.execute(discard))
        except AxeError as error:
            self._put(task, batch.make_failed(task, error))
        except BaseException:
            if handle.finished is not None:
                self._put(task, handle.finished)
            raise
        finally:
            self._handles.pop(task.index, None)

    def _finish(self, task: Task, handle: RunHandle, result: RunResult) -> None:
        purse = handle.plan.scope.env.purse if handle.plan else None
        if purse is not None and purse.is_refused and not result.ok:
            result = replace(result, status="cancelled")
            self._batch.stop_for(OUT_OF_BUDGET)
        self._put(task, result)

    def _put(self, task: Task, result: RunResult) -> None:
        """Passes on the result of a run once, whichever thread has ended it."""
        if self._handles.pop(task.index, None) is not None:
            self._batch.finish(task, result)

    def leave(self, task: Task) -> None:
        """Notes that a run has begun, or will not."""
        if self._turnstile is not None:
            self._turnstile.leave(task.index)

    def halt(self) -> None:
        """Keeps the runs from sending requests; from any thread, also in a signal handler."""
        for _, handle in list(self._handles.values()):
            handle.halt()

    def overdue(self) -> float:
        """Seconds that a run is past its deadline, the longest of all; 0.0 = none is."""
        handles = list(self._handles.values())
        return max((handle.overdue() for _, handle in handles), default=0.0)

    def close(self) -> None:
        """See `drives.Runs`."""

    def abandon(self, *, timed_out: bool = False) -> None:
        """Ends the runs of a loop that does not respond; called by another thread.

        Args:
            timed_out: True if their time is up, unless they were cancelled.
        """
        for task, handle in list(self._handles.values()):
            is_late = timed_out and handle.overdue() > 0.0
            result = handle.abandon(discard, timed_out=is_late)
            if result is not None:
                self._put(task, result)
