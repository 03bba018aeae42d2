"""Grids whose answers are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axe_nb import Usage
from axe_nb.exploring.grid import Grid
from axe_nb.exploring.grid_statistics import GridRun
from axe_nb.exploring.run_grid import make_variants, read_inputs
from tests.views.runs import done


def fill(inputs: Any = None, repeats: int = 1, **answers: Sequence[str | float | None]) -> Grid:
    """A grid of variants with an answer for each input, and then for each of its repeats.

    A number is a score, of which 0 has not passed; of texts only `right` has. None is no run.
    """
    most = max(map(len, answers.values())) // repeats
    rows = read_inputs(inputs or [f"input {number}" for number in range(most)])
    grid = Grid(rows, make_variants(list(answers), None, None, "Do {{ input }}"), repeats)
    for column, (name, given) in enumerate(answers.items()):
        for number, answer in enumerate(given):
            repeat, row = divmod(number, len(rows))
            score = float(answer == "right") if isinstance(answer, str) else answer
            if score is None:
                continue
            result = done(text=str(answer), agent=name, usage=Usage(10, 5), turns=1)
            run = GridRun(
                input=grid.inputs[row], variant=name, repeat=repeat + 1, result=result,
                passed=score > 0, score=score,
            )  # fmt: skip
            grid.add(row, column, run)
    return grid
