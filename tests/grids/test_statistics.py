"""How sure a grid is: published values, simulations, and what its first line says."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest

from axe_nb.exploring.grid import Grid, write_verdicts
from axe_nb.exploring.grid_statistics import (
    GridRun,
    Square,
    compare_columns,
    find_share_interval,
    find_sign_chance,
    summarize,
)
from tests.grids.grids import fill
from tests.views.runs import done

pytestmark = pytest.mark.req("E-6")


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718), (0, 0, 0, 1), (3, 3, 0.4385, 1),
    ],
)  # fmt: skip
def test_the_interval_is_wilsons(passed: int, count: int, low: float, high: float) -> None:
    """The first four are of Newcombe (1998), Statistics in Medicine 17, table I, method 3."""
    found = find_share_interval(passed, count)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


def test_the_sign_test_counts_all_equally_likely_outcomes() -> None:
    better, worse = 7, 1
    outcomes = [sum(signs) for signs in product((0, 1), repeat=better + worse)]
    as_clear = sum(count <= worse or count >= better for count in outcomes)
    assert find_sign_chance(better, worse) == as_clear / len(outcomes)
    assert find_sign_chance(worse, better) == find_sign_chance(better, worse)
    assert find_sign_chance(0, 0) == find_sign_chance(4, 4) == 1


@pytest.mark.parametrize("repeats", [1, 8])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_the_interval_of_a_share_holds_that_of_new_inputs_however_often_each_is_repeated(
    share: float, repeats: int
) -> None:
    """Some inputs always pass and the others never do: repeats say nothing new."""
    draw = random.Random(11)
    held = 0
    for _ in range(500):
        inputs = [draw.random() < share for _ in range(12)]
        low, high = summarize("a", [_repeat(passed, repeats) for passed in inputs]).interval
        held += low <= share <= high
    assert held >= 0.92 * 500

    assert summarize("a", [_repeat(True, 50)]).interval == find_share_interval(50, 50)


def _repeat(passed: bool, repeats: int) -> Square:
    runs = [
        GridRun(input="", variant="a", repeat=number + 1, result=done(), passed=passed)
        for number in range(repeats)
    ]
    return Square("", "a", tuple(runs))


LONG, NOT_SURE = "long is better than short: better on", "not sure that long is better than short:"
OF_THREE = "(p ≤ 0.05, corrected for 3 comparisons)"
FEW = "too few inputs, at least 6 are needed"
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
        "not sure that short is better than long: better on 2 of 4 inputs, worse on 2 "
        f"(p = 1); {FEW}"),
    "the same": (
        {"short": [1, 0], "long": [1, 0]},
        "no difference: all variants passed equally often on each of 2 inputs"),
    # with three variants there are three pairs: a chance of 0.03 is not rare among them
    "the best of three, one of them close": (
        {"low": [0] * 12, "mid": [0] * 6 + [1] * 6, "best": [1] * 12},
        f"best is better than low; not sure about mid {OF_THREE}"),
    "the best of three": (
        {"low": [0] * 12, "mid": [0] * 12, "best": [1] * 12},
        f"best is better than low, mid {OF_THREE}"),
    "the best of four": (
        {"low": [0] * 12, "mid": [0] * 12, "next": [0] * 12, "best": [1] * 12},
        f"best is better than all 3 others {OF_THREE.replace('3', '6')}"),
    "too few inputs for three": (
        {"low": [0, 1, 1], "mid": [1, 1, 0], "best": [1] * 3},
        "not sure which is best: best did best, but that may be chance; "
        "too few inputs, at least 7 are needed"),
    "several are not surely best": (
        {"low": [0, 1, 1], "one": [1] * 3, "other": [1] * 3},
        "not sure which is best: one, other did equally well, and better than the rest, "
        "but that may be chance; too few inputs, at least 7 are needed"),
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
        "score: not sure that a is better than b: better on 1 of 10 inputs, worse on 9 "
        "(p = 0.021)"),
    "nor of three": (
        {"a": [0.9] + [0.5] * 12, "b": [0.1] + [0.51] * 12, "c": [0.05] * 13},
        f"score: a is better than c; not sure about b {OF_THREE}"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_the_first_line_says_which_is_better_and_how_sure_that_is(case: str) -> None:
    scores, said = SAID[case]
    assert "\n".join(write_verdicts(fill(**scores))) == said


def test_means_that_are_equal_in_decimals_are_equal() -> None:
    """In binary, the mean of 0.1, 0.2 and 0.3 is less than that of 0.2, 0.2 and 0.2."""
    grid = fill(a=[0.1] * 10, b=[0.2] * 10)
    again = Grid(grid.rows, grid.choices, 3)
    for (row, column, _), run in grid.list_places():
        for repeat, score in enumerate(((0.1, 0.2, 0.3), (0.2,) * 3)[column], 1):
            again.add(row, column, replace(run, repeat=repeat, score=score))
    told = "score: no difference: all variants scored the same on each of 10 inputs"
    assert write_verdicts(again) == [told]
    assert again.diff("a", "b").score == 0


MAKERS: dict[str, Callable[[random.Random], float]] = {
    "shares": lambda draw: float(draw.random() < 0.7),
    "repeats": lambda draw: sum(draw.random() < 0.7 for _ in range(3)) / 3,
    "scores": lambda draw: draw.random(),
    "scores with rare losses": lambda draw: -9.0 if draw.random() < 0.05 else draw.random(),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("variants", [2, 3])
def test_of_1000_grids_of_equals_few_name_a_better_one_and_none_against_its_counts(
    make: Callable[[random.Random], float], variants: int
) -> None:
    draw = random.Random(variants)
    names, wrong = "abc"[:variants], 0
    for _ in range(1000):
        columns = {name: [make(draw) for _ in range(12)] for name in names}
        said = compare_columns(names, list(columns.values()), "did the same")
        found = re.match(r"(\S+) is better than ([^;(:]+)", said)
        wrong += found is not None
        for worse in found[2] if found else "":
            if worse in names and worse != found[1]:  # type: ignore[index]
                pairs = list(zip(columns[found[1]], columns[worse], strict=True))  # type: ignore[index]
                assert sum(x > y for x, y in pairs) > sum(x < y for x, y in pairs), said
                assert sum(x for x, _ in pairs) > sum(y for _, y in pairs), said
    assert wrong <= 50
