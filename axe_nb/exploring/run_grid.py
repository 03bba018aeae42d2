"""`axe_nb.grid`: variants × inputs × repeats as one map, scored as the runs end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, NamedTuple

from axe_nb.agents.agent import Agent
from axe_nb.agents.files import expand_home
from axe_nb.cell_display.front_end import find_variable, make_table
from axe_nb.conversion.interpolation import interpolate
from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.call import refuse_in_tool
from axe_nb.errors import ConfigError, interrupted
from axe_nb.exploring.executors import make_runs
from axe_nb.exploring.grid import Grid
from axe_nb.exploring.grid_forecast import Forecast
from axe_nb.exploring.grid_inputs import read_inputs
from axe_nb.exploring.grid_outcome import GridRun
from axe_nb.exploring.grid_page import NAME, list_parts, show_grid
from axe_nb.exploring.grid_scoring import VERDICT, Score, Scoring, write_case
from axe_nb.exploring.grid_squares import MAX_NAMED
from axe_nb.exploring.grid_variants import Variant, make_variants
from axe_nb.exploring.map_batch import Asking, Batch, Ended, Resume, open_session
from axe_nb.exploring.map_budget import BudgetOption, make_meter
from axe_nb.exploring.map_driver import Driver
from axe_nb.exploring.map_progress import Progress, Tally
from axe_nb.exploring.map_prompts import Prompts, Task
from axe_nb.exploring.run_map import read_count
from axe_nb.pictures.picture import Picture
from axe_nb.session.drive import Line
from axe_nb.session.overrides import Overrides, merge_options, refuse_steps
from axe_nb.session.portal import run_and_wait
from axe_nb.session.session import session
from axe_nb.text import list_some

GRACE = 0.3
"""Seconds after an interrupt for the scores of runs that had ended."""

OF_JUDGE = ("timeout", "agents_dir")
"""Options of the runs that are those of the judge too."""


def grid(
    agents: str | Agent | Sequence[str | Agent] | Mapping[str, str | Agent] | None,
    prompt: str | Sequence[str] | Mapping[str, str],
    *,
    inputs: Any = None,
    models: str | Sequence[str] | Mapping[str, str] | None = None,
    params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    repeats: int = 1,
    expect: str | None = None,
    score: Score | None = None,
    judge: str | Agent | None = None,
    concurrency: int = 8,
    executor: object = None,
    budget: BudgetOption = None,
    resume: Resume = None,
    display: bool = True,
    **options: Any,
) -> Grid:
    """Runs every variant on every input, and returns a grid of the results.

    Variants are all combinations of agents, models, parameters and prompts. Blocks; a failed run
    is a square that did not pass.

    Args:
        agents: an agent or its name, or several, or a dict of them by label; None = prompts go
            directly to the models.
        prompt: a template, in which `{{ name }}` is a column of the inputs; or several, or a dict
            of them by label.
        inputs: a list, a DataFrame, or the path of a CSV or JSONL file; plain values are called
            `input`.
        models: provider/model, or several, or a dict of them by label; None = each agent's own.
        params: model parameters, or several, or a dict of them by label.
        repeats: runs per square.
        expect: expectations that a run must meet to pass.
        score: `score(result, row) -> float | bool`; False = the run did not pass.
        judge: an agent that answers with a number and a reason, or its name.
        concurrency: maximum number of runs at once.
        executor: where the runs take place, as in `axe_nb.map`; scores are computed here.
        budget: for all runs together: US dollars, or a dict with keys of `[limits]`.
        resume: a file that keeps each result as its run ends. Runs kept there are not repeated: the
            same call continues a grid where it was interrupted.
        display: if True, a notebook shows the table as it fills.
        options: those of `axe_nb.run`, for all runs.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
    """
    runner = GridRunner(
        agents, prompt, inputs=inputs, models=models, params=params, repeats=repeats,
        expect=expect, score=score, judge=judge, concurrency=concurrency, executor=executor,
        budget=budget, resume=resume, options=options,
    )  # fmt: skip
    runner.check()
    runner.show(display, find_variable(runner.grid, "grid") or NAME)
    return runner.grid


class _Job(NamedTuple):
    """One run of a grid."""

    input: int
    variant: int
    repeat: int
    """From 1."""


class GridRunner:
    """One grid in progress; blocks the thread that runs it."""

    def __init__(
        self,
        agents: Any,
        prompt: Any,
        *,
        inputs: Any = None,
        models: Any = None,
        params: Any = None,
        repeats: int = 1,
        expect: str | None = None,
        score: Score | None = None,
        judge: str | Agent | None = None,
        concurrency: int = 8,
        executor: object = None,
        budget: BudgetOption = None,
        resume: Resume = None,
        options: Mapping[str, Any] | None = None,
        names: Mapping[str, Any] | None = None,
        first_line: int = 1,
        is_dry: bool = False,
    ) -> None:
        """Prepares the runs; nothing is sent yet. See `grid`.

        Args:
            options: those of each run.
            names: further names of the templates, behind the columns of the inputs.
            first_line: line of the template's first line in its editor.
            is_dry: if True, it is only checked, and nothing is kept.

        Raises:
            ConfigError: an option is invalid.
        """
        refuse_in_tool("grid")
        repeats, width = read_count("repeats", repeats), read_count("concurrency", concurrency)
        if score is not None and (not callable(score) or iscoroutinefunction(score)):
            given = "async def" if callable(score) else shown_value(score)
            raise ConfigError(f"score takes a function (result, row), not {given}")
        if options and "model" in options:
            raise ConfigError("a grid takes models, not model")
        common = refuse_steps(merge_options(options or {}, session.defaults), "a grid")
        agents_dir = Overrides.of({**common, "expect": expect}).agents_dir
        self._scoring = Scoring(expect=expect, score=score, agents_dir=agents_dir)
        variants = make_variants(agents, models, params, prompt)
        self.grid = made = Grid(read_inputs(inputs), variants, repeats)
        self._names, self._first_line = names or {}, first_line
        self._jobs = list(_list_jobs(made))
        self._tasks: list[Task] = []
        askings = [_ask(variant, common, expect) for variant in variants]
        if judge is not None:
            own = {key: common[key] for key in OF_JUDGE if key in common}
            askings.append(Asking(judge, own, output=VERDICT))
        meter = make_meter(budget, "grid")
        self._batch = batch = Batch(
            askings=askings, session=open_session(meter, is_dry=is_dry), meter=meter,
            tally=Tally("grid", len(self._jobs)), resume=_find_resume(resume, is_dry=is_dry),
            judge=None if judge is None else len(variants), write_case=write_case,
        )  # fmt: skip
        self._runs = make_runs(batch, executor, width)
        self._forecast = Forecast(batch, len(variants), len(self._jobs))
        batch.tally.forecast = self._forecast.describe

    def check(self) -> None:
        """Writes the prompts, and checks each variant and the judge; blocks. Called once.

        Raises:
            ConfigError: a run could not begin, or a template names what no column has.
        """
        for number, job in enumerate(self._jobs):  # here, as they may run code of the user's
            task = self._write_task(job)
            if task.problem is not None and number < len(self.grid.choices):
                raise task.problem
            self._tasks.append(task)

        async def prepare() -> None:
            await self._batch.prepare()
            await self._runs.prepare()
            await self._forecast.prepare(self._tasks)

        run_and_wait(prepare())

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

    def show(self, display: bool, name: str) -> None:
        """Runs the grid and shows it as it fills: its table in a notebook, a line in a terminal."""

        def draw(progress: str) -> dict[str, str]:
            return show_grid(self.grid, name, note=progress)

        self.run(make_table(self.grid, draw, partial(list_parts, self.grid), display))

    def run(self, line: Line) -> None:
        """Runs the grid; what is done is in the grid, whatever ends it.

        Raises:
            ConfigError: a run could not begin.
            KeyboardInterrupt: the caller was interrupted.
        """
        progress = Progress(self._batch.tally, line)
        driver = Driver(self._batch, Prompts(self._tasks), self._runs, progress)
        try:
            with closing(driver.iterate()) as ended:
                for one in ended:
                    driver.receive()
                    self._take(one)
        except KeyboardInterrupt:
            self._batch.stop_for("interrupted")
            until = time.monotonic() + GRACE
            for one in driver.list_left():
                if one.result.status != "cancelled" and time.monotonic() < until:
                    self._take(one)
            again = self._batch.describe_resuming()
            raise interrupted(f"the grid was stopped; {again}") from None
        finally:
            self.close()
            self.grid.note = "; ".join(self._batch.tally.notes)
            progress.finish()

    def _take(self, ended: Ended) -> None:
        grid, job = self.grid, self._jobs[ended.index]
        run = GridRun(
            input=grid.inputs[job.input], variant=grid.variants[job.variant], repeat=job.repeat,
            result=ended.result, passed=ended.result.ok, judgement=ended.judgement,
        )  # fmt: skip
        run = self._scoring.check(run, grid.rows[job.input])
        grid.add(job.input, job.variant, run)

    def _write_task(self, job: _Job) -> Task:
        """The task of a job: the template of its variant with the values of its input.

        Its `problem` is that the template names what no column has, or that an expression fails.
        """
        pictures: list[Picture] = []
        row, template = self.grid.rows[job.input], self.grid.choices[job.variant].prompt
        try:
            text = interpolate(template, {**self._names, **row}, self._first_line, pictures)
        except ConfigError as error:
            columns = list_some(list(row), MAX_NAMED) or "none"
            error.hint = f"the columns of the inputs: {columns}; write \\{{{{ for a literal brace"
            return Task(problem=error, asking=job.variant)
        return Task(text=text, pictures=tuple(pictures), asking=job.variant)


def _list_jobs(grid: Grid) -> Iterator[_Job]:
    """The runs of a grid.

    All variants of an input come together, and all inputs before a repeat: a grid that is stopped
    has compared them on the same inputs.
    """
    for repeat in range(1, grid.repeats + 1):
        for input in range(len(grid.rows)):
            for variant in range(len(grid.choices)):
                yield _Job(input, variant, repeat)


def _ask(variant: Variant, common: Mapping[str, Any], expect: str | None) -> Asking:
    own = dict[str, Any]()
    if variant.model is not None:
        own["model"] = variant.model
    if variant.params:
        own["params"] = {**(common.get("params") or {}), **variant.params}
    return Asking(variant.agent, {**common, **own}, expect=expect)


def _find_resume(resume: Resume, *, is_dry: bool) -> Resume:
    """The resume file; a dry run makes none."""
    if is_dry and isinstance(resume, str | os.PathLike):
        return resume if Path(expand_home(os.fspath(resume))).exists() else None
    return resume
