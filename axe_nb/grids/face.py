"""`axe_nb.grid`: variants of agents on the same inputs.

Source: product.md "Exploring".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.conversion.libraries import as_count
from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.call import refuse_in_tool
from axe_nb.errors import ConfigError
from axe_nb.front_end import find_variable, make_table
from axe_nb.grids.grid import Grid
from axe_nb.grids.inputs import read_inputs
from axe_nb.grids.page import NAME, list_parts, show_grid
from axe_nb.grids.run import GridOptions, GridRunner
from axe_nb.grids.scoring import Score, Scoring
from axe_nb.grids.variants import make_variants
from axe_nb.maps.budget import BudgetOption
from axe_nb.maps.kept import Resume
from axe_nb.session.drive import Line
from axe_nb.session.overrides import Overrides, merge_options, refuse_steps
from axe_nb.session.session import session

OWN = {"model": "models"}
"""Option of a run → that of a grid in its place."""


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
        resume: continue the same grid where it was interrupted: True = from the history; a path =
            from this file, which keeps each result as its run ends. Runs kept there are not
            repeated.
        display: if True, a notebook shows the table as it fills.
        options: those of `axe_nb.run`, for all runs.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
    """
    runner = make_runner(
        agents, prompt, inputs=inputs, models=models, params=params, repeats=repeats,
        expect=expect, score=score, judge=judge, concurrency=concurrency, executor=executor,
        budget=budget, resume=resume, options=options,
    )  # fmt: skip
    runner.check()
    name = find_variable(runner.grid, "grid") or NAME
    runner.run(make_grid_table(runner, display, name))
    return runner.grid


def make_grid_table(runner: GridRunner, display: bool, name: str) -> Line:
    """Returns what shows a grid as it fills: its table in a notebook, a line in a terminal.

    Args:
        runner: runs the grid.
        display: if False, nothing is shown.
        name: the expression that gives the grid.
    """

    def draw(progress: str) -> dict[str, str]:
        return show_grid(runner.grid, name, note=progress)

    return make_table(runner.grid, draw, partial(list_parts, runner.grid), display)


def make_runner(
    agents: Any,
    prompt: Any,
    *,
    inputs: Any,
    models: Any,
    params: Any,
    repeats: int,
    expect: str | None,
    score: Score | None,
    judge: str | Agent | None,
    concurrency: int,
    executor: object,
    budget: BudgetOption,
    resume: Resume,
    options: Mapping[str, Any],
    names: Mapping[str, Any] | None = None,
    first_line: int = 1,
    is_dry: bool = False,
) -> GridRunner:
    """Returns the runner of a grid; see `grid`.

    Args:
        options: those of each run.
        names: further names of the templates, behind the columns of the inputs.
        first_line: line of the template's first line in its editor.
        is_dry: if True, it is only checked, and nothing is kept.

    Raises:
        ConfigError: an option is invalid.
    """
    refuse_in_tool("grid")
    repeats, concurrency = _read_count("repeats", repeats), _read_count("concurrency", concurrency)
    if score is not None and (not callable(score) or iscoroutinefunction(score)):
        given = "async def" if callable(score) else shown_value(score)
        raise ConfigError(f"score takes a function (result, row), not {given}")
    for name, instead in OWN.items():
        if name in options:
            raise ConfigError(f"a grid takes {instead}, not {name}")
    common = refuse_steps(merge_options(options, session.defaults), "a grid")
    overrides = Overrides.of({**common, "expect": expect})
    made = Grid(
        read_inputs(inputs),
        make_variants(agents, models, params, prompt),
        repeats,
        names,
        first_line,
    )
    scoring = Scoring(expect=expect, score=score, agents_dir=overrides.agents_dir)
    return GridRunner(
        made,
        GridOptions(
            common=common, scoring=scoring, judge=judge, concurrency=concurrency,
            executor=executor, budget=budget, resume=resume, is_dry=is_dry,
        ),
    )  # fmt: skip


def _read_count(name: str, number: object) -> int:
    found = as_count(number)
    if found is None:
        raise ConfigError(f"{name} takes a positive whole number, not {shown_value(number)}")
    return found
