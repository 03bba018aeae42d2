"""The runs of a grid as a map: one batch of several variants, each run followed by its judge's.

Source: product.md "Exploring".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from axe_nb.grids.scoring import VERDICT, write_case
from axe_nb.maps.batch import Batch
from axe_nb.maps.drives import Runs
from axe_nb.maps.tasks import Task
from axe_nb.results import RunResult


@dataclass(kw_only=True)
class GridBatch(Batch):
    """The runs of a grid, with one `Asking` for each variant."""

    hold: Callable[[Task, RunResult], bool] = lambda task, result: False
    """True if the result is passed on later, when it was judged."""

    def release(self, task: Task, result: RunResult) -> None:
        """Passes on a result that was held."""
        super()._pass_on(task, result)

    def _pass_on(self, task: Task, result: RunResult, *, is_from_file: bool = False) -> None:
        if not self.hold(task, result):
            super()._pass_on(task, result, is_from_file=is_from_file)


@dataclass(kw_only=True)
class JudgeBatch(Batch):
    """The runs of a judge, whose answer is a number and a reason."""

    async def prepare(self) -> None:
        """See `Batch`; an agent without an `[output]` of its own gets that of a judge."""
        [asking] = self.askings
        if asking.plan is None and (await asking.prepare(self.session)).output is None:
            asking.change(output=VERDICT)
        await super().prepare()


class JudgedRuns:
    """The runs of a grid, each followed by the run that judges it; see `drives.Runs`."""

    def __init__(self, batch: GridBatch, runs: Runs, judge: JudgeBatch, judging: Runs) -> None:
        self._batch, self._runs = batch, runs
        self._judge, self._judging = judge, judging
        self.workers, self.chunk = runs.workers, runs.chunk
        self._held: dict[int, tuple[Task, RunResult]] = {}
        self.judgements: dict[int, RunResult] = {}
        """Position → run of the judge, until it is taken."""
        batch.hold, judge.receive = self._hold, self.judgements.__setitem__
        judge.stop = lambda: batch.stop_for(judge.stopped)

    async def prepare(self) -> None:
        """See `drives.Runs`."""
        await self._runs.prepare()
        self._judge.file = self._batch.file
        await self._judge.prepare()
        await self._judging.prepare()

    async def work(self, tasks: Sequence[Task]) -> None:
        """See `drives.Runs`."""
        try:
            await self._runs.work(tasks)
            held = [self._held[task.index] for task in tasks if task.index in self._held]
            await self._judging.work([self._make_case(*one) for one in held])
        finally:
            for task in tasks:
                self._judging.leave(task)
                self._release(task.index)

    def _make_case(self, task: Task, result: RunResult) -> Task:
        return self._judge.make_task(task.index, write_case(task.text, result.text))

    def _hold(self, task: Task, result: RunResult) -> bool:
        if result.ok:
            self._held[task.index] = task, result
        return result.ok

    def _release(self, index: int) -> None:
        if (held := self._held.pop(index, None)) is not None:
            self._batch.release(*held)

    def leave(self, task: Task) -> None:
        """See `drives.Runs`."""
        self._runs.leave(task)
        self._judging.leave(task)

    def halt(self) -> None:
        """See `drives.Runs`."""
        self._runs.halt()
        self._judging.halt()

    def overdue(self) -> float:
        """See `drives.Runs`."""
        return max(self._runs.overdue(), self._judging.overdue())

    def abandon(self, *, timed_out: bool = False) -> None:
        """See `drives.Runs`."""
        self._runs.abandon(timed_out=timed_out)
        self._judging.abandon(timed_out=timed_out)
        for index in list(self._held):
            self._release(index)

    def close(self) -> None:
        """See `drives.Runs`."""
        self._runs.close()
        self._judging.close()
