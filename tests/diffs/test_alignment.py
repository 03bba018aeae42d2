"""Sequences are aligned by what is in them, in bounded time."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axe_nb.diffs.pairing import align

pytestmark = pytest.mark.req("E-9")

ITEMS = st.lists(st.integers(0, 6), max_size=12)


def pairs(a: list[int] | str, b: list[int] | str, cells: int = 10_000) -> list[tuple[int, int]]:
    return align(a, b, lambda i, j: float(a[i] == b[j]), cells)


def test_an_item_more_does_not_shift_the_others() -> None:
    assert pairs("abcdef", "abXcdef") == [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert pairs("aaXaa", "aaaa") == [(0, 0), (1, 1), (3, 2), (4, 3)]


def test_items_that_are_not_equal_are_paired_by_their_likeness() -> None:
    a, b = [10, 20, 30], [31, 9, 21, 33]
    found = align(a, b, lambda i, j: 1 / (1 + abs(a[i] - b[j])) if abs(a[i] - b[j]) < 5 else 0, 99)
    assert found == [(0, 1), (1, 2), (2, 3)]


def longest(a: list[int], b: list[int]) -> int:
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j], best[i][j] + (x == y))
    return best[-1][-1]


@given(ITEMS, ITEMS, st.sampled_from([1, 20, 10_000]))
def test_pairs_ascend_on_both_sides_and_hold_what_is_equal(
    a: list[int], b: list[int], cells: int
) -> None:
    found = pairs(a, b, cells)
    assert all(a[i] == b[j] for i, j in found)
    assert all(i < k and j < n for (i, j), (k, n) in pairwise(found))
    assert cells < 10_000 or len(set(a)) < len(a) or len(found) == longest(a, b)


def test_many_items_that_are_all_different_take_no_longer_than_their_number() -> None:
    chance = random.Random(0)
    a, b = ([chance.randrange(9) for _ in range(30_000)] for _ in range(2))
    compared = 0

    def count(i: int, j: int) -> float:
        nonlocal compared
        compared += 1
        return float(a[i] == b[j])

    began = time.process_time()
    align(a, b, count, 10_000)
    assert compared <= 4 * len(a)
    assert time.process_time() - began < 3, "measured: 0.2 s"
