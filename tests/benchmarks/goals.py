"""`python -m tests.benchmarks.goals`: rows of goals.md that plain httpx is measured beside.

axe_nb and httpx run the tasks of the comparison (`peers/table.py`) in processes of this
environment, in turns. Each row says whether it is within its gate and goal.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from statistics import median

from tests.benchmarks.peers.run import measure_all
from tests.benchmarks.peers.table import CHAIN, CONTENDERS, MODEL_SECONDS

IDEAL = 3 * MODEL_SECONDS
"""Seconds of a fan-out: the lead's first turn, those of its children, its second."""

COPIES = 2000


def row(what: str, measured: str, value: float, gate: float, goal: float, unit: str) -> None:
    """Prints a row, and whether it is within the gate and the goal."""
    verdict = "goal" if value <= goal else "gate" if value <= gate else "MISSED"
    print(f"{what:25} {measured:48} gate {gate:g}{unit}, goal {goal:g}{unit}: {verdict}")


def make_agents() -> float:
    """Seconds of CPU of an agent with a tool, the least of nine rounds."""
    from axe_nb import Agent
    from axe_nb.tools.tool import Tool

    async def nothing(ctx: object, arguments: object) -> str:
        return "ok"

    took = []
    for _ in range(9):
        gc.collect()
        began = time.process_time()
        made = [
            Agent("one", "openai/x", tools=(Tool("nothing", "Nothing.", {}, nothing, "read"),))
            for _ in range(COPIES)
        ]
        took.append((time.process_time() - began) / len(made))
    return min(took)


def main() -> None:
    found = measure_all({one.name: Path(sys.executable) for one in CONTENDERS[:2]})

    def take(task: str, figure: str) -> tuple[float, float]:
        """The medians of axe_nb and of httpx; of new processes the least."""
        typical = min if task in ("first", "cold") else median
        ours, theirs = (
            typical([sample[figure] for sample in found[task][one.name]]) for one in CONTENDERS[:2]
        )
        return ours, theirs

    ours, theirs = (1000 * one for one in take("first", "import_cpu"))
    row("import, CPU", f"{ours:.0f} ms, httpx {theirs:.0f} ms", ours, 20, 12, " ms")
    for what, task, turns, gate, goal in (
        ("first answer of a process", "first", 1, 1.6, 1.4),
        ("one turn with a tool call", "chain", CHAIN, 1.5, 1.2),
    ):
        ours, theirs = (1e6 * one / turns for one in take(task, "seconds"))
        shown = f"{ours:,.0f} µs, httpx {theirs:,.0f} µs: {ours / theirs:.2f} x"
        row(what, shown, ours / theirs, gate, goal, " x httpx")
    for children, gate, goal in ((10, 1.2, 1.1), (100, 2.2, 1.6)):
        ours, theirs = (one / IDEAL for one in take(f"fan_out_{children}", "seconds"))
        shown = f"{ours:.2f} x ideal, httpx {theirs:.2f} x"
        row(f"fan-out of {children}", shown, ours, gate, goal, " x")
    ours, theirs = take("cold", "seconds")
    row("fan-out of 1000, cold", f"{ours:.2f} s, httpx {theirs:.2f} s", ours, 2.0, 1.4, " s")
    ours, theirs = (one / 1e6 for one in take("cold", "grown"))
    row("memory growth at 1000", f"{ours:.0f} MB, httpx {theirs:.0f} MB", ours, 60, 40, " MB")
    ours = 1e6 * make_agents()
    row("one agent with one tool", f"{ours:.1f} µs", ours, 100, 50, " µs")


if __name__ == "__main__":
    main()
