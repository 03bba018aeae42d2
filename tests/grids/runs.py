"""Grids of real runs, with a model that answers from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import axe_nb
from axe_nb import Agent, Request
from axe_nb.exploring.grid import Grid
from axe_nb.exploring.grid_squares import GridRun
from axe_nb.exploring.grid_variants import make_variants, read_inputs


def make_grid(
    answers: Mapping[str, Sequence[str]], inputs: Any, right: str = "right", repeats: int = 1
) -> Grid:
    """A grid whose variants answer each input, and each repeat of it, as their list says."""
    for name, said in answers.items():
        left = list(said)

        def reply(request: Request, left: list[str] = left) -> str:
            return left.pop(0)

        axe_nb.script(name)(reply)
        axe_nb.define(Agent(name=name, model=f"script/{name}", system_prompt="Answer."))
    rows = read_inputs(inputs)
    grid = Grid(rows, make_variants(list(answers), None, None, "Do {{ input }}"), repeats)
    for repeat, row, column in product(range(repeats), range(len(rows)), range(len(answers))):
        variant = grid.choices[column]
        result = axe_nb.run(variant.agent, f"Do {rows[row]['input']}", display=False)
        passed = right in result.text
        run = GridRun(
            input=grid.inputs[row], variant=variant.label, repeat=repeat + 1, result=result,
            passed=passed, score=float(passed),
        )  # fmt: skip
        grid.add(row, column, run)
    return grid
