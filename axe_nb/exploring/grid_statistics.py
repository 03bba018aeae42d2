"""Grid runs and squares, statistics per variant, and significance tests between variants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from axe_nb.messages import add_costs
from axe_nb.results import RunResult
from axe_nb.secrets import redact
from axe_nb.text import clean, list_some, one_line, plural
from axe_nb.views.appearance import LOOKS, Look

Z = 1.959964
"""Number of standard deviations around the mean that covers 95% of a normal distribution."""

SURE = 0.05
"""Largest p-value at which a difference counts as significant."""

MAX_NAMED = 5


class Interval(NamedTuple):
    """A 95% confidence interval."""

    low: float
    high: float


def find_mean(values: Sequence[float]) -> float:
    """Returns the mean, rounded to 12 digits so that equal decimal means compare as equal."""
    return float(f"{fmean(values):.12g}")


def find_share_interval(passed: float, count: int) -> Interval:
    """Returns the Wilson interval for `passed / count`; `passed` is a sum of values from 0 to 1."""
    if not count:
        return Interval(0.0, 1.0)
    share, spread = passed / count, Z * Z / count
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return Interval(
        0.0 if passed == 0 else middle - half, 1.0 if passed == count else middle + half
    )


def find_sign_chance(better: int, worse: int) -> float:
    """Returns the p-value of the exact two-sided sign test, which leaves out equal results."""
    count = better + worse
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1))
    return float(min(1.0, 2 * tail / 2**count))


def compare_columns(names: Sequence[str], columns: Sequence[Sequence[float]], same: str) -> str:
    """Returns a sentence that says which variant is better, and how certain this is.

    The variant with the highest mean counts as better than another if it won on more inputs than
    it lost on, and if the exact sign test over the inputs (not the repeats) is significant, with a
    Bonferroni correction for the number of pairs. `columns` holds each variant's values on the
    inputs for which all variants have values. `same` completes the sentence `all variants … on each
    input`.
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
    few = f"; too few inputs, at least {needed} are needed" if inputs < needed else ""
    leaders = list_some(equals, MAX_NAMED)
    if beaten:
        verb = "are" if len(equals) > 1 else "is"
        rest = f"; not sure about {list_some(unsure, MAX_NAMED)}" if unsure else ""
        sure = f" (p ≤ {SURE}, corrected for {pairs} comparisons)" if pairs > 1 else f": {counts}"
        others = f"all {len(beaten)} others" if len(beaten) > 2 and not unsure else ""
        return f"{leaders} {verb} better than {others or list_some(beaten, MAX_NAMED)}{rest}{sure}"
    if pairs == 1:
        return f"not sure that {leaders} is better than {unsure[0]}: {counts}{few}"
    done = "did best" if len(equals) == 1 else "did equally well, and better than the rest"
    return f"not sure which is best: {leaders} {done}, but that may be chance{few}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRun:
    """One run of a grid with its verdict."""

    input: str
    variant: str
    repeat: int = 1
    result: RunResult
    passed: bool | None
    """True if the run completed, met `expect` and was not scored False; None if this is unknown."""
    score: float | None = None
    """Score from `score=` or the judge, with a bool as 0 or 1; None if there is no score."""
    reason: str = ""
    """Explanation: why the run did not pass, the judge's reason, and `problem`; often empty."""
    problem: str = ""
    """Error of `score=` or the judge, which does not count against the run; empty if none."""
    judgement: RunResult | None = field(default=None, repr=False)
    """The judge's run; its tokens are not added to the variant's. None if no judge ran."""

    @property
    def look(self) -> Look:
        """Character and colour that represent the verdict."""
        if self.result.status == "cancelled":
            return LOOKS["cancelled"]
        return LOOKS["asks" if self.passed is None else "completed" if self.passed else "error"]


