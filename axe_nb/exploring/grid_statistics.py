"""Intervals of shares and differences, and the sign test: how sure a grid's figures are. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

Z = 1.959964
"""Standard deviations on both sides of the mean that hold 95% of a normal distribution."""

FEWEST = 10
"""Values below which an interval of a mean holds the true one less often than it says."""

FEWEST_SIGNS = 6
"""Inputs that differ, below which the sign test never gives a chance under 5 %."""


class Interval(NamedTuple):
    """A 95% confidence interval."""

    low: float
    high: float


def find_mean(values: Sequence[float]) -> float:
    """Returns the mean, so that means that are equal in decimal numbers are equal."""
    return round_off(fmean(values))


def round_off(value: float) -> float:
    """Returns a value with 12 digits, which drops what binary numbers add to decimal ones."""
    return float(f"{value:.12g}")


def find_share_interval(passed: float, count: int) -> Interval:
    """Returns the Wilson interval of a share, which also holds for few values.

    Args:
        passed: the sum of the values, each between 0 and 1.
        count: their number; 0 = nothing is known.
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
    """Returns the interval of a share over inputs; repeats of one add no weight.

    Args:
        counts: (passed, runs) of each input. Of a single input, it is the interval of its repeats.
    """
    if len(counts) == 1:
        return find_share_interval(*next(iter(counts)))
    return find_share_interval(sum(passed / runs for passed, runs in counts), len(counts))


def find_sign_chance(better: int, worse: int) -> float:
    """Returns the chance of a difference at least so clear if both variants were equally good.

    The exact two-sided sign test: inputs on which both did the same say nothing.
    """
    count = better + worse
    if not count:
        return 1.0
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1))
    return float(min(1.0, 2 * tail / 2**count))


def describe_chance(better: int, worse: int) -> str:
    """Returns how often chance alone makes a difference at least so clear, in words."""
    chance, count = find_sign_chance(better, worse), better + worse
    share = f"{100 * chance:.2g}%" if chance < 1 else "100%"
    few = f"; {count} that differ are too few to tell" if count < FEWEST_SIGNS else ""
    return f"chance alone makes a difference this clear in {share} of cases (sign test{few})"


def find_change_interval(changes: Sequence[float]) -> Interval | None:
    """Returns the interval of the mean difference of two shares; None for fewer than `FEWEST`.

    That of Bonett and Price (2012), which counts two more inputs, one better and one worse: where
    no input differs, a difference is still possible.

    Args:
        changes: the difference on each input, between -1 and 1.
    """
    if len(changes) < FEWEST:
        return None
    count = len(changes) + 2
    middle = sum(changes) / count
    spread = (sum(change * change for change in changes) + 2) / count - middle * middle
    half = Z * math.sqrt(spread / count)
    return Interval(max(-1.0, middle - half), min(1.0, middle + half))


def find_mean_interval(values: Sequence[float]) -> Interval | None:
    """Returns Student's interval of a mean; None for fewer values than `FEWEST`, or equal ones."""
    if len(values) < FEWEST or not (spread := stdev(map(round_off, values))):
        return None
    middle, half = fmean(values), _find_quantile(len(values) - 1) * spread / math.sqrt(len(values))
    return Interval(middle - half, middle + half)


def _find_quantile(freedom: int) -> float:
    """Returns the 97.5% quantile of Student's distribution, by its series (Fisher, Cornish)."""
    terms = (
        Z, (Z**3 + Z) / 4, (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
    )  # fmt: skip
    return math.fsum(term / freedom**power for power, term in enumerate(terms))
