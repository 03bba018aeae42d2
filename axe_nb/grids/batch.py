"""The runs of a grid as a map: one batch of several variants, each run followed by its judge's.

Source: product.md "Exploring".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from axe_nb.agents.agent import Agent
from axe_nb.commands.overrides import Overrides
from axe_nb.engine.plan import Plan
from axe_nb.errors import ConfigError
from axe_nb.grids.grid import Grid
from axe_nb.grids.jobs import Job, write_prompt
from axe_nb.grids.scoring import VERDICT, write_case
from axe_nb.maps.batch import Batch
from axe_nb.maps.digest import compute_digest, compute_key
from axe_nb.maps.local import LocalRuns
from axe_nb.maps.resume_file import ResumeFile
from axe_nb.maps.tasks import Task
from axe_nb.results import RunResult
from axe_nb.session.runs import RunRequest


@dataclass
class Asking:
    """The agent and options that the runs of one variant have in common."""

    agent: str | Agent | None
    overrides: Overrides
    plan: Plan | None = None
    """That of a run with a blank prompt."""
    common: bytes = b""
    """Hash of what its runs have in common, for the resume file."""


@dataclass(kw_only=True)
class GridBatch(Batch):
    """The runs of a grid. The prompt of a task is its `Job`."""

    grid: Grid
    askings: Sequence[Asking]
    """One per variant."""
    hold: Callable[[Task, RunResult], bool] = lambda task, result: False
    """True if the result is passed on later, when it was judged."""

    async def prepare(self) -> None:
        """Checks the configuration of each variant, and opens the resume file.

        Raises:
            ConfigError: no run of a variant could begin, or the resume file cannot be used.
        """
        if self.plan is not None:
            return
        if self.path is not None:
            self.file = ResumeFile(self.path)
        for asking in self.askings:
            overrides = replace(asking.overrides, timeout=None)
            request = RunRequest(agent=asking.agent, overrides=overrides)
            asking.plan = self.plan = await self.session.plan(request)
            if self.file is not None:
                asking.common = await compute_digest(asking.plan, overrides)

    def make_task(self, index: int, prompt: object) -> Task:
        """See `Batch`."""
        if self.file is None:
            return Task(index, prompt)
        job = cast(Job, prompt)
        try:
            asked = write_prompt(self.grid, job)
        except ConfigError:  # reported as the result of its run
            return Task(index, prompt)
        common = self.askings[job.variant].common
        return Task(index, prompt, compute_key(common, asked.text, asked.pictures))

    def make_request(self, task: Task) -> RunRequest:
        """See `Batch`."""
        job = cast(Job, task.prompt)
        asking, asked = self.askings[job.variant], write_prompt(self.grid, job)
        return RunRequest(
            agent=asking.agent, prompt=asked.text, pictures=asked.pictures,
            overrides=asking.overrides,
        )  # fmt: skip

    def find_plan(self, task: Task) -> Plan | None:
        """See `Batch`."""
        return self.askings[cast(Job, task.prompt).variant].plan

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
        if self.plan is not None:
            return
        overrides = replace(self.overrides, timeout=None)
        plan = await self.session.plan(RunRequest(agent=self.agent, overrides=overrides))
        if plan.output is None:
            self.overrides = replace(self.overrides, output=VERDICT)
        await super().prepare()


class JudgedRuns(LocalRuns):
    """The runs of a grid, each followed by the run that judges it."""

    def __init__(self, batch: GridBatch, judge: JudgeBatch, concurrency: int) -> None:
        super().__init__(batch, concurrency)
        self._grid_batch, self._judge = batch, judge
        self._judging = LocalRuns(judge, concurrency)
        self._held: dict[int, RunResult] = {}
        self.judgements: dict[int, RunResult] = {}
        """Position → run of the judge, until it is taken."""
        batch.hold, judge.receive = self._hold, self.judgements.__setitem__

    async def prepare(self) -> None:
        """See `Runs`."""
        await super().prepare()
        await self._judge.prepare()

    async def work(self, tasks: Sequence[Task]) -> None:
        """See `Runs`."""
        try:
            await super().work(tasks)
            for task in tasks:
                await self._judge_one(task)
        finally:
            for task in tasks:
                if (result := self._held.pop(task.index, None)) is not None:
                    self._grid_batch.release(task, result)

    async def _judge_one(self, task: Task) -> None:
        result = self._held.get(task.index)
        if result is None:
            self._judging.leave(task)
            return
        asked = write_prompt(self._grid_batch.grid, cast(Job, task.prompt))
        case = write_case(asked.text, result.text)
        await self._judging.work([self._judge.make_task(task.index, case)])

    def _hold(self, task: Task, result: RunResult) -> bool:
        if result.ok:
            self._held[task.index] = result
        return result.ok

    def halt(self) -> None:
        """See `Runs`."""
        super().halt()
        self._judging.halt()

    def overdue(self) -> float:
        """See `Runs`."""
        return max(super().overdue(), self._judging.overdue())

    def abandon(self, *, timed_out: bool = False) -> None:
        """See `Runs`."""
        super().abandon(timed_out=timed_out)
        self._judging.abandon(timed_out=timed_out)
