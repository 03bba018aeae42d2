"""`axe_nb.grid`: runs variants × inputs × repeats as one map, and scores each run as it ends."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from inspect import iscoroutinefunction
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.files import expand_home, reason
from axe_nb.cell_display.front_end import find_variable, make_table
from axe_nb.conversion.interpolation import interpolate
from axe_nb.conversion.jsonable import jsonable
from axe_nb.engine.call import refuse_in_tool
from axe_nb.errors import ConfigError, ExpectationError, words
from axe_nb.expectations import check
from axe_nb.exploring import grid as grids
from axe_nb.exploring.executors import make_runs
from axe_nb.exploring.grid import MAX_RUNS, NAME, Grid, Row, Variant, name_agent
from axe_nb.exploring.grid_statistics import MAX_NAMED, GridRun
from axe_nb.exploring.map_driver import (
    Asking,
    Batch,
    BudgetOption,
    Driver,
    Ended,
    Resume,
    Tally,
    Task,
    make_meter,
    open_session,
)
from axe_nb.exploring.run_map import read_count
from axe_nb.pictures.picture import Picture
from axe_nb.results import RunResult
from axe_nb.session.overrides import Overrides, merge_options, refuse_steps
from axe_nb.session.portal import run_and_wait
from axe_nb.session.session import session
from axe_nb.text import list_some, one_line, plural, quote, shown_value

Score: TypeAlias = Callable[[RunResult, Row], "float | bool"]
"""Scoring function, called with a result and the input's row."""

SUFFIXES = (".csv", ".jsonl")

