"""The figures of a variant, and of two on the same inputs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from axe_nb.exploring.grid_outcome import Square
from axe_nb.exploring.grid_statistics import (
    Interval,
    describe_chance,
    find_change_interval,
    find_inputs_interval,
    find_mean_interval,
    find_sign_chance,
)
from axe_nb.messages import add_costs
from axe_nb.text import list_some, plural

MAX_NAMED = 5
"""Inputs that a comparison names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of a variant over all of its runs."""

    variant: str
    runs: int
    judged: int
    """Runs of which it is known whether they passed."""
    passed: int
    interval: Interval
    """The interval of the share that passed: inputs count, not their repeats.

    Of a single input it is that of its repeats.
    """
    failed: int
    """Runs that did not complete."""
    unjudged: int
    """Runs for which `score=` or the judge failed; no share includes those without a verdict."""
    disagree: float | None
    """Share of the inputs of which some repeats passed and some did not; None without repeats."""
    score: float | None
    """Mean over the inputs of the scores; None if no run has one.

    Runs that did not complete have no score; they count in `failed`, and as not passed unless the
    grid ended in mid-run.
    """
    tokens: int
    """Tokens of all runs with their sub-agents."""
    cost: float | None
    """US dollars of all runs; None if the price of any is unknown."""
    seconds: float | None
    """Mean duration of a run; None if there are none."""
    judge_tokens: int
    """Tokens of the judge, which no other figure includes."""

    @property
    def share(self) -> float | None:
        """Share of the judged runs that passed; None if there are none."""
        return self.passed / self.judged if self.judged else None


def summarize(variant: str, squares: Sequence[Square]) -> Summary:
    """Returns the figures of a variant."""
    runs = [run for square in squares for run in square]
    repeated = [square for square in squares if len(square) > 1]
    scores = [square.score for square in squares if square.score is not None]
    return Summary(
        variant=variant,
        runs=len(runs),
        judged=sum(square.judged for square in squares),
        passed=sum(square.passed for square in squares),
        interval=find_inputs_interval(
            [(square.passed, square.judged) for square in squares if square.judged]
        ),
        failed=sum(not run.result.ok for run in runs),
        unjudged=sum(bool(run.problem) for run in runs),
        disagree=fmean(square.disagrees for square in repeated) if repeated else None,
        score=fmean(scores) if scores else None,
        tokens=sum(run.result.total_usage.total for run in runs),
        cost=add_costs(run.result.total_cost for run in runs),
        seconds=fmean(run.result.duration_ms / 1000 for run in runs) if runs else None,
        judge_tokens=sum(run.judgement.total_usage.total for run in runs if run.judgement),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two variants compared on the inputs for which both have runs."""

    first: str
    second: str
    better: tuple[str, ...]
    """Inputs on which a larger share of the second variant's runs passed."""
    worse: tuple[str, ...]
    same: int
    """Number of inputs with equal shares."""
    chance: float
    """The chance of a difference at least this clear between equals: the exact sign test."""
    difference: float | None
    """Mean difference of the shares; None without common inputs."""
    interval: Interval | None
    """The interval of the difference (Bonett, Price); None for fewer than ten inputs."""
    score: float | None
    """Mean difference of the scores; None if there are none."""
    score_interval: Interval | None
    """Its interval (Student; Bonett, Price if all scores are 0 or 1); None for fewer than ten
    inputs, or if all differ by the same."""

    def __str__(self) -> str:
        lines = [f"{self.second} against {self.first}, {plural(self.count, 'input')}:"]
        for word, names in (("better", self.better), ("worse", self.worse)):
            named = f" ({list_some(names, MAX_NAMED)})" if names else ""
            lines.append(f"  {word} on {len(names)}{named}")
        lines.append(f"  same on {self.same}")
        if self.difference is not None:
            lines.append(f"  passed {self.difference:+.0%}{_format_range(self.interval, '.0%')}")
        if self.score not in (None, self.difference):  # else it is what passed, in numbers
            lines.append(f"  score {self.score:+.3g}{_format_range(self.score_interval, '.3g')}")
        lines.append(f"  {describe_chance(len(self.better), len(self.worse))}")
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def count(self) -> int:
        """Number of common inputs."""
        return len(self.better) + len(self.worse) + self.same


def compare(
    first: Sequence[Square], second: Sequence[Square], labels: tuple[str, str]
) -> Comparison:
    """Compares two variants, input by input."""
    pairs = list(zip(first, second, strict=True))
    shares = [
        (a.input, b.share - a.share)
        for a, b in pairs
        if a.share is not None and b.share is not None
    ]
    better = tuple(name for name, change in shares if change > 0)
    worse = tuple(name for name, change in shares if change < 0)
    changes = [change for _, change in shares]
    scores = [b.score - a.score for a, b in pairs if a.score is not None and b.score is not None]
    return Comparison(
        first=labels[0],
        second=labels[1],
        better=better,
        worse=worse,
        same=len(shares) - len(better) - len(worse),
        chance=find_sign_chance(len(better), len(worse)),
        difference=fmean(changes) if changes else None,
        interval=find_change_interval(changes),
        score=fmean(scores) if scores else None,
        score_interval=find_change_interval(scores)
        if all(run.score in (None, 0, 1) for pair in pairs for square in pair for run in square)
        else find_mean_interval(scores),
    )


def _format_range(interval: Interval | None, form: str) -> str:
    return f" ({interval.low:+{form}} to {interval.high:+{form}})" if interval else ""
