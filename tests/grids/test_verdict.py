"""What a grid says first: which variant is better, and how sure that is."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from axe_nb.exploring.grid import Grid
from axe_nb.exploring.grid_inputs import read_inputs
from axe_nb.exploring.grid_outcome import GridRun
from axe_nb.exploring.grid_variants import make_variants
from axe_nb.exploring.grid_verdict import compare_columns, write_verdicts
from axe_nb.results import RunResult
from tests.views.runs import done


@pytest.fixture(scope="module")
def result() -> RunResult:
    return done(text="an answer")


def fill(result: RunResult, **scores: Sequence[float | None]) -> Grid:
    """A grid of variants with a score for each input, which passed unless the score is 0."""
    inputs = range(max(map(len, scores.values())))
    rows = read_inputs([f"input {number}" for number in inputs])
    grid = Grid(rows, make_variants(list(scores), None, None, "Do {{ input }}"), 1)
    for column, (name, given) in enumerate(scores.items()):
        for row, score in enumerate(given):
            if score is not None:
                run = GridRun(
                    input=f"input {row}", variant=name, result=result, passed=score > 0, score=score
                )
                grid.add(row, column, run)
    return grid


LONG, NOT_SURE = "long is better than short: better on", "not sure that long is better than short:"
OF_THREE = "(p ≤ 0.05, corrected for 3 comparisons)"
FEW = "4 inputs are too few, at least 6 are needed"
SAID: dict[str, tuple[dict[str, Sequence[float | None]], str]] = {
    "a clear difference": (
        {"short": [0] * 8 + [1, 1], "long": [1] * 10},
        f"{LONG} 8 of 10 inputs, worse on 0 (p = 0.0078)"),
    "a difference that chance can make": (
        {"short": [0] * 5 + [1] * 5, "long": [1] * 8 + [0] * 2},
        f"{NOT_SURE} better on 5 of 10 inputs, worse on 2 (p = 0.45)"),
    "too few inputs": (
        {"short": [0, 0, 1, 1], "long": [1] * 4},
        f"{NOT_SURE} better on 2 of 4 inputs, worse on 0 (p = 0.5); {FEW}"),
    "neither is ahead": (
        {"short": [0, 0, 1, 1], "long": [1, 1, 0, 0]},
        "not sure which is better, short or long: long is better on 2 of 4 inputs, worse on 2 "
        f"(p = 1); {FEW}"),
    "the same": (
        {"short": [1, 0], "long": [1, 0]},
        "no difference: all variants passed equally often on each of 2 inputs"),
    # with three variants there are three pairs: a chance of 0.03 is not rare among them
    "the best of three, one of them close": (
        {"low": [0] * 12, "mid": [0] * 6 + [1] * 6, "best": [1] * 12},
        f"best is better than low; not sure that it is better than mid {OF_THREE}"),
    "the best of three": (
        {"low": [0] * 12, "mid": [0] * 12, "best": [1] * 12},
        f"best is better than each of the other 2 {OF_THREE}"),
    "too few inputs for three": (
        {"low": [0, 1, 1], "mid": [1, 1, 0], "best": [1] * 3},
        "not sure which is best: best did best, but that may be chance; "
        "3 inputs are too few, at least 7 are needed"),
    "several did best": (
        {"low": [0] * 12, "one": [1] * 12, "other": [1] * 12},
        f"one, other are better than low {OF_THREE}"),
    "graded scores": (
        {"short": [0.2] * 6, "long": [0.7] * 6},
        f"score: {LONG} 6 of 6 inputs, worse on 0 (p = 0.031)"),
    "graded scores, and one that did not pass": (
        {"short": [0] + [0.2] * 5, "long": [0.7] * 6},
        f"passed: {NOT_SURE} better on 1 of 6 inputs, worse on 0 (p = 1)\n"
        f"score: {LONG} 6 of 6 inputs, worse on 0 (p = 0.031)"),
    "inputs that not all have runs of": (
        {"short": [0] * 6 + [1] * 4, "long": [1] * 6},
        f"{LONG} 6 of 6 inputs, worse on 0 (p = 0.031)"),
    "no input that all have runs of": ({"short": [None, 1], "long": [1]}, ""),
    "no rival": ({"only": [1, 0]}, ""),
    # one large gain lifts the mean; nine small losses are nine losses
    "the better one is never worse on more inputs": (
        {"a": [0.9] + [0.5] * 9, "b": [0.1] + [0.51] * 9},
        "score: not sure which is better, a or b: b is better on 9 of 10 inputs, worse on 1 "
        "(p = 0.021), but its mean is lower"),
    "nor of three": (
        {"a": [0.9] + [0.5] * 12, "b": [0.1] + [0.51] * 12, "c": [0.05] * 13},
        f"score: a is better than c; not sure that it is better than b {OF_THREE}"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_the_first_line_says_which_is_better_and_how_sure_that_is(
    case: str, result: RunResult
) -> None:
    scores, said = SAID[case]
    assert "\n".join(write_verdicts(fill(result, **scores))) == said


def test_repeats_do_not_make_it_surer(result: RunResult) -> None:
    grid = fill(result, short=[0, 1], long=[1, 1])
    again = Grid(grid.rows, grid.choices, 9)
    for (row, column, _), run in grid.list_places():
        for repeat in range(1, 10):
            again.add(row, column, replace(run, repeat=repeat))
    assert write_verdicts(again) == write_verdicts(grid)


def test_means_that_are_equal_in_decimals_are_equal(result: RunResult) -> None:
    """In binary, the mean of 0.1, 0.2 and 0.3 is less than that of 0.2, 0.2 and 0.2."""
    grid = fill(result, a=[0.1] * 10, b=[0.2] * 10)
    again = Grid(grid.rows, grid.choices, 3)
    for (row, column, _), run in grid.list_places():
        for repeat in range(3):
            score = ((0.1, 0.2, 0.3)[repeat], 0.2)[column]
            again.add(row, column, replace(run, repeat=repeat + 1, score=score))
    assert write_verdicts(again) == [
        "score: no difference: all variants scored the same on each of 10 inputs"
    ]
    assert again.diff("a", "b").score == 0


def test_the_best_of_three_has_a_higher_mean_than_those_it_is_better_than() -> None:
    columns = [[0.0] + [2.0] * 12, [12.0] + [1.0] * 12, [0.0] * 13]
    said = compare_columns("abc", columns, "did the same")
    assert said.startswith("a is better than c; not sure that it is better than b")


MAKERS: dict[str, Callable[[random.Random], float]] = {
    "shares": lambda draw: float(draw.random() < 0.7),
    "repeats": lambda draw: sum(draw.random() < 0.7 for _ in range(3)) / 3,
    "scores": lambda draw: draw.random(),
    "scores with rare losses": lambda draw: -9.0 if draw.random() < 0.05 else draw.random(),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("variants", [2, 3])
def test_of_1000_grids_of_equals_few_name_a_better_one_and_none_against_its_counts(
    result: RunResult, make: Callable[[random.Random], float], variants: int
) -> None:
    draw = random.Random(variants)
    names, wrong = "abc"[:variants], 0
    for _ in range(1000):
        columns = {name: [make(draw) for _ in range(12)] for name in names}
        said = compare_columns(names, list(columns.values()), "did the same")
        found = re.match(r"(\S+) is better than ([^;(:]+)", said)
        wrong += found is not None
        for worse in found[2].replace("each of the other 2", "abc").strip() if found else "":
            if worse in names and worse != found[1]:  # type: ignore[index]
                pairs = list(zip(columns[found[1]], columns[worse], strict=True))  # type: ignore[index]
                assert sum(x > y for x, y in pairs) > sum(x < y for x, y in pairs), said
                assert sum(x for x, _ in pairs) > sum(y for _, y in pairs), said
    assert wrong <= 50
