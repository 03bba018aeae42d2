"""Counts of the benchmarks are within their bounds; the comparison page shows its kept file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import structure
from tests.benchmarks.peers.measure import Failed, in_turns
from tests.benchmarks.peers.model import model, take_counts
from tests.benchmarks.peers.run import compare
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
    with compare({OURS.name: Path(sys.executable)}, []) as comparison:
        with pytest.raises(Failed, match="no_such_function"):
            comparison.warm(OURS, Task("x", "no_such_function", (), 1, 1, 1))
        with pytest.raises(Failed, match=r"^AssertionError: remember: "):
            comparison.warm(OURS, Task("x", "remember", (1,), 1, 1, 1))
        with pytest.raises(Failed, match="fan_out_10: 12 requests, not 13"):
            comparison.warm(OURS, replace(TASKS[1], requests=13))
        assert comparison.warm(OURS, TASKS[1])["requests"] == 12  # a new process
    with model() as url:
        assert take_counts(url).requests == 0


@pytest.fixture
def make_comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS))
    import make_comparison

    return make_comparison


@pytest.fixture
def found(make_comparison: Any) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(make_comparison.FOUND.read_text("utf-8"))
    return kept


def test_the_page_and_the_plot_are_made_of_the_kept_figures(
    make_comparison: Any, found: dict[str, Any]
) -> None:
    text = make_comparison.FILE.read_text("utf-8")
    assert make_comparison.page(found, text) == text, "run `python docs/make_comparison.py`"
    assert len(make_comparison.BLOCK.findall(text)) == text.count("<!-- measured")
    assert make_comparison.fingerprint(found) in make_comparison.PLOT.read_text("utf-8")


def test_other_figures_change_the_page_and_the_plot(
    make_comparison: Any, found: dict[str, Any]
) -> None:
    text, mark = make_comparison.FILE.read_text("utf-8"), make_comparison.fingerprint(found)
    for sample in found["rows"]["chain"]["axe_nb"]:
        sample["cpu"] = 1000.0
    changed = make_comparison.page(found, text)
    assert re.search(r"^- CPU of a turn: .*axe_nb 20,000 ms$", changed, re.MULTILINE)
    assert make_comparison.fingerprint(found) != mark


def test_the_kept_figures_are_of_all_contenders_in_one_run(found: dict[str, Any]) -> None:
    assert set(found["contenders"]) == {one.name for one in CONTENDERS}
    assert found["command"] == "python -m tests.benchmarks --peers"
    for one in CONTENDERS:
        if "problem" not in found["contenders"][one.name]:
            missing = [task for task in one.tasks if one.name not in found["rows"][task]]
            assert not missing, f"{one.name}: {missing}"


def test_each_feature_of_the_page_is_of_known_libraries_and_tried_claims(
    make_comparison: Any, found: dict[str, Any]
) -> None:
    features = make_comparison.tomllib.loads(make_comparison.FEATURES.read_text("utf-8"))["feature"]
    names = {one.name for one in CONTENDERS} - {"axe_nb"}
    tried = {claim for claims in found["claims"].values() for claim in claims}
    for feature in features:
        assert set(feature.get("read", ())) <= names, feature
        assert feature.get("claim") in {None, *tried}, feature
    assert tried <= {feature.get("claim") for feature in features}


def test_the_command_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "--peers", "nothing-like-it"],
        capture_output=True, text=True, timeout=60, cwd=DOCS.parent,
    )  # fmt: skip
    assert done.returncode == 2
    assert "nothing-like-it" in done.stderr
