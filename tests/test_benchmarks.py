"""Counts of the benchmarks are within their bounds; contenders are measured in turns."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import structure
from tests.benchmarks.peers.model import model, take_counts
from tests.benchmarks.peers.run import ROWS, Failed, compare, in_turns, write_table
from tests.benchmarks.peers.table import CONTENDERS, TASKS, Contender, Task

DOCS = Path(__file__).parent.parent / "docs"
OURS = CONTENDERS[0]


def test_what_axe_nb_costs_is_within_its_bounds() -> None:
    found = {}
    for row, sample in structure.count():
        assert structure.check(row, sample, structure.BOUNDS[row]) == []
        found[row] = sample
    assert set(found) == set(structure.BOUNDS)


def test_a_count_out_of_its_bounds_is_said() -> None:
    bounds = {"requests": structure.exactly(12), "connections": structure.at_most(10)}
    within = {"requests": 12, "connections": 7}
    assert structure.check("fan_out_10", within, bounds) == []
    broken = structure.check("fan_out_10", {"requests": 13, "connections": 11}, bounds)
    assert broken == [
        "fan_out_10: 13 requests, not 12",
        "fan_out_10: 11 connections, not at most 10",
    ]


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


def test_the_table_has_the_median_of_each_contender_and_a_dash_for_those_left_out() -> None:
    rows = {row: {"a": [{figure: n} for n in (1, 2, 30)]} for _, row, figure, _ in ROWS}
    rows["first"]["a"] = [{"import_cpu": 0.01, "cpu": 0.2, "grown": 3e7}]
    rows["cold"]["a"] = [{"seconds": 1.5, "grown": 2.5e7}]
    table = list(write_table(["a", "b"], rows))
    assert table[0] == "| | a | b |"
    assert table[2] == "| import: CPU, ms | 10 | – |"
    assert table[7] == "| 10 sub-agents, at least 150 ms: ms | 2,000 | – |"


def test_the_command_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "--peers", "nothing-like-it"],
        capture_output=True, text=True, timeout=60, cwd=DOCS.parent,
    )  # fmt: skip
    assert done.returncode == 2
    assert "nothing-like-it" in done.stderr
