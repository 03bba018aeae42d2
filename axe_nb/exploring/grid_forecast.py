"""Forecast of a grid: its requests and their price, before it begins and as its runs end.

Source: product.md "Exploring"; issue 13 (a forecast comes first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from axe_nb.engine.links import CHARACTERS
from axe_nb.exploring.grid_outcome import GridRun
from axe_nb.exploring.map_batch import Asking, Batch
from axe_nb.exploring.map_prompts import Task
from axe_nb.messages import Usage
from axe_nb.messages.usage import add_costs
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

    def __init__(self, batch: Batch, variants: int, runs: int) -> None:
        """Creates the forecast of a grid without results.

        Args:
            batch: its runs.
            variants: number of its variants.
            runs: number of its runs.
        """
        self._batch, self._runs = batch, runs
        self._taken = [_Taken() for _ in range(variants)]
        self._prompts: float | None = None
        """Dollars for the first request of each run; None = a price is unknown."""
        self._has_file = False
        """True if results had been kept at the beginning."""

    async def prepare(self, tasks: Sequence[Task]) -> None:
        """Finds the price of the first prompts of each variant, once the batch is prepared."""
        self._has_file = self._batch.file is not None and self._batch.file.has_results
        sizes: list[list[int]] = [[] for _ in self._taken]
        for task in tasks[: SAMPLE * len(sizes)]:
            if task.problem is None:
                pictures = sum(picture.tokens for picture in task.pictures)
                size = len(task.text.encode(errors="replace")) // CHARACTERS
                sizes[task.asking].append(size + pictures)
        askings = self._batch.askings[: len(sizes)]
        prices = [
            await self._find_price(asking, own) for asking, own in zip(askings, sizes, strict=True)
        ]
        total = add_costs(prices)
        self._prompts = total and total * self._each

    async def _find_price(self, asking: Asking, sizes: Sequence[int]) -> float | None:
        """Dollars of the prompt of a run, the mean over the first inputs; None = unknown."""
        plan = asking.plan
        assert plan is not None
        offered = (
            (spec.name, spec.description, spec.input_schema()) for spec in plan.toolset.offered
        )
        common = len(f"{plan.briefing.system}{list(offered) or ''}".encode()) // CHARACTERS
        common += sum(picture.tokens for _, picture in plan.briefing.pictures)
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
        dollars = self._prompts
        if has_all:
            each = [taken.dollars and taken.dollars / taken.runs for taken in self._taken]
            dollars = (add_costs(each) or 0.0) * self._each
        if dollars:
            which = "" if has_all else " for the prompts alone"
            facts.append(f"about {format_dollars(dollars)}{which}")
        if has_all and (dollars or not self._is_exact):
            done = sum(taken.runs for taken in self._taken)
            facts.append(f"judging by {plural(done, 'run')}")
        if self._has_file:
            facts.append("minus what is in the resume file")
        return ", ".join(facts)

    def _describe_requests(self, *, has_all: bool) -> str:
        fewest = plural(self._runs * (1 if self._batch.judge is None else 2), "request")
        if self._is_exact:
            return fewest
        if not has_all:
            return f"at least {fewest}"
        found = sum(taken.requests / taken.runs for taken in self._taken) * self._each
        return f"about {plural(round(found), 'request')}"

    @property
    def _each(self) -> float:
        """Number of runs of a variant."""
        return self._runs / len(self._taken)

    @property
    def _is_exact(self) -> bool:
        """True if each run is one request."""
        plans = [asking.plan for asking in self._batch.askings if asking.plan]
        return not any(plan.toolset.offered or plan.asks_at_end for plan in plans)
