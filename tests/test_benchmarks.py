"""Counts of the benchmarks are within their bounds; contenders are measured in turns."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import structure
from tests.benchmarks.peers.model import model, take_counts
from tests.benchmarks.peers.run import Failed, compare, in_turns
from tests.benchmarks.peers.table import CONTENDERS, TASKS, Contender, Task

OURS = CONTENDERS[0]


def test_what_axe_nb_costs_is_within_its_bounds() -> None:
    found = {}
    for row, sample in structure.count():
        assert structure.check(row, sample, structure.BOUNDS[row]) == []
        found[row] = sample
    assert set(found) == set(structure.BOUNDS)


def test_contenders_take_turns_and_one_that_fails_is_left_out() -> None:
    asked: list[str] = []

    def measure(contender: Contender) -> dict[str, int]:
        asked.append(contender.name)
        if contender.name == "httpx" and len(asked) > 5:
            raise Failed("it ended")
        return {"seconds": 9.0 if contender.name == "pydantic-ai" and len(asked) > 6 else 0.1}

    found = in_turns(CONTENDERS[:3], measure, rounds=3, seconds=60)
    names = [one.name for one in CONTENDERS[:3]]
    assert asked[:6] == [*names, *names[1:], names[0]]  # none is always first
    assert {name: len(rounds) for name, rounds in found.items()} == {names[0]: 3, names[2]: 2}


def test_a_wrong_answer_and_a_process_that_ends_are_failures() -> None:
    with compare({OURS.name: Path(sys.executable)}) as comparison:
        with pytest.raises(Failed, match="no_such_function"):
            comparison.warm(OURS, Task("x", "no_such_function", (), 1, 1, 1))
        with pytest.raises(Failed, match=r"^AssertionError: remember: "):
            comparison.warm(OURS, Task("x", "remember", (1,), 1, 1, 1))
        with pytest.raises(Failed, match="fan_out_10: 12 requests, not 13"):
            comparison.warm(OURS, replace(TASKS[1], requests=13))
        assert comparison.warm(OURS, TASKS[1])["requests"] == 12  # a new process
    with model() as url:
        assert take_counts(url).requests == 0
