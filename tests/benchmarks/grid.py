"""`python -m tests.benchmarks.grid`: what a square of a grid costs beyond its run in a map.

Scripted runs, so that only our own work is measured; pairs that take turns, median of differences.
"""

from __future__ import annotations

import os
import time
from statistics import median

import axe_nb
from axe_nb import Agent
from axe_nb.exploring.grid_page import show_grid

VARIANTS, INPUTS, REPEATS, PAIRS = 12, 5, 3, 7


def main() -> None:
    os.environ.setdefault("AXE_NB_HISTORY", "0")
    axe_nb.script("echo")(lambda request: request.last)
    agents = [Agent(name=f"a{n}", model="script/echo") for n in range(VARIANTS)]
    inputs = [f"input {n}" for n in range(INPUTS)]
    squares = VARIANTS * INPUTS * REPEATS
    differences, tables = [], []
    for _ in range(PAIRS):
        began = time.perf_counter()
        results = [
            result
            for agent in agents
            for result in axe_nb.map(agent, inputs * REPEATS, display=False)
        ]
        between = time.perf_counter()
        grid = axe_nb.grid(
            agents, "{{ input }}", inputs=inputs, repeats=REPEATS, score=score, display=False
        )
        ended = time.perf_counter()
        show_grid(grid)
        tables.append(time.perf_counter() - ended)
        assert len(results) == len(grid) == squares
        differences.append((ended - between) - (between - began))
    over = 1000 * median(differences) / squares
    print(f"{squares} squares: {over:.2f} ms each over map (gate 1 ms, goal 0.3 ms)")
    print(f"the table, once: {1000 * median(tables):.0f} ms")


def score(result: axe_nb.RunResult, row: object) -> bool:
    return result.ok


if __name__ == "__main__":
    main()
