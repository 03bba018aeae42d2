"""Certainty of the figures of a grid: intervals, the sign test, which variant is better. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import NamedTuple

from axe_nb.text import list_some, plural

Z = 1.959964
"""Standard deviations on both sides of the mean that hold 95% of a normal distribution."""

FEWEST = 10
"""Minimum number of inputs for the interval of a difference: with fewer, it is too narrow."""

SURE = 0.05
"""Chance below which a difference counts as real."""

MAX_NAMED = 5
"""Maximum number of labels that a sentence lists."""


class Interval(NamedTuple):
    """A 95% confidence interval."""

    low: float
    high: float


def find_mean(values: Sequence[float]) -> float:
    """Returns the mean to 12 digits: means that are equal in decimal numbers are equal."""
    return float(f"{fmean(values):.12g}")


def find_share_interval(passed: float, count: int) -> Interval:
    """Returns the Wilson interval of a share, which also holds for few values.

    `passed` is the sum of the values, each between 0 and 1, and `count` their number.
    """
    if not count:
        return Interval(0.0, 1.0)
    share, spread = passed / count, Z * Z / count
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return Interval(
        0.0 if passed == 0 else middle - half, 1.0 if passed == count else middle + half
    )


def find_inputs_interval(counts: Collection[tuple[int, int]]) -> Interval:
    """Returns the interval of a share over inputs, from (passed, runs) of each.

    Repeats of an input add no weight; of a single input, it is the interval of its repeats.
    """
    if len(counts) == 1:
        return find_share_interval(*next(iter(counts)))
    return find_share_interval(sum(passed / runs for passed, runs in counts), len(counts))


def find_change_interval(changes: Sequence[float]) -> Interval | None:
    """Returns the interval of the mean difference of two shares; None for fewer than `FEWEST`.

    That of Bonett and Price (2012), which counts two more inputs, one better and one worse: where
    no input differs, a difference is still possible.
    """
    if len(changes) < FEWEST:
        return None
    count = len(changes) + 2
    middle = sum(changes) / count
    spread = (sum(change * change for change in changes) + 2) / count - middle * middle
    half = Z * math.sqrt(spread / count)
    return Interval(max(-1.0, middle - half), min(1.0, middle + half))


def find_sign_chance(better: int, worse: int) -> float:
    """Returns the chance of a difference at least so clear if both variants were equally good.

    The exact two-sided sign test: inputs on which both did the same say nothing.
    """
    count = better + worse
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1))
    return float(min(1.0, 2 * tail / 2**count))


def describe_chance(better: int, worse: int) -> str:
    """Returns the chance of a difference at least so clear between equal variants, in words."""
    chance, count = find_sign_chance(better, worse), better + worse
    share = f"{100 * chance:.2g}%" if chance < 1 else "100%"
    few = (
        f"; {count} that differ are too few to tell" if count < 6 else ""
    )  # chance is never under 5 %
    return f"chance alone makes a difference this clear in {share} of cases (sign test{few})"


def compare_columns(names: Sequence[str], columns: Sequence[Sequence[float]], same: str) -> str:
    """Returns a sentence on which variant is better, and how sure that is.

    The one with the highest mean is called better than another only if it did better on more inputs
    than worse, and if chance alone would rarely make such a difference. Inputs are what counts, not
    their repeats: the exact sign test, corrected for the number of pairs that the best could have
    been chosen from (Bonferroni). `columns` has the value of each variant on each input that all of
    them have runs of; `same` says what they did if they did the same.
    """
    means = list(map(find_mean, columns))
    best = means.index(max(means))
    inputs, pairs = len(columns[best]), math.comb(len(columns), 2)
    equals, beaten, unsure = list[str](), list[str](), list[str]()
    counts = ""
    for name, column, mean in zip(names, columns, means, strict=True):
        better = sum(one > other for one, other in zip(columns[best], column, strict=True))
        worse = sum(one < other for one, other in zip(columns[best], column, strict=True))
        if not better + worse:
            equals.append(name)
            continue
        chance = find_sign_chance(better, worse)
        counts = f"better on {better} of {plural(inputs, 'input')}, worse on {worse}"
        counts += f" (p = {chance:.2g})"
        is_clear = better > worse and means[best] > mean and pairs * chance <= SURE
        (beaten if is_clear else unsure).append(name)
    if not beaten and not unsure:
        return f"no difference: all variants {same} on each of {plural(inputs, 'input')}"
    needed = math.ceil(1 + math.log2(pairs / SURE))
    few = f"; {plural(inputs, 'input')} {'is' if inputs == 1 else 'are'} too few"
    few = f"{few}, at least {needed} are needed" if inputs < needed else ""
    leaders = list_some(equals, MAX_NAMED)
    if pairs == 1 and beaten:
        return f"{leaders} is better than {beaten[0]}: {counts}"
    if pairs == 1:
        return f"not sure that {leaders} is better than {unsure[0]}: {counts}{few}"
    if not beaten:
        return f"not sure which is best: {leaders} did best, but that may be chance{few}"
    are, they = ("are", "they are") if len(equals) > 1 else ("is", "it is")
    rest = f"; not sure that {they} better than {list_some(unsure, MAX_NAMED)}" if unsure else ""
    than = list_some(beaten, MAX_NAMED)
    if not unsure and len(beaten) > 1:
        than = f"each of the other {len(beaten)}"
    return (
        f"{leaders} {are} better than {than}{rest} (p ≤ {SURE}, corrected for {pairs} comparisons)"
    )
