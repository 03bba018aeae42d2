"""Counts of the benchmarks are within their bounds; contenders are measured in turns."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import structure
from tests.benchmarks.peers.model import model, take_counts
from tests.benchmarks.peers.run import Failed, compare
from tests.benchmarks.peers.table import CONTENDERS, TASKS, Task

OURS = CONTENDERS[0]


def test_what_axe_nb_costs_is_within_its_bounds() -> None:
    found = {}
    for row, sample in structure.count():
        assert structure.check(row, sample, structure.BOUNDS[row]) == []
        found[row] = sample
    assert set(found) == set(structure.BOUNDS)


def test_a_wrong_answer_and_a_process_that_ends_are_failures() -> None:
    with compare({OURS.name: Path(sys.executable)}) as comparison:
        with pytest.raises(Failed, match="no_such_function"):
            comparison.warm(OURS, Task("x", "no_such_function", (), 1, 1, 1))
        with pytest.raises(Failed, match=r"^AssertionError: remember: "):
            comparison.warm(OURS, Task("x", "remember", ([],), 1, 1, 1))
        with pytest.raises(Failed, match="fan_out_10: 12 requests, not 13"):
            comparison.warm(OURS, replace(TASKS[1], requests=13))
        assert comparison.warm(OURS, TASKS[1])["requests"] == 12  # a new process
    with model() as url:
        assert take_counts(url).requests == 0
