"""Forecast of a grid: its requests and their price, before it begins and as its runs end.

Source: product.md "Exploring"; issue 13 (a forecast comes first).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean

from axe_nb.engine.links import CHARACTERS
from axe_nb.grids.grid import Grid
from axe_nb.grids.outcome import GridRun
from axe_nb.maps.batch import Asking, Batch
from axe_nb.maps.tasks import Task
from axe_nb.messages import Usage
from axe_nb.text import format_dollars, plural

SAMPLE = 20
"""Prompts of each variant that are measured."""


@dataclass
class _Taken:
    """Usage by the runs of a variant, each with that of its judge."""

    runs: int = 0
    requests: int = 0
    dollars: float | None = 0.0
    """None = the price of a reply was unknown."""

    def add(self, run: GridRun) -> None:
        self.runs += 1
        for root in filter(None, (run.result, run.judgement)):
            self.requests += sum(one.turns + one.retries for one in root.walk())
            if (cost := root.total_cost) is None or self.dollars is None:
                self.dollars = None
            else:
                self.dollars += cost


class Forecast:
    """The requests and the price of a grid."""

    def __init__(self, grid: Grid, batch: Batch, judge: Batch | None, runs: int) -> None:
        """Creates the forecast of a grid without results.

        Args:
            grid: the grid.
            batch: its runs.
            judge: those of its judge; None = there is none.
            runs: number of the runs that it lacks.
        """
        self._grid, self._batch, self._judge = grid, batch, judge
        self._runs = runs
        self._taken = [_Taken() for _ in grid.choices]
        self._sizes: list[list[int]] = [[] for _ in grid.choices]
        """Tokens of some prompts of each variant, estimated as UTF-8 bytes / 4 (D-18)."""
        self._prompts: float | None = None
        """Dollars for the first request of each run; None = a price is unknown."""
        self._source = ""
        self._has_file = False
        """True if results had been kept at the beginning."""

    def measure(self, tasks: Iterable[Task]) -> None:
        """Measures the first prompts of each variant."""
        for task in islice(tasks, SAMPLE * len(self._sizes)):
            if task.problem is None:
                pictures = sum(picture.tokens for picture in task.pictures)
                size = len(task.text.encode(errors="replace")) // CHARACTERS
                self._sizes[task.asking].append(size + pictures)

    async def prepare(self) -> None:
        """Finds the price of the measured prompts, once the batches are prepared."""
        self._source = "history" if self._batch.resume is True else "resume file"
        self._has_file = self._batch.file is not None and self._batch.file.has_results
        prices = [
            await self._find_price(number, asking)
            for number, asking in enumerate(self._batch.askings)
        ]
        total = _add(prices)
        self._prompts = total and total * self._each

    async def _find_price(self, variant: int, asking: Asking) -> float | None:
        """Dollars of the prompt of a run, the mean over the first inputs; None = unknown."""
        plan = asking.plan
        assert plan is not None
        offered = (
            (spec.name, spec.description, spec.input_schema()) for spec in plan.toolset.offered
        )
        common = len(f"{plan.briefing.system}{list(offered) or ''}".encode()) // CHARACTERS
        common += sum(picture.tokens for _, picture in plan.briefing.pictures)
        sizes = self._sizes[variant]
        tokens = 1 + common + round(fmean(sizes) if sizes else 0)
        return await plan.scope.env.prices.find_cost(plan.agent.model, Usage(tokens))

    def add(self, variant: int, run: GridRun) -> None:
        """Notes a run that has ended."""
        self._taken[variant].add(run)

    def describe(self) -> str:
        """Returns the forecast in words, with what it assumes.

        Once each variant has a run, further ones are expected to be like those so far.
        """
        has_all = all(taken.runs for taken in self._taken)
        facts = [self._describe_requests(has_all=has_all)]
        dollars = self._find_dollars() if has_all else self._prompts
        if dollars:
            which = "" if has_all else " for the prompts alone"
            facts.append(f"about {format_dollars(dollars)}{which}")
        if has_all and (dollars or not self._is_exact):
            done = sum(taken.runs for taken in self._taken)
            facts.append(f"judging by {plural(done, 'run')}")
        if self._has_file:
            facts.append(f"minus what is in the {self._source}")
        return ", ".join(facts)

    def _describe_requests(self, *, has_all: bool) -> str:
        fewest = plural(self._runs * (2 if self._judge else 1), "request")
        if self._is_exact:
            return fewest
        if not has_all:
            return f"at least {fewest}"
        found = sum(taken.requests / taken.runs for taken in self._taken) * self._each
        return f"about {plural(round(found), 'request')}"

    def _find_dollars(self) -> float | None:
        """The price of all runs, if they take what those so far took; None = one is unknown."""
        total = _add([taken.dollars and taken.dollars / taken.runs for taken in self._taken])
        return total and total * self._each

    @property
    def _each(self) -> float:
        """Number of runs of a variant."""
        return self._runs / len(self._taken)

    @property
    def _is_exact(self) -> bool:
        """True if each run is one request."""
        askings = [*self._batch.askings, *(self._judge.askings if self._judge else ())]
        plans = [asking.plan for asking in askings if asking.plan]
        return not any(plan.toolset.offered or plan.asks_at_end for plan in plans)


def _add(prices: Sequence[float | None]) -> float | None:
    """The sum; None if one is unknown."""
    known = [price for price in prices if price is not None]
    return math.fsum(known) if len(known) == len(prices) else None