@dataclass(frozen=True, slots=True, repr=False)
class Square:
    """The runs of one variant on one input, one per repeat; fewer if the grid was stopped."""

    input: str
    variant: str
    runs: tuple[GridRun, ...]

    def __getitem__(self, index: int) -> GridRun:
        return self.runs[index]

    def __iter__(self) -> Iterator[GridRun]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        runs = plural(len(self), "run")
        lines = [f"{self.input} × {self.variant}: {self.passed} of {runs} passed"]
        for run in self:
            said = clean(" · ".join(filter(None, [run.result.text, run.reason])))
            lines.append(f"  {run.look.sign} {one_line(redact(said), 100)}")
        return "\n".join(lines)

    @property
    def passed(self) -> int:
        """Number of runs that passed."""
        return sum(run.passed is True for run in self.runs)

    @property
    def judged(self) -> int:
        """Number of runs with a known verdict."""
        return sum(run.passed is not None for run in self.runs)

    @property
    def share(self) -> float | None:
        """Share of the judged runs that passed; None if no run was judged."""
        return self.passed / self.judged if self.judged else None

    @property
    def score(self) -> float | None:
        """Mean score; None if no run has a score."""
        scores = [run.score for run in self.runs if run.score is not None]
        return find_mean(scores) if scores else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Statistics of a variant over all its runs."""

    variant: str
    runs: int
    judged: int
    """Number of runs with a known verdict."""
    passed: int
    interval: Interval
    """95% confidence interval for the share of passed runs, computed over the inputs, or over the
    repeats if only one input was judged."""
    failed: int
    """Number of runs that did not complete."""
    unjudged: int
    """Number of runs for which `score=` or the judge failed."""
    disagree: float | None
    """Share of the repeated inputs on which only some runs passed; None if nothing was repeated."""
    score: float | None
    """Mean score over the inputs; None if no run has a score."""
    tokens: int
    cost: float | None
    """Cost of all runs in US dollars; None if the cost of any run is unknown."""
    seconds: float | None
    """Mean duration of a run in seconds; None if there are no runs."""
    judge_tokens: int
    """Tokens that the judge used; no other number includes them."""

    @property
    def share(self) -> float | None:
        """Share of the judged runs that passed; None if no run was judged."""
        return self.passed / self.judged if self.judged else None


def summarize(variant: str, squares: Sequence[Square]) -> Summary:
    runs = [run for square in squares for run in square]
    disagree = [0 < square.passed < square.judged for square in squares if len(square) > 1]
    judged = [(square.passed, square.judged) for square in squares if square.judged]
    interval = find_share_interval(sum(passed / count for passed, count in judged), len(judged))
    if len(judged) == 1:
        interval = find_share_interval(*judged[0])
    scores = [square.score for square in squares if square.score is not None]
    return Summary(
        variant=variant,
        runs=len(runs),
        judged=sum(count for _, count in judged),
        passed=sum(passed for passed, _ in judged),
        interval=interval,
        failed=sum(not run.result.ok for run in runs),
        unjudged=sum(bool(run.problem) for run in runs),
        disagree=fmean(disagree) if disagree else None,
        score=fmean(scores) if scores else None,
        tokens=sum(run.result.total_usage.total for run in runs),
        cost=add_costs(run.result.total_cost for run in runs),
        seconds=fmean(run.result.duration_ms / 1000 for run in runs) if runs else None,
        judge_tokens=sum(run.judgement.total_usage.total for run in runs if run.judgement),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison of two variants on the inputs on which both have judged runs."""

    first: str
    second: str
    better: tuple[str, ...]
    """Inputs on which the second variant had a higher mean score or, unless `by_score`, a larger
    share of passed runs."""
    worse: tuple[str, ...]
    same: int
    chance: float
    """p-value of the exact sign test over the inputs on which the variants differ."""
    difference: float | None
    """Mean difference between the shares of passed runs; None if no input is compared."""
    score: float | None
    """Mean difference between the scores; None if no input has scores for both variants."""

    by_score: bool = False
    """True if variants are compared by mean score, False if by share of passed runs."""

    def __str__(self) -> str:
        count = len(self.better) + len(self.worse) + self.same
        by = ", by score" if self.by_score else ""
        lines = [f"{self.second} against {self.first}{by}, {plural(count, 'input')}:"]
        for word, names in (("better", self.better), ("worse", self.worse)):
            named = f" ({list_some(names, MAX_NAMED)})" if names else ""
            lines.append(f"  {word} on {len(names)}{named}")
        lines.append(f"  same on {self.same}")
        if self.difference is not None:
            lines.append(f"  passed {self.difference:+.0%}")
        if self.score not in (None, self.difference):  # otherwise it repeats what passed
            lines.append(f"  score {self.score:+.3g}")
        lines.append(f"  p = {self.chance:.2g} (sign test over the inputs that differ)")
        return "\n".join(lines)

    __repr__ = __str__
