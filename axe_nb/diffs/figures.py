"""Requests, tokens, money and time of two trees of runs, beside one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from axe_nb.results import RunResult
from axe_nb.usage import Usage

SECONDS = "seconds"
"""The name of the figure that is never the same twice."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of each tree."""

    name: str
    a: float | None
    """None if it is unknown, as the price of a model may be."""
    b: float | None

    @property
    def change(self) -> float | None:
        """The second minus the first; None if either is unknown."""
        return None if self.a is None or self.b is None else self.b - self.a


def _sum(read: Callable[[RunResult], int]) -> Callable[[RunResult, Usage], int]:
    return lambda run, usage: sum(map(read, run.walk()))


READERS: Mapping[str, Callable[[RunResult, Usage], float | None]] = {
    "turns": _sum(lambda run: run.turns),
    "tool calls": _sum(lambda run: run.tool_calls),
    "sub-agents": lambda run, usage: sum(1 for _ in run.walk()) - 1,
    "retries": _sum(lambda run: run.retries),
    "input tokens": lambda run, usage: usage.input_tokens,
    "output tokens": lambda run, usage: usage.output_tokens,
    "cached tokens": lambda run, usage: usage.cached_tokens,
    "cost": lambda run, usage: run.total_cost,
    SECONDS: lambda run, usage: run.duration_ms / 1000,
}
"""Name of a figure → how it is read from a tree and the tokens of it; cost is in US dollars."""


def list_figures(a: RunResult, b: RunResult) -> tuple[Figure, ...]:
    """Returns the figures of two trees, all runs below them included."""
    usage, usage_b = a.total_usage, b.total_usage
    return tuple(Figure(name, read(a, usage), read(b, usage_b)) for name, read in READERS.items())
