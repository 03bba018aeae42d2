"""How sure the figures of a grid are, against published values and by counting."""

from __future__ import annotations

import random
from itertools import product

import pytest

from axe_nb.grids.statistics import find_mean_interval, find_share_interval, find_sign_chance

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


def test_the_interval_of_a_mean_holds_the_true_one_about_as_often_as_it_says() -> None:
    draw = random.Random(3)
    held = 0
    for _ in range(40):
        low, high = find_mean_interval([draw.gauss(5, 2) for _ in range(30)]) or (0, 0)
        held += low <= 5 <= high
    assert held >= 34


def test_the_interval_of_a_mean_is_the_same_each_time_and_needs_ten_values() -> None:
    values = [1.0, 0.0, -1.0, 2.5] * 3
    assert find_mean_interval(values) == find_mean_interval(values)
    assert find_mean_interval([1.0] * 9) is None, "a bootstrap of few values claims too much"
    assert find_mean_interval([2.0] * 10) == (2.0, 2.0)


def test_the_interval_of_thousands_of_values_goes_on_from_that_of_fewer() -> None:
    draw = random.Random(5)
    values = [draw.gauss(5, 2) for _ in range(1001)]
    some, all_of_them = find_mean_interval(values[:1000]), find_mean_interval(values)
    assert some is not None
    assert all_of_them is not None
    assert all_of_them == pytest.approx(some, abs=0.02)
    assert find_mean_interval([*values] * 100) is not None
