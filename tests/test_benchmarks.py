"""What axe_nb costs in counts, which no machine changes; contenders are measured in turns."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tests import benchmarks
from tests.benchmarks.peers.run import compare
from tests.benchmarks.peers.table import CONTENDERS, TASKS

OURS = CONTENDERS[0]

BYTES = {
    "chain": 250_000, "fan_out_10": 4_000, "fan_out_100": 28_000, "many": 15_000, "go_on_10": 900,
    "go_on_1000": 86_000,
}  # fmt: skip
"""Task → most bytes that all requests of a round may have."""


def test_what_axe_nb_costs_is_within_its_bounds() -> None:
    with compare({OURS.name: Path(sys.executable)}) as comparison:
        first = comparison.first(OURS)
        assert (first["requests"], first["connections"]) == (1, 1)
        assert first["import_modules"] <= 45, "httpx alone is 200"
        for task in TASKS:
            comparison.warm(OURS, task)
            sample = comparison.warm(OURS, task)
            assert sample["bytes"] <= BYTES[task.name]
            # the machine decides how many runs of a map are under way at once
            assert task.name == "many" or sample["connections"] == 0, task.name
        assert sample["threads"] <= 3
        assert sample["modules"] <= 560
        found = [comparison.warm(OURS, TASKS[1])["objects"] for _ in range(30)]
        # the least of ten, as runs wait to be written; each run has 380
        assert min(found[-10:]) - min(found[:10]) < 6_000, "none is kept"


def test_every_benchmark_can_be_imported() -> None:
    names = [path.stem for path in Path(benchmarks.__file__).parent.glob("[a-z]*.py")]
    assert "goals" in names
    for name in names:
        importlib.import_module(f"{benchmarks.__name__}.{name}")
