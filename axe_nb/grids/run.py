"""Runs a grid: variants × inputs × repeats as one map, judged as the runs end.

Source: product.md "Exploring".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.commands.overrides import Overrides
from axe_nb.errors import interrupted
from axe_nb.grids.batch import Asking, GridBatch, JudgeBatch, JudgedRuns
from axe_nb.grids.grid import Grid
from axe_nb.grids.jobs import Job, list_jobs, write_prompt
from axe_nb.grids.outcome import GridRun
from axe_nb.grids.scoring import Scoring
from axe_nb.grids.variants import Variant
from axe_nb.limits import InFlight
from axe_nb.maps.budget import BudgetOption, make_meter
from axe_nb.maps.drives import DriveBlocking
from axe_nb.maps.local import LocalRuns
from axe_nb.maps.own_session import open_session
from axe_nb.maps.progress import Progress, Tally
from axe_nb.maps.tasks import Prompts
from axe_nb.results import RunResult
from axe_nb.session.portal import run_and_wait
from axe_nb.session.view import Line
from axe_nb.text import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """The settings of a grid, beside its variants and inputs."""

    overrides: Overrides
    """Of all variants; each adds its own model and parameters."""
    scoring: Scoring
    judge: str | Agent | None = None
    concurrency: int = 8
    budget: BudgetOption = None
    resume: str | os.PathLike[str] | None = None


class GridRunner:
    """One grid in progress; blocks the thread that runs it."""

    def __init__(self, grid: Grid, options: GridOptions) -> None:
        """Prepares the runs; nothing is sent yet.

        Raises:
            ConfigError: an option is invalid.
        """
        self.grid, self._options = grid, options
        meter = make_meter(options.budget)
        if meter is not None:
            meter.agent = "grid"
        most = meter.limits.max_in_flight if meter else 0
        session = open_session(meter, InFlight.of(most) if most else None)
        common: Mapping[str, Any] = {
            "keep": "results", "session": session, "meter": meter, "path": options.resume,
        }  # fmt: skip
        self._jobs = list(list_jobs(grid))
        self._batch = GridBatch(
            agent=None, overrides=options.overrides, grid=grid,
            tally=Tally("grid", len(self._jobs)),
            askings=[_ask(variant, options.overrides) for variant in grid.choices], **common,
        )  # fmt: skip
        self._judge: JudgeBatch | None = None
        self._judged: JudgedRuns | None = None
        if options.judge is not None:
            self._judge = JudgeBatch(
                agent=options.judge, overrides=Overrides(timeout=options.overrides.timeout),
                tally=Tally("judge"), **common,
            )  # fmt: skip
            self._judged = JudgedRuns(self._batch, self._judge, options.concurrency)
        self._runs = self._judged or LocalRuns(self._batch, options.concurrency)

    def check(self) -> None:
        """Checks every variant, the judge and the first prompt of each template; blocks.

        Raises:
            ConfigError: a run could not begin, or a template names what no column has.
        """
        for job in self._jobs[: len(self.grid.choices)]:
            write_prompt(self.grid, job)
        run_and_wait(self._prepare())

    async def _prepare(self) -> None:
        await self._batch.prepare()
        await self._runs.prepare()

    @property
    def forecast(self) -> str:
        """The requests that the grid needs, in words; exact for agents that have no tools."""
        requests, is_exact = len(self._jobs), True
        plans = [asking.plan for asking in self._batch.askings]
        if self._judge is not None:
            requests *= 2
            plans.append(self._judge.plan)
        for plan in filter(None, plans):
            is_exact = is_exact and not plan.toolset.offered and not plan.asks_at_end
        return f"{'' if is_exact else 'at least '}{plural(requests, 'request')}"

    def run(self, line: Line) -> None:
        """Runs the grid; what is done is in the grid, whatever ends it.

        Raises:
            ConfigError: a run could not begin.
            KeyboardInterrupt: the caller was interrupted.
        """
        progress = Progress(self._batch.tally, line)
        drive = DriveBlocking(self._batch, Prompts(self._jobs), self._runs, progress)
        try:
            with closing(drive.run()) as ended:
                for index, result in ended:
                    drive.pool.receive()
                    judged = self._judged.judgements.pop(index, None) if self._judged else None
                    self._take(self._jobs[index], result, judged)
            self.grid.note = self._batch.stopped
        except KeyboardInterrupt:
            self.grid.note = "interrupted"
            again = "run it again to go on from there"
            step = again if self._options.resume else "with resume=PATH, the same call would go on"
            raise interrupted(f"the grid was stopped; {step}") from None
        finally:
            self._batch.close()
            progress.finish()

    def _take(self, job: Job, result: RunResult, judgement: RunResult | None) -> None:
        grid = self.grid
        run = GridRun(
            input=grid.inputs[job.input], variant=grid.variants[job.variant], repeat=job.repeat,
            result=result, passed=result.ok, judgement=judgement,
        )  # fmt: skip
        grid.add(job.input, job.variant, self._options.scoring.check(run, grid.rows[job.input]))


def _ask(variant: Variant, overrides: Overrides) -> Asking:
    changes: dict[str, Any] = {}
    if variant.model is not None:
        changes["model"] = variant.model
    if variant.params:
        changes["params"] = {**overrides.params, **variant.params}
    return Asking(variant.agent, replace(overrides, **changes))
