"""Sequences are aligned by what is in them, in bounded time."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axe_nb.views.compare_runs import align

pytestmark = pytest.mark.req("E-9")

ITEMS = st.lists(st.integers(0, 6), max_size=12)


def pairs(a: list[int] | str, b: list[int] | str) -> list[tuple[int, int]]:
    return align(a, b, lambda i, j: float(a[i] == b[j]))


def test_an_item_more_does_not_shift_the_others() -> None:
    assert pairs("abcdef", "abXcdef") == [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert pairs("aaXaa", "aaaa") == [(0, 0), (1, 1), (3, 2), (4, 3)]


def test_items_that_are_not_equal_are_paired_by_their_likeness() -> None:
    a, b = [10, 20, 30], [31, 9, 21, 33]
    found = align(a, b, lambda i, j: 1 / (1 + abs(a[i] - b[j])) if abs(a[i] - b[j]) < 5 else 0)
    assert found == [(0, 1), (1, 2), (2, 3)]


@given(ITEMS, ITEMS)
def test_pairs_ascend_on_both_sides_and_hold_what_is_equal(a: list[int], b: list[int]) -> None:
    found = pairs(a, b)
    assert all(a[i] == b[j] for i, j in found)
    assert all(i < k and j < n for (i, j), (k, n) in pairwise(found))
    assert pairs(a, a) == [(i, i) for i in range(len(a))]


def test_many_items_take_no_longer_than_their_number() -> None:
    chance = random.Random(0)
    a, b = ([chance.randrange(9) for _ in range(10_000)] for _ in range(2))
    began = time.process_time()
    assert len(pairs(a, b)) > 1000
    assert time.process_time() - began < 6
