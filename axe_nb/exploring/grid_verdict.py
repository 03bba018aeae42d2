"""Which variant of a grid is better, and how sure that is, in a sentence. Pure.

A variant is called better only if it did better on more inputs than worse, if chance alone would
rarely make such a difference, and if its mean is higher too. Inputs are what counts, not their
repeats: the exact sign test, corrected for the number of pairs that the best could have been chosen
from (Bonferroni).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import ceil, comb, log2

from axe_nb.exploring.grid_outcome import Square
from axe_nb.exploring.grid_squares import Squares
from axe_nb.exploring.grid_statistics import find_mean, find_sign_chance
from axe_nb.text import list_some, plural

SURE = 0.05
"""Chance below which a difference is called one."""

MAX_NAMED = 3
"""Variants that a sentence names of one kind."""

Columns = Sequence[Sequence[float]]
"""The value of each variant on each input that all of them have runs of."""


def write_verdicts(grid: Squares) -> list[str]:
    """Returns a sentence on what passed, and one on scores between 0 and 1.

    None for a single variant, nor as long as no input has runs of all variants.
    """
    columns = [grid.column(number) for number in range(len(grid.variants))]
    shares = _find_common(columns, lambda square: square.share)
    if len(columns) < 2 or not shares[0]:
        return []
    passed = compare_columns(grid.variants, shares, "passed equally often")
    scores = _find_common(columns, lambda square: square.score)
    if not has_grades(grid) or not scores[0]:
        return [passed]
    scored = f"score: {compare_columns(grid.variants, scores, 'scored the same')}"
    have_all_passed = all(share == 1 for column in shares for share in column)
    return [scored] if have_all_passed else [f"passed: {passed}", scored]


def has_grades(grid: Squares) -> bool:
    """True if scores say more than what passed."""
    return any(run.score is not None and run.score != run.passed for run in grid.runs)


def _find_common(
    columns: Sequence[Sequence[Square]], measure: Callable[[Square], float | None]
) -> Columns:
    values = [[measure(square) for square in column] for column in columns]
    rows = [row for row in zip(*values, strict=True) if None not in row]
    return [[row[number] or 0.0 for row in rows] for number in range(len(columns))]


def compare_columns(names: Sequence[str], columns: Columns, same: str) -> str:
    """Returns a sentence on which variant is better."""
    means = list(map(find_mean, columns))
    best = means.index(max(means))
    count = len(columns[best])
    if all(list(column) == list(columns[best]) for column in columns):
        return f"no difference: all variants {same} on each of {plural(count, 'input')}"
    if len(columns) == 2:
        return _compare_two(names, columns, means)
    return _compare_many(names, columns, means, best)


def _compare_two(names: Sequence[str], columns: Columns, means: Sequence[float]) -> str:
    """The one that did better on more inputs; of two that are level, the second, which is new."""
    first_is_ahead = operator.gt(*_count(columns[0], columns[1]))
    ahead = 0 if first_is_ahead else 1
    name, other = names[ahead], names[1 - ahead]
    better, worse = _count(columns[ahead], columns[1 - ahead])
    chance = find_sign_chance(better, worse)
    of = plural(len(columns[0]), "input")
    counts = f"better on {better} of {of}, worse on {worse} (p = {chance:.2g})"
    gain = means[ahead] - means[1 - ahead]
    if chance <= SURE and gain > 0:
        return f"{name} is better than {other}: {counts}"
    few = _find_shortage(len(columns[0]), 1)
    if better > worse and gain > 0:
        return f"not sure that {name} is better than {other}: {counts}{few}"
    mean = f", but its mean is {'lower' if gain < 0 else 'the same'}" if better > worse else ""
    return f"not sure which is better, {names[0]} or {names[1]}: {name} is {counts}{mean}{few}"


def _compare_many(names: Sequence[str], columns: Columns, means: Sequence[float], best: int) -> str:
    pairs = comb(len(columns), 2)
    equals, beaten, open_ = [], [], []
    for name, column, mean in zip(names, columns, means, strict=True):
        better, worse = _count(columns[best], column)
        if list(column) == list(columns[best]):
            equals.append(name)
        elif (
            better > worse
            and means[best] > mean
            and pairs * find_sign_chance(better, worse) <= SURE
        ):
            beaten.append(name)
        else:
            open_.append(name)
    leaders = list_some(equals, MAX_NAMED)
    are, they = ("are", "they are") if len(equals) > 1 else ("is", "it is")
    if not beaten:
        few = _find_shortage(len(columns[best]), pairs)
        return f"not sure which is best: {leaders} did best, but that may be chance{few}"
    rest = f"; not sure that {they} better than {list_some(open_, MAX_NAMED)}" if open_ else ""
    than = list_some(beaten, MAX_NAMED)
    if not open_ and len(beaten) > 1:
        than = f"each of the other {len(beaten)}"
    return (
        f"{leaders} {are} better than {than}{rest} (p ≤ {SURE}, corrected for {pairs} comparisons)"
    )


def _count(ours: Sequence[float], theirs: Sequence[float]) -> tuple[int, int]:
    """Inputs on which one did better, and worse."""
    changes = [one - other for one, other in zip(ours, theirs, strict=True)]
    return sum(change > 0 for change in changes), sum(change < 0 for change in changes)


def _find_shortage(count: int, pairs: int) -> str:
    """A clause if not even a difference on every input would be a clear one."""
    needed = ceil(1 + log2(pairs / SURE))
    few = f"{plural(count, 'input')} {'is' if count == 1 else 'are'} too few"
    return f"; {few}, at least {needed} are needed" if count < needed else ""
