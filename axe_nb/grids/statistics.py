"""Intervals of shares and differences, and the sign test: how sure the figures of a grid are. Pure.

Source: product.md "Exploring".
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

Z = 1.959964
"""Standard deviations on both sides of the mean that hold 95% of a normal distribution."""

FEWEST = 10
"""Values below which a bootstrap holds the true mean far less often than it says."""

MANY = 1000
"""Values above which a bootstrap takes seconds."""

ROUNDS = 2000
"""Samples that a bootstrap draws."""

FEWEST_SIGNS = 6
"""Inputs that differ, below which the sign test never gives a chance under 5 %."""

SEED = 0
"""Of the bootstrap, so that the same runs give the same figures."""


class Interval(NamedTuple):
    """A 95% confidence interval."""

    low: float
    high: float


def find_share_interval(passed: int, count: int) -> Interval:
    """Returns the Wilson interval of a share, which also holds for few runs.

    Args:
        passed: runs that passed.
        count: all runs; 0 = nothing is known.
    """
    if not count:
        return Interval(0.0, 1.0)
    share, spread = passed / count, Z * Z / count
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return Interval(
        0.0 if passed == 0 else middle - half, 1.0 if passed == count else middle + half
    )


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


def find_mean_interval(values: Sequence[float]) -> Interval | None:
    """Returns the interval of a mean by bootstrap; None for fewer values than `FEWEST`.

    For many values it is that of the normal distribution, which is the same then.
    """
    if len(values) < FEWEST:
        return None
    if len(values) > MANY:
        middle, half = fmean(values), Z * stdev(values) / math.sqrt(len(values))
        return Interval(middle - half, middle + half)
    draw = random.Random(SEED)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(ROUNDS))
    edge = round(ROUNDS * 0.025)
    return Interval(means[edge], means[-edge - 1])
