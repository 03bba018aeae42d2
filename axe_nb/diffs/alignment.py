"""Aligns two sequences, so that an item more or less does not shift the others.

Items that are equal, and unique on both sides, are anchors; what lies between them is paired by
likeness, within a bounded number of comparisons. Time is linear in the length, but for a logarithm.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeAlias

MAX_DEPTH = 8
"""Times that a stretch is divided by anchors."""

Likeness: TypeAlias = Callable[[int, int], float]
"""(position in a, position in b) → the gain of pairing them; 0 = they do not belong together."""

Stretch: TypeAlias = tuple[int, int, int, int]
"""Begin and end in a, begin and end in b."""

PAIR, ONLY_A, ONLY_B = range(3)


def align(
    a: Sequence[Hashable], b: Sequence[Hashable], likeness: Likeness, max_cells: int
) -> list[tuple[int, int]]:
    """Returns the pairs of positions that belong together, ascending on both sides.

    Args:
        a: the keys of one sequence; equal ones may be paired without a look at their likeness.
        b: those of the other.
        likeness: the likeness of two items that are not equal, or not unique.
        max_cells: pairs compared between two anchors; in long stretches, only those of similar
            position are.
    """
    pairs: list[tuple[int, int]] = []
    waiting: list[tuple[Stretch, int]] = [((0, len(a), 0, len(b)), 0)]
    while waiting:
        whole, depth = waiting.pop()
        first, end, first_b, end_b = stretch = _trim(a, b, whole)
        pairs += zip(range(whole[0], first), range(whole[2], first_b), strict=True)
        pairs += zip(range(end, whole[1]), range(end_b, whole[3]), strict=True)
        if first == end or first_b == end_b:
            continue
        anchors = _find_anchors(a, b, stretch) if depth < MAX_DEPTH else []
        if not anchors:
            pairs += _pair_by_likeness(stretch, likeness, max_cells)
            continue
        pairs += anchors
        starts = [(first, first_b), *((i + 1, j + 1) for i, j in anchors)]
        for (i, j), (to, to_b) in zip(starts, [*anchors, (end, end_b)], strict=True):
            waiting.append(((i, to, j, to_b), depth + 1))
    return sorted(pairs)


def _trim(a: Sequence[Hashable], b: Sequence[Hashable], stretch: Stretch) -> Stretch:
    """Returns the stretch without what is equal at its begin and end."""
    first, end, first_b, end_b = stretch
    while first < end and first_b < end_b and a[first] == b[first_b]:
        first, first_b = first + 1, first_b + 1
    while first < end and first_b < end_b and a[end - 1] == b[end_b - 1]:
        end, end_b = end - 1, end_b - 1
    return first, end, first_b, end_b


def _find_anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], stretch: Stretch
) -> list[tuple[int, int]]:
    """Returns the most pairs of equal, unique items that are in the same order on both sides."""
    first, end, first_b, end_b = stretch
    counts, counts_b = Counter(a[first:end]), Counter(b[first_b:end_b])
    places = {b[j]: j for j in range(first_b, end_b) if counts_b[b[j]] == 1}
    both = [(i, places[a[i]]) for i in range(first, end) if counts[a[i]] == 1 and a[i] in places]
    # the longest ascending chain: for each length, the pair with the smallest end so far
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(both):
        length = bisect_left(ends, j)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        at[length : length + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = at[-1] if at else -1
    while index >= 0:
        chain.append(both[index])
        index = before[index]
    return chain[::-1]


def _pair_by_likeness(
    stretch: Stretch, likeness: Likeness, max_cells: int
) -> Iterator[tuple[int, int]]:
    """Yields the pairs with the most likeness in all, in a band around equal positions."""
    first, end, first_b, end_b = stretch
    height, width = end - first, end_b - first_b
    half = max(1, max_cells // height // 2)
    best = [0.0] * (width + 1)
    rows: list[tuple[int, bytearray]] = []
    known = 0
    for row in range(1, height + 1):
        centre = row * width // height
        low, high = max(1, centre - half), min(width, centre + half)
        for column in range(known + 1, high + 1):
            best[column] = best[known]
        known = max(known, high)
        diagonal = left = best[low - 1]
        moves = bytearray()
        for column in range(low, high + 1):
            above, gain = best[column], likeness(first + row - 1, first_b + column - 1)
            if gain and diagonal + gain >= max(above, left):
                move, left = PAIR, diagonal + gain
            else:
                move, left = (ONLY_A, above) if above >= left else (ONLY_B, left)
            moves.append(move)
            diagonal, best[column] = above, left
        rows.append((low, moves))
    yield from _trace(rows, first, first_b, width)


def _trace(
    rows: Sequence[tuple[int, bytearray]], first: int, first_b: int, column: int
) -> Iterator[tuple[int, int]]:
    """Yields the pairs of the best way, from its end to its begin."""
    row = len(rows)
    while row and column:
        low, moves = rows[row - 1]
        if column < low:
            move = ONLY_A
        else:
            move = moves[column - low] if column - low < len(moves) else ONLY_B
        if move == PAIR:
            yield first + row - 1, first_b + column - 1
        row -= move != ONLY_B
        column -= move != ONLY_A