VERDICT = {
    "type": "object",
    "properties": {"score": {"type": "number"}, "reason": {"type": "string"}},
    "required": ["score", "reason"],
    "additionalProperties": False,
}
"""JSON Schema for a judge's answer, used if the judge's agent sets none."""


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

    Variants are all combinations of agents, models, parameters and prompts. Several of these can be
    passed as a list, or as a dict with labels as keys. Blocks until all runs have ended; a failed
    run counts as not passed. Raises ConfigError if the configuration is invalid, before anything is
    sent.

    Args:
        agents: one or several agents, or their names; None sends prompts directly to the models.
        prompt: one or several templates, in which `{{ name }}` stands for an input column.
        inputs: a list, a DataFrame, or the path of a CSV or JSONL file; plain values become the
            column `input`.
        models: one or several models, as provider/model; None keeps each agent's own.
        params: one or several dicts of model parameters.
        repeats: number of runs per square.
        expect: expectations that a run must meet to pass.
        score: `score(result, row) -> float | bool`; False means that the run did not pass.
        judge: an agent, or an agent's name, that answers with a number and a reason.
        concurrency: maximum number of runs at once.
        executor: where runs take place, as in `axe_nb.map`; scores are computed in this process.
        budget: limit for all runs together: US dollars, or a dict with keys of `[limits]`.
        resume: path of a file that stores each result as its run ends. Stored runs are repeated
            only as in `axe_nb.map`, so the same call continues an interrupted grid.
        display: if True, a notebook shows the table as it fills.
        options: options of `axe_nb.run` for all runs, except `step` and `break_at`.
    """
    runner = GridRunner(
        agents, prompt, inputs=inputs, models=models, params=params, repeats=repeats,
        expect=expect, score=score, judge=judge, concurrency=concurrency, executor=executor,
        budget=budget, resume=resume, options=options,
    )  # fmt: skip
    runner.run(display, find_variable(runner.grid, "grid") or NAME)
    return runner.grid


class GridRunner:
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
        """Prepares a grid's runs, or only checks the configuration if `is_dry`. Blocks.

        `names` holds more values for the templates, which start at line `first_line` of the cell.
        """
        refuse_in_tool("grid")
        repeats, width = read_count("repeats", repeats), read_count("concurrency", concurrency)
        if score is not None and (not callable(score) or iscoroutinefunction(score)):
            given = "async def" if callable(score) else shown_value(score)
            raise ConfigError(f"score takes a function (result, row), not {given}")
        if options and "model" in options:
            raise ConfigError("a grid takes models, not model")
        common = refuse_steps(merge_options(options or {}, session.defaults), "a grid")
        self._expect, self._score, self._agents_dir = expect, score, common.get("agents_dir")
        common = {**common, "expect": expect}
        variants = make_variants(agents, models, params, prompt)
        self.grid = Grid(read_inputs(inputs), variants, repeats)
        # by repeat, then input, then variant: a grid that is stopped has compared the variants on
        # the same inputs
        self._jobs = list(product(range(repeats), range(len(self.grid.rows)), range(len(variants))))
        if is_dry and isinstance(resume, str | os.PathLike):  # a dry run makes no file
            resume = resume if Path(expand_home(os.fspath(resume))).exists() else None
        askings = []
        for variant in variants:
            own: dict[str, Any] = {"model": variant.model} if variant.model is not None else {}
            if variant.params:
                own["params"] = {**(common.get("params") or {}), **variant.params}
            askings.append(Asking(variant.agent, Overrides.of({**common, **own})))
        if judge is not None:
            own = {key: common[key] for key in ("timeout", "agents_dir") if key in common}
            askings.append(Asking(judge, Overrides.of(own), output=VERDICT))
        meter, tally = make_meter(budget, "grid"), Tally("grid", len(self._jobs))
        self._batch = Batch(
            askings=askings, session=open_session("grid", meter, is_dry=is_dry), meter=meter,
            tally=tally, resume=resume, judge=None if judge is None else len(variants),
            checks=False,
        )  # fmt: skip
        self._runs = make_runs(self._batch, executor, width)
        self._tasks = self._make_tasks(names or {}, first_line)
        run_and_wait(self._runs.prepare())

    def _make_tasks(self, names: Mapping[str, Any], first_line: int) -> list[Task]:
        tasks = []
        for number, (_, input, variant) in enumerate(self._jobs):
            task = Task(asking=variant)
            row, pictures = self.grid.rows[input], list[Picture]()
            known, template = {**names, **row}, self.grid.choices[variant].prompt
            try:  # may run the user's code
                task.text = interpolate(template, known, first_line, pictures)
                task.pictures = tuple(pictures)
            except ConfigError as error:
                columns = list_some(list(row), MAX_NAMED) or "none"
                step = "write \\{{ for a literal brace"
                error.hint = f"the columns of the inputs: {columns}; {step}"
                if number < len(self.grid.choices):
                    raise
                task.problem = error
            tasks.append(task)
        return tasks

    @property
    def forecast(self) -> str:
        """Number of requests that the grid needs, as text; `at least …` if runs may send more."""
        plans = [asking.plan for asking in self._batch.askings]
        is_exact = not any(plan.toolset.offered or plan.asks_at_end for plan in plans)
        fewest = plural(len(self._jobs) * (1 if self._batch.judge is None else 2), "request")
        kept = ", minus what is in the resume file" if self._batch.file else ""
        return f"{'' if is_exact else 'at least '}{fewest}{kept}"

    @property
    def warnings(self) -> list[str]:
        plans = [asking.plan for asking in self._batch.askings]
        return list(dict.fromkeys(warning for plan in plans for warning in plan.warnings))

    def close(self) -> None:
        self._runs.close()

    def run(self, display: bool, name: str) -> None:
        """Runs the grid, showing progress. After an interrupt, `grid` holds the runs that ended."""

        def draw(progress: str) -> dict[str, str]:
            return grids.show_grid(self.grid, name, note=progress)

        def list_parts(progress: str) -> list[str]:
            return grids.list_parts(self.grid, "", progress)

        line = make_table(self.grid, draw, list_parts, display)
        tally = self._batch.tally
        tally.line, tally.began, tally.forecast = line, time.monotonic(), self.forecast
        driver = Driver(self._batch, self._tasks, self._runs)
        try:
            with closing(driver.iterate()) as ended:
                for one in ended:
                    driver.receive()
                    self._take(one)
        except KeyboardInterrupt:
            interrupt = self._batch.interrupt("the grid was stopped")
            until = time.monotonic() + 0.3  # runs that had ended are still scored
            while not driver.ended.empty():
                one = driver.ended.get()
                is_run = isinstance(one, Ended) and one.result.status != "cancelled"
                if is_run and time.monotonic() < until:
                    self._take(one)
            raise interrupt from None
        finally:
            self.close()
            self.grid.note = "; ".join(tally.notes)
            line.finish(tally.format())

    def _take(self, ended: Ended) -> None:
        """Adds a run and its verdict to the grid. An error in `score=` does not stop the grid."""
        grid, (repeat, input, variant) = self.grid, self._jobs[ended.index]
        result, row = ended.result, grid.rows[input]
        run = GridRun(
            input=grid.inputs[input], variant=grid.variants[variant], repeat=repeat + 1,
            result=result, passed=result.ok, judgement=ended.judgement,
        )  # fmt: skip
        if not result.ok:
            # a run that was cut off with the grid says nothing about its variant
            passed = None if result.status == "cancelled" else False
            run = replace(run, passed=passed, reason=result.error or result.status)
            grid.add(input, variant, run)
            return
        passed, score = True, None
        reasons, problems = list[str](), list[str]()
        if self._expect is not None:
            try:
                check(result, self._expect, agents_dir=self._agents_dir)
            except (ExpectationError, ConfigError) as error:
                passed = False
                reasons.append(error.message)
        if self._score is not None:
            found = _compute(self._score, result, row)
            if isinstance(found, str):
                problems.append(found)
                reasons.append(found)
                passed = None if passed else False  # it may have passed or not
            else:
                score = float(found)
                if found is False:
                    passed, reasons = False, reasons or ["score returned False"]
        if ended.judgement is not None:
            data = ended.judgement.data if isinstance(ended.judgement.data, dict) else {}
            number, said = data.get("score"), str(data.get("reason", ""))
            if not isinstance(number, int | float) or not math.isfinite(number):
                why = ended.judgement.error or "its answer has no number named score"
                said = f"the judge failed: {why}"
                problems.append(said)
                passed = passed if self._expect or self._score else None
            elif self._score is None:
                score = float(number)
            reasons.append(said)
        run = replace(
            run, passed=passed, score=score,
            reason=" · ".join(one_line(reason, 500) for reason in reasons if reason),
            problem=one_line(problems[0], 500) if problems else "",
        )  # fmt: skip
        grid.add(input, variant, run)


def make_variants(agents: Any, models: Any, params: Any, prompts: Any) -> tuple[Variant, ...]:
    """Creates a variant for each combination of agent, model, parameters and prompt."""
    if params is None or (
        isinstance(params, Mapping) and not all(isinstance(v, Mapping) for v in params.values())
    ):
        params = [params]

    def describe(some: Mapping[str, Any] | None) -> str:
        said = (f"{name}={json.dumps(jsonable(value))}" for name, value in (some or {}).items())
        return ", ".join(said) or "no params"

    choices = [
        _name("agents", [agents] if isinstance(agents, str | Agent | None) else agents, name_agent),
        _name("models", [models] if isinstance(models, str | None) else models, str),
        _name("params", [{}] if params == {} else params, describe),
        _name("prompt", [prompts] if isinstance(prompts, str) else prompts, lambda _: ""),
    ]
    variants = []
    for combination in product(*choices):
        agent, model, some, prompt = (value for _, value in combination)
        parts = [label for (label, _), one in zip(combination, choices, strict=True) if one[1:]]
        label = " · ".join(parts) or name_agent(agent)
        variants.append(Variant(label=label, agent=agent, model=model, params=some, prompt=prompt))
    return tuple(variants)


def _name(what: str, given: Any, describe: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(given, Mapping):
        named = [(str(label), value) for label, value in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        named = [
            (describe(value) or f"{what} {number}", value) for number, value in enumerate(given)
        ]
    else:
        raise ConfigError(f"{what} takes one value or a list, not {type(given).__name__}")
    if not named:
        raise ConfigError(f"{what} is empty: there is nothing to run")
    named = [(one_line(label, 100), value) for label, value in named]
    for label, count in Counter(label for label, _ in named).items():
        if count > 1:
            hint = f'name them: {what}={{"before": …, "after": …}}'
            raise ConfigError(f"{what} contains {label} twice", hint=hint)
    return named


def read_inputs(given: Any) -> list[Row]:
    """Reads values, a DataFrame, or a CSV or JSONL file as rows; None gives one empty row."""
    if given is None:
        return [{}]
    if isinstance(given, str | os.PathLike):
        found: Iterable[Any] = _read_file(Path(given))
    elif callable(to_rows := getattr(given, "to_dicts", None)):  # polars
        found = to_rows()
    elif hasattr(given, "columns") and callable(to_rows := getattr(given, "to_dict", None)):
        found = to_rows("records")
    elif isinstance(given, Iterable) and not isinstance(given, Mapping | bytes):
        found = given
    else:
        forms = "a list, a DataFrame, or the path of a .csv or .jsonl file"
        raise ConfigError(f"inputs takes {forms}, not {type(given).__name__}")
    rows = [
        value if isinstance(value, Mapping) else {"input": value}
        for value in islice(found, MAX_RUNS + 1)
    ]
    if not rows:
        raise ConfigError("there are no inputs")
    for number, row in enumerate(rows):
        if wrong := [name for name in row if not isinstance(name, str)]:
            shown = shown_value(wrong[0])
            raise ConfigError(f"input {number}: the column name {shown} is not text")
    return rows


def _read_file(path: Path) -> list[Any]:
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"inputs {quote(one_line(str(path), 100))}: not a .csv or .jsonl file")
    what = f"inputs {quote(path.name)}"
    try:
        text = expand_home(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{what}: {reason(error)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{what}: not UTF-8 text") from None
    rows: list[Any] = []
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            try:
                rows += [json.loads(line)] if line.strip() else []
            except (ValueError, RecursionError):
                raise ConfigError(f"{what}, line {number}: not JSON") from None
        return rows
    lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = lines.fieldnames or []
        if len(set(columns)) < len(columns) or "" in columns:
            raise ConfigError(f"{what}: the first line must name each column once")
        for row in lines:
            if None in row or None in row.values():
                raise csv.Error(f"expected {plural(len(columns), 'value')}")
            rows.append(row)
    except csv.Error as error:
        raise ConfigError(f"{what}, line {lines.reader.line_num}: {error}") from None
    return rows


def _compute(score: Score, result: RunResult, row: Row) -> float | bool | str:
    try:
        given: Any = score(result, row)
        if given is None:
            return "score returned None, which is neither a number nor a bool"
        value = float(given)
    except Exception as error:
        return f"score failed: {type(error).__name__}: {words(error)}"
    if not math.isfinite(value):  # it has no mean
        return f"score returned {value}, not a finite number"
    is_bool = type(given).__name__ in ("bool", "bool_")  # also numpy's
    return bool(given) if is_bool else value
