"""Runs a grid: variants × inputs × repeats as one map, judged as the runs end.

Source: product.md "Exploring".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.errors import interrupted
from axe_nb.grids.batch import GridBatch, JudgeBatch, JudgedRuns
from axe_nb.grids.forecast import Forecast
from axe_nb.grids.grid import Grid
from axe_nb.grids.jobs import list_jobs, write_task
from axe_nb.grids.outcome import GridRun
from axe_nb.grids.scoring import Scoring
from axe_nb.grids.variants import Variant
from axe_nb.maps.batch import Asking
from axe_nb.maps.budget import BudgetOption, make_meter
from axe_nb.maps.drives import DriveBlocking, Ended, Runs
from axe_nb.maps.kept import KeptHistory, Resume, is_there
from axe_nb.maps.own_session import open_session
from axe_nb.maps.places import make_runs
from axe_nb.maps.progress import Progress, Tally
from axe_nb.maps.tasks import Prompts, Task
from axe_nb.session.drive import Line
from axe_nb.session.portal import run_and_wait

GRACE = 0.3
"""Seconds after an interrupt for the scores of runs that had ended."""

OF_JUDGE = ("timeout", "agents_dir")
"""Options of the runs that are those of the judge too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """The settings of a grid, beside its variants and inputs."""

    common: Mapping[str, Any]
    """Options of the runs of all variants, as keywords; each adds its own."""
    scoring: Scoring
    judge: str | Agent | None = None
    concurrency: int = 8
    executor: object = None
    budget: BudgetOption = None
    resume: Resume = None
    is_dry: bool = False
    """If true, it is only checked, and nothing is kept."""


class GridRunner:
    """One grid in progress; blocks the thread that runs it."""

    def __init__(self, grid: Grid, options: GridOptions) -> None:
        """Prepares the runs; nothing is sent yet.

        Raises:
            ConfigError: an option is invalid.
        """
        self.grid, self._options = grid, options
        meter = make_meter(options.budget, "grid")
        resume = options.resume
        if options.is_dry and not is_there(resume):
            resume = None
        shared: Mapping[str, Any] = {
            "keep": "results", "session": open_session(meter, is_dry=options.is_dry),
            "meter": meter, "resume": resume, "is_kept": not options.is_dry,
        }  # fmt: skip
        self._jobs = list(list_jobs(grid))
        self._tasks: list[Task] = []
        """Their tasks, once the grid was checked."""
        batch = self._batch = GridBatch(
            askings=[_ask(variant, options) for variant in grid.choices],
            tally=Tally("grid", len(self._jobs)), **shared,
        )  # fmt: skip
        judge = None
        if options.judge is not None:
            own = {key: options.common[key] for key in OF_JUDGE if key in options.common}
            judge = JudgeBatch(askings=[Asking(options.judge, own)], tally=Tally("judge"), **shared)
        batches = [batch, judge] if judge else [batch]
        runs = make_runs(batches, options.executor, options.concurrency)
        self._judged = JudgedRuns(batch, runs[0], judge, runs[1]) if judge else None
        self._runs: Runs = self._judged or runs[0]
        self._forecast = Forecast(grid, batch, judge, len(self._jobs))
        batch.tally.forecast = self._forecast.describe

    def check(self) -> None:
        """Writes the prompts, and checks each variant and the judge; blocks. Called once.

        Raises:
            ConfigError: a run could not begin, or a template names what no column has.
        """
        for number, job in enumerate(self._jobs):  # here, as they may run code of the user's
            task = write_task(self.grid, job)
            if task.problem is not None and number < len(self.grid.choices):
                raise task.problem
            self._tasks.append(task)
        self._forecast.measure(self._tasks)
        run_and_wait(self._prepare())

    async def _prepare(self) -> None:
        await self._batch.prepare()
        await self._runs.prepare()
        await self._forecast.prepare()

    @property
    def forecast(self) -> str:
        """The requests that the grid needs and their price, in words, with what they assume."""
        return self._forecast.describe()

    @property
    def warnings(self) -> list[str]:
        """Warnings found while the variants were checked."""
        plans = [asking.plan for asking in self._batch.askings if asking.plan]
        return list(dict.fromkeys(warning for plan in plans for warning in plan.warnings))

    def close(self) -> None:
        """Releases what keeps the results of a grid that is not run."""
        self._runs.close()
        self._batch.close()

    def run(self, line: Line) -> None:
        """Runs the grid; what is done is in the grid, whatever ends it.

        Raises:
            ConfigError: a run could not begin.
            KeyboardInterrupt: the caller was interrupted.
        """
        progress = Progress(self._batch.tally, line)
        drive = DriveBlocking(self._batch, Prompts(self._tasks), self._runs, progress)
        notes = self._batch.tally.notes
        kept = self._batch.file
        if isinstance(kept, KeptHistory) and kept.is_fresh:
            made = map(self._batch.make_task, count(), self._tasks)
            kept.forget({task.key for task in made if task.key})
        try:
            with closing(drive.run()) as ended:
                for one in ended:
                    drive.pool.receive()
                    self._take(one)
        except KeyboardInterrupt:
            self._batch.stop_for("interrupted")
            self._take_rest(drive)
            again = self._batch.describe_resuming()
            raise interrupted(f"the grid was stopped; {again}") from None
        finally:
            self.close()
            self.grid.note = "; ".join(notes)
            progress.finish()

    def _take_rest(self, drive: DriveBlocking) -> None:
        """Takes what had ended before an interrupt, as far as scores do not take long."""
        until = time.monotonic() + GRACE
        for one in drive.list_left():
            if one[1].status != "cancelled" and time.monotonic() < until:
                self._take(one)

    def _take(self, ended: Ended) -> None:
        index, result = ended
        grid, job = self.grid, self._jobs[index]
        judgement = self._judged.judgements.pop(index, None) if self._judged else None
        run = GridRun(
            input=grid.inputs[job.input], variant=grid.variants[job.variant], repeat=job.repeat,
            result=result, passed=result.ok, judgement=judgement,
        )  # fmt: skip
        run = self._options.scoring.check(run, grid.rows[job.input])
        grid.add(job.input, job.variant, run)
        self._forecast.add(job.variant, run)


def _ask(variant: Variant, options: GridOptions) -> Asking:
    common, own = options.common, dict[str, Any]()
    if variant.model is not None:
        own["model"] = variant.model
    if variant.params:
        own["params"] = {**(common.get("params") or {}), **variant.params}
    return Asking(variant.agent, {**common, **own}, expect=options.scoring.expect)
