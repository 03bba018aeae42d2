"""What a grid says first: which variant is better, and how sure that is."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from axe_nb.grids.grid import Grid
from axe_nb.grids.inputs import read_inputs
from axe_nb.grids.outcome import GridRun
from axe_nb.grids.variants import make_variants
from axe_nb.grids.verdict import compare_columns, write_verdicts
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


def test_a_clear_difference_of_two_is_named_with_its_chance(result: RunResult) -> None:
    grid = fill(result, short=[0] * 8 + [1, 1], long=[1] * 10)
    assert write_verdicts(grid) == [
        "long is better than short: better on 8 of 10 inputs, worse on 0 (p = 0.0078)"
    ]


def test_a_difference_that_chance_can_make_is_not_called_better(result: RunResult) -> None:
    grid = fill(result, short=[0] * 5 + [1] * 5, long=[1] * 8 + [0] * 2)
    assert write_verdicts(grid) == [
        "not sure that long is better than short: better on 5 of 10 inputs, worse on 2 (p = 0.45)"
    ]


def test_too_few_inputs_are_named_with_the_number_that_is_needed(result: RunResult) -> None:
    assert write_verdicts(fill(result, short=[0, 0, 1, 1], long=[1] * 4)) == [
        "not sure that long is better than short: better on 2 of 4 inputs, worse on 0 (p = 0.5); "
        "4 inputs are too few, at least 6 are needed"
    ]
    # two inputs, each of them worse on one: neither is ahead
    assert write_verdicts(fill(result, short=[0, 1], long=[1, 0]))[0].startswith(
        "not sure which is better, short or long: long is better on 1 of 2 inputs, worse on 1"
    )


def test_what_did_the_same_is_no_difference(result: RunResult) -> None:
    assert write_verdicts(fill(result, short=[1, 0], long=[1, 0])) == [
        "no difference: all variants passed equally often on each of 2 inputs"
    ]


def test_the_best_of_several_is_held_against_all_comparisons(result: RunResult) -> None:
    """With three variants there are three pairs: a chance of 0.03 is not rare among them."""
    grid = fill(result, low=[0] * 12, mid=[0] * 6 + [1] * 6, best=[1] * 12)
    assert write_verdicts(grid) == [
        "best is better than low; not sure that it is better than mid "
        "(p ≤ 0.05, corrected for 3 comparisons)"
    ]
    grid = fill(result, low=[0] * 12, mid=[0] * 12, best=[1] * 12)
    assert write_verdicts(grid) == [
        "best is better than each of the other 2 (p ≤ 0.05, corrected for 3 comparisons)"
    ]
    grid = fill(result, low=[0, 1, 1], mid=[1, 1, 0], best=[1] * 3)
    assert write_verdicts(grid) == [
        "not sure which is best: best did best, but that may be chance; "
        "3 inputs are too few, at least 7 are needed"
    ]


def test_several_that_did_best_are_named_together(result: RunResult) -> None:
    grid = fill(result, low=[0] * 12, one=[1] * 12, other=[1] * 12)
    assert write_verdicts(grid) == [
        "one, other are better than low (p ≤ 0.05, corrected for 3 comparisons)"
    ]


def test_graded_scores_have_a_sentence_of_their_own(result: RunResult) -> None:
    grid = fill(result, short=[0.2] * 6, long=[0.7] * 6)
    said = "long is better than short: better on 6 of 6 inputs, worse on 0 (p = 0.031)"
    assert write_verdicts(grid) == [f"score: {said}"]
    grid = fill(result, short=[0] + [0.2] * 5, long=[0.7] * 6)
    passed, scored = write_verdicts(grid)
    assert passed.startswith("passed: not sure that long is better than short")
    assert scored == f"score: {said}"


def test_only_inputs_that_all_variants_have_runs_of_count(result: RunResult) -> None:
    grid = fill(result, short=[0] * 6 + [1] * 4, long=[1] * 6)
    assert "better on 6 of 6 inputs" in write_verdicts(grid)[0]
    assert write_verdicts(fill(result, short=[None, 1], long=[1])) == []


def test_one_variant_has_no_rival(result: RunResult) -> None:
    assert write_verdicts(fill(result, only=[1, 0])) == []


def test_repeats_do_not_make_it_surer(result: RunResult) -> None:
    grid = fill(result, short=[0, 1], long=[1, 1])
    again = Grid(grid.rows, grid.choices, 9)
    for (row, column, _), run in grid.list_places():
        for repeat in range(1, 10):
            again.add(row, column, replace(run, repeat=repeat))
    assert write_verdicts(again) == write_verdicts(grid)


def test_the_better_one_is_never_worse_on_more_inputs(result: RunResult) -> None:
    """One large gain lifts the mean; nine small losses are nine losses."""
    grid = fill(result, a=[0.9] + [0.5] * 9, b=[0.1] + [0.51] * 9)
    assert write_verdicts(grid) == [
        "score: not sure which is better, a or b: b is better on 9 of 10 inputs, worse on 1 "
        "(p = 0.021), but its mean is lower"
    ]
    grid = fill(result, a=[0.9] + [0.5] * 12, b=[0.1] + [0.51] * 12, c=[0.05] * 13)
    [said] = write_verdicts(grid)
    assert said.startswith("score: a is better than c; not sure that it is better than b")


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
