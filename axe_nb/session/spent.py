"""The usage of a session, as `%axe usage` sums it up.

Source: product.md "Notebook" (`%axe usage`).
"""

from __future__ import annotations

from dataclasses import dataclass

from axe_nb.exchanges import ASKED_NOW
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


def add_spent(spent: dict[tuple[str, str], Spent], result: RunResult) -> None:
    """Adds the usage of a finished tree to that of a session, by agent and model."""
    for one in result.walk():
        key = (one.agent, one.model)
        spent[key] = spent.get(key, Spent()) + _count(one)


def _count(run: RunResult) -> Spent:
    """Returns the usage of one run, without what no model was asked for in it."""
    asked = [turn.usage for turn in run.log if turn.source in ASKED_NOW]
    if len(asked) == len(run.log):
        return Spent(1, run.turns, run.usage)
    return Spent(int(bool(asked)), len(asked), sum(asked, Usage()))
