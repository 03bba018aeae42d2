"""What axe_nb costs in counts: no clock, so that a bound holds on every machine and can fail.

The tasks are those of the comparison (`peers/table.py`), by axe_nb alone, in a process of its own,
with a model on loopback that counts what reaches it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks.peers.run import Sample, compare
from tests.benchmarks.peers.table import AT_ONCE, CHAIN, CONTENDERS, MANY, TASKS, Task
from tests.bootstrap import say

KEPT_RUNS = 40
ONE_RUN = Task("fan_out_10", "fan_out", (10, 0), 12, 1, 1)


Bound: TypeAlias = tuple[int, int]
"""Least and most of a count."""


def exactly(count: int) -> Bound:
    return count, count


def at_most(count: int) -> Bound:
    return 0, count


BOUNDS: Mapping[str, Mapping[str, Bound]] = {
    "first": {
        "requests": exactly(1), "connections": exactly(1), "bytes": at_most(70),
        "import_modules": at_most(45),  # reached: 40; httpx alone is 200
    },
    "chain": {
        "requests": exactly(CHAIN), "connections": exactly(0), "bytes": at_most(250_000),
    },
    "fan_out_10": {
        "requests": exactly(12), "connections": exactly(0), "bytes": at_most(4_000),
    },
    "fan_out_100": {
        "requests": exactly(102), "connections": exactly(0), "bytes": at_most(28_000),
    },
    # its runs begin one after another, so the machine decides how many are under way at once
    "many": {"requests": exactly(MANY), "bytes": at_most(15_000)},
    "go_on_10": {"requests": exactly(1), "connections": exactly(0), "bytes": at_most(900)},
    "go_on_1000": {
        "requests": exactly(1), "connections": exactly(0), "bytes": at_most(86_000),
        "threads": at_most(3), "modules": at_most(560),
    },
    "all": {"connections": at_most(100 + AT_ONCE)},  # on the caller's loop, on that of map
    "kept": {"objects": at_most(6_000)},  # 380 of each run, were all of them kept
}  # fmt: skip
"""Row → what is counted in a round by a warm process (`first`: a new one) → its bounds. `all`:
all rounds together; `kept`: objects that are there after KEPT_RUNS more fan-outs of 10."""


def count() -> Iterator[tuple[str, Sample]]:
    """(row, counts)."""
    ours, opened = CONTENDERS[0], 0
    with compare({ours.name: Path(sys.executable)}) as comparison:
        yield "first", comparison.first(ours)
        for task in TASKS:
            opened += comparison.warm(ours, task)["connections"]
            sample = comparison.warm(ours, task)
            opened += sample["connections"]
            yield task.name, sample
        yield "all", {"connections": opened}
        found = [comparison.warm(ours, ONE_RUN)["objects"] for _ in range(KEPT_RUNS + 10)]
        # the least of ten counts, as runs wait to be written
        yield "kept", {"objects": max(0, int(min(found[-10:]) - min(found[:10])))}


def check(row: str, sample: Sample, bounds: Mapping[str, Bound]) -> list[str]:
    """Prints the counts of a row; returns those that are out of their bounds."""
    broken = []
    for what, (least, most) in bounds.items():
        found = sample[what]
        wanted = f"{least}" if least == most else f"at most {most:,}"
        is_within = least <= found <= most
        say(f"{row:12} {what:15} {found:9,}  {wanted:18} {'' if is_within else 'BROKEN'}".rstrip())
        if not is_within:
            broken.append(f"{row}: {found:,} {what}, not {wanted}")
    return broken


def main() -> int:
    """Exit code: 1 if a count is out of its bounds."""
    broken = [problem for row, sample in count() for problem in check(row, sample, BOUNDS[row])]
    for problem in broken:
        say(problem)
    return int(bool(broken))
