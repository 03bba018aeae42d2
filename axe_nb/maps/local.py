"""Runs the tasks of a map in this process, with the handle that `axe_nb.arun` uses too.

Source: product.md "Exploring"; D-1, D-8, D-58, D-59.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from axe_nb.errors import AxeError
from axe_nb.events import discard
from axe_nb.maps.batch import Batch
from axe_nb.maps.prompts import Task
from axe_nb.results import RunResult
from axe_nb.session.runs import RunHandle

OUT_OF_BUDGET = "the budget of this session was reached"


class Runs:
    """The runs in progress; those of an executor are a subclass."""

    chunk = 1
    """Tasks that one call of `work` takes."""

    def __init__(self, batch: Batch, concurrency: int) -> None:
        self._batch = batch
        self.workers = concurrency
        """Calls of `work` at once."""
        self._turns = (_Turns(), _Turns()) if batch.session.cassette else None
        """Those of the runs, and of their judges."""
        self._handles: dict[Task, RunHandle] = {}

    async def prepare(self) -> None:
        """Called before the first task. Raises ConfigError if no run could begin."""

    async def work(self, tasks: Sequence[Task]) -> None:
        """Runs tasks, and passes each result to the batch as it ends.

        Raises:
            asyncio.CancelledError: the map was stopped; the results so far have been passed on.
            KeyboardInterrupt, SystemExit: raised by a model; likewise.
        """
        for task in tasks:
            turns = self._turns and self._turns[task.asking == self._batch.judge]
            try:
                if turns is not None:
                    await turns.wait(task.index)
                if not self._batch.settle(task):
                    await self._run_one(task, turns)
            finally:
                if turns is not None:
                    turns.leave(task.index)

    async def _run_one(self, task: Task, turns: _Turns | None) -> None:
        batch = self._batch
        if why := batch.find_end():
            batch.stop_for(why)
            return
        on_claim = partial(turns.leave, task.index) if turns is not None else None
        handle = self._handles[task] = batch.session.start(batch.make_request(task), on_claim)
        try:
            self._finish(task, handle, await handle.execute(discard))
        except AxeError as error:
            self._put(task, batch.make_failed(task, error))
        except BaseException:
            if handle.finished is not None:
                self._put(task, handle.finished)
            raise
        finally:
            self._handles.pop(task, None)

    def _finish(self, task: Task, handle: RunHandle, result: RunResult) -> None:
        purse = handle.plan.scope.env.purse if handle.plan else None
        if purse is not None and purse.is_refused and not result.ok:
            result = replace(result, status="cancelled")
            self._batch.stop_for(OUT_OF_BUDGET)
        self._put(task, result)

    def _put(self, task: Task, result: RunResult) -> None:
        """Passes on the result of a run once, whichever thread has ended it."""
        if self._handles.pop(task, None) is not None:
            self._batch.finish(task, result)

    def halt(self) -> None:
        """Keeps the runs from sending requests; from any thread, also in a signal handler."""
        for handle in list(self._handles.values()):
            handle.halt()

    def overdue(self) -> float:
        """Seconds that a run is past its deadline, the longest of all; 0.0 = none is."""
        handles = list(self._handles.values())
        return max((handle.overdue() for handle in handles), default=0.0)

    def abandon(self, *, timed_out: bool = False) -> None:
        """Ends the runs of a loop that does not respond; called by another thread.

        Args:
            timed_out: True if their time is up, unless they were cancelled.
        """
        for task, handle in list(self._handles.items()):
            is_late = timed_out and handle.overdue() > 0.0
            result = handle.abandon(discard, timed_out=is_late)
            if result is not None:
                self._put(task, result)
        self._batch.release_all()

    def close(self) -> None:
        """Called at the end of the map."""


class _Turns:
    """Lets runs begin in the order of their positions, each as soon as the one before has begun.

    A cassette gives equal requests their answers in the order in which they come: so they are the
    same in any timing (D-59).
    """

    def __init__(self) -> None:
        self._begun = defaultdict[int, asyncio.Event](asyncio.Event)
        self._passed = 0
        """Position of the run that has waited last."""

    async def wait(self, index: int) -> None:
        """Waits until the run before has begun, or ended."""
        if index:
            await self._begun[index - 1].wait()
            del self._begun[index - 1]
        self._passed = index

    def leave(self, index: int) -> None:
        """Notes that a run has begun, or will not; twice is harmless."""
        if index >= self._passed:
            self._begun[index].set()
