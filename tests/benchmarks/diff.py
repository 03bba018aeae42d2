"""`python -m tests.benchmarks.diff [N]`: time of `a.diff(b)`, CPU, the best of N.

Two trees of 30 turns with 8 children (the row of goals.md), which differ in one change, and in
everything; and one run of a thousand turns.
"""

from __future__ import annotations

import random
import sys
import time

from axe_nb import RunResult
from tests.benchmarks.goals import row
from tests.diffs.trees import Mutator, make_run, make_tree, renumber


def make_long(seed: int) -> RunResult:
    return renumber(make_run(random.Random(seed), "lead", "All", [[]] * 999))


def measure(what: str, a: RunResult, b: RunResult, rounds: int) -> None:
    times = []
    for _ in range(rounds):
        began = time.process_time()
        diff = a.diff(b)
        times.append(1000 * (time.process_time() - began))
    shown = f"{min(times):.1f} ms, {len(diff.changes)} changes"
    row(what, shown, min(times), 200, 50, " ms")


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    small = make_tree()
    measure("diff of one change", small, Mutator(small, 3).mutate("more calls").tree, rounds)
    measure("diff, all different", small, make_tree(2), rounds)
    measure("diff of 1000 turns", make_long(1), make_long(2), rounds)
