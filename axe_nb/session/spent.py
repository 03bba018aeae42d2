"""The usage of a session, as `%axe usage` sums it up.

Source: product.md "Notebook" (`%axe usage`).
"""

from __future__ import annotations

from dataclasses import dataclass

from axe_nb.messages import Usage
from axe_nb.results import RunResult


@dataclass(frozen=True, slots=True)
class Spent:
    """Usage of one agent with one model in a session, as a root or a child."""

    runs: int = 0
    turns: int = 0
    usage: Usage = Usage()

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.runs + other.runs, self.turns + other.turns, self.usage + other.usage)


def count_spent(run: RunResult) -> Spent:
    """Returns the usage of one run, without what a fork took from an earlier one."""
    if not any(turn.source for turn in run.log):
        return Spent(1, run.turns, run.usage)
    asked = [turn.usage for turn in run.log if not turn.source]
    return Spent(int(bool(asked)), len(asked), sum(asked, Usage()))
