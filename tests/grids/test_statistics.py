"""How sure the figures of a grid are, against published values and by counting."""

from __future__ import annotations

import random
from itertools import product
from statistics import stdev

import pytest

from axe_nb.exploring.grid_outcome import GridRun, Square
from axe_nb.exploring.grid_statistics import (
    find_change_interval,
    find_mean_interval,
    find_share_interval,
    find_sign_chance,
)
from axe_nb.exploring.grid_summary import compare, summarize
from tests.views.runs import done

RESULT = done(text="an answer")

pytestmark = pytest.mark.req("E-6")


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718),
    ],
)  # fmt: skip
def test_the_interval_of_a_share_is_wilsons(
    passed: int, count: int, low: float, high: float
) -> None:
    """The values of Newcombe (1998), Statistics in Medicine 17, table I, method 3."""
    found = find_share_interval(passed, count)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


def test_nothing_is_known_without_runs_and_all_is_never_certain() -> None:
    assert find_share_interval(0, 0) == (0, 1)
    assert find_share_interval(3, 3).high == 1
    assert find_share_interval(3, 3).low < 0.5


def test_the_sign_test_counts_all_equally_likely_outcomes() -> None:
    better, worse = 7, 1
    outcomes = [sum(signs) for signs in product((0, 1), repeat=better + worse)]
    as_clear = sum(count <= worse or count >= better for count in outcomes)
    assert find_sign_chance(better, worse) == as_clear / len(outcomes)
    assert find_sign_chance(worse, better) == find_sign_chance(better, worse)
    assert find_sign_chance(0, 0) == find_sign_chance(4, 4) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(0.5, 0.5), (0.9, 0.3), (0.95, 0.9), (0.99, 0.97), (0.99, 0.99), (0.999, 0.9)],
)
@pytest.mark.parametrize("count", [10, 20, 50])
def test_the_interval_of_a_difference_of_shares_holds_the_true_one(
    count: int, first: float, second: float
) -> None:
    """Also where failures are rare, so that most samples have none."""
    draw = random.Random(7)
    held = 0
    for _ in range(500):
        changes = [float((draw.random() < second) - (draw.random() < first)) for _ in range(count)]
        found = find_change_interval(changes)
        assert found is not None
        held += found.low <= second - first <= found.high
    assert held >= 0.92 * 500


def test_the_interval_of_a_difference_of_shares_is_bonett_and_price_s() -> None:
    """Their formula, with the counts of 5 inputs better, 1 worse and 14 the same."""
    better, worse, count = 5, 1, 20
    one, other = (better + 1) / (count + 2), (worse + 1) / (count + 2)
    half = 1.959964 * ((one + other - (one - other) ** 2) / (count + 2)) ** 0.5
    found = find_change_interval([1.0] * better + [-1.0] * worse + [0.0] * 14)
    assert found == pytest.approx((one - other - half, one - other + half))


def test_where_both_did_the_same_everywhere_a_difference_is_still_possible() -> None:
    low, high = find_change_interval([0.0] * 10) or (0, 0)
    assert low < -0.2
    assert high > 0.2
    assert find_change_interval([0.0] * 9) is None
    assert find_change_interval([1.0] * 10) == (pytest.approx(0.52, abs=0.01), 1.0)


@pytest.mark.parametrize("count", [10, 30, 200])
def test_the_interval_of_a_mean_score_holds_the_true_one(count: int) -> None:
    draw = random.Random(3)
    samples = [[draw.gauss(5, 2) for _ in range(count)] for _ in range(500)]
    found = [find_mean_interval(values) for values in samples]
    assert sum(one is not None and one.low <= 5 <= one.high for one in found) >= 0.92 * 500


@pytest.mark.parametrize(("first", "second"), [(0.999, 0.9), (0.7, 0.7), (0.95, 0.9)])
@pytest.mark.parametrize("count", [10, 50])
def test_the_interval_of_scores_of_0_and_1_is_that_of_shares(
    count: int, first: float, second: float
) -> None:
    """Student's holds the true one less often where failures are rare."""
    draw = random.Random(7)
    held = 0
    for _ in range(500):
        found = compare(
            [_score(draw.random() < first) for _ in range(count)],
            [_score(draw.random() < second) for _ in range(count)],
            ("a", "b"),
        ).score_interval
        assert found is not None
        held += found.low <= second - first <= found.high
    assert held >= 0.92 * 500


def test_scores_that_are_few_or_all_the_same_have_no_interval() -> None:
    assert find_mean_interval([1.0, 2.0, 4.0] * 3) is None
    assert find_mean_interval([2.0] * 10) is None
    changes = [number / 10 + 0.1 - number / 10 for number in range(10)]
    assert len(set(changes)) > 1, "equal in decimals, not in binary"
    assert find_mean_interval(changes) is None


def test_the_interval_of_a_mean_score_is_students() -> None:
    """The quantile of 9 degrees of freedom is 2.2622, that of 99 is 1.9842."""
    for count, quantile in ((10, 2.2622), (100, 1.9842)):
        values = [float(number) for number in range(count)]
        low, high = find_mean_interval(values) or (0, 0)
        assert (high - low) / 2 == pytest.approx(quantile * stdev(values) / count**0.5, rel=1e-3)


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


def test_two_inputs_that_pass_in_all_of_fifty_repeats_are_two_inputs() -> None:
    assert summarize("a", [_repeat(True, 50)] * 2).interval == find_share_interval(2, 2)


def test_the_repeats_of_a_single_input_tell_of_this_input() -> None:
    assert summarize("a", [_repeat(True, 50)]).interval == find_share_interval(50, 50)


def _score(score: float) -> Square:
    run = GridRun(input="", variant="a", repeat=1, result=RESULT, passed=True, score=float(score))
    return Square("", "a", [run])


def _repeat(passed: bool, repeats: int) -> Square:
    runs = [
        GridRun(input="", variant="a", repeat=number + 1, result=RESULT, passed=passed)
        for number in range(repeats)
    ]
    return Square("", "a", runs)
