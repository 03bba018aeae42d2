"""`python -m tests.benchmarks.diff [N]`: time of `a.diff(b)`, CPU, the best of N.

Two trees of 30 turns with 8 children (the row of goals.md), which differ in one change, and in
everything; the same with 30 turns in each child; and one run of a thousand turns. Beside it, the
time to show the difference.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from axe_nb import RunResult
from tests.diffs.trees import Mutator, make_run, make_tree, renumber

TURNS = 30


def make_large(seed: int, children: int, turns: int) -> RunResult:
    """A run of 30 turns whose children have many."""
    chance = random.Random(seed)
    runs = [
        make_run(chance, f"helper{n}", f"Task {n}", [[]] * (turns - 1)) for n in range(children)
    ]
    asked: list[list[RunResult]] = [[] for _ in range(TURNS - 1)]
    for number, run in enumerate(runs):
        asked[3 * number + 1].append(replace(run, call_id=f"child{number}"))
    return renumber(make_run(chance, "lead", "All", asked))


def make_long(seed: int) -> RunResult:
    return renumber(make_run(random.Random(seed), "lead", "All", [[]] * 999))


def best(call: Callable[[], Any], rounds: int) -> float:
    """Milliseconds of CPU."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times) * 1000


def measure(what: str, a: RunResult, b: RunResult, rounds: int) -> str:
    diff = a.diff(b)
    compared = best(lambda: a.diff(b), rounds)
    shown = best(lambda: diff._repr_mimebundle_(), rounds)
    turns = sum(len(run.log) for run in a.walk())
    return (
        f"{what:<45} {turns:5} turns  {len(diff.changes):5} changes  "
        f"diff {compared:6.1f} ms  shown {shown:6.1f} ms"
    )


def main(rounds: int) -> None:
    small, large = make_tree(), make_large(1, 8, 30)
    one = Mutator(small, 3).mutate("more calls").tree
    print(measure("30 turns, 8 children, one change", small, one, rounds))
    print(measure("30 turns, 8 children, all different", small, make_tree(2), rounds))
    other = Mutator(large, 3).mutate("arguments").tree
    print(measure("30 turns, 8 children of 30 turns, one change", large, other, rounds))
    print(measure("30 turns, 8 children of 30, all different", large, make_large(2, 8, 30), rounds))
    print(measure("1000 turns, all different", make_long(1), make_long(2), rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
