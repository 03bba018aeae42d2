"""Forecast of a grid: its requests and their price, before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from axe_nb.engine.links import CHARACTERS
from axe_nb.exploring.map_batch import Asking, Batch
from axe_nb.exploring.map_prompts import Task
from axe_nb.messages import Usage, add_costs
from axe_nb.text import format_dollars, plural

SAMPLE = 20
"""Prompts of each variant that are measured."""


class Forecast:
    """The requests and the price of a grid."""

    def __init__(self, batch: Batch, variants: int, runs: int) -> None:
        """Creates the forecast of a grid without results."""
        self._batch, self._runs = batch, runs
        self._variants = variants
        self._prompts: float | None = None
        """Dollars for the first request of each run; None = a price is unknown."""
        self._has_file = False
        """True if results had been kept at the beginning."""

    async def prepare(self, tasks: Sequence[Task]) -> None:
        """Finds the price of the first prompts of each variant, once the batch is prepared."""
        self._has_file = self._batch.file is not None and self._batch.file.has_results
        sizes: list[list[int]] = [[] for _ in range(self._variants)]
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
        self._prompts = total and total * self._runs / self._variants

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

    def describe(self) -> str:
        """Returns the forecast in words, with what it assumes."""
        fewest = plural(self._runs * (1 if self._batch.judge is None else 2), "request")
        facts = [fewest if self._is_exact else f"at least {fewest}"]
        if self._prompts:
            facts.append(f"about {format_dollars(self._prompts)} for the prompts alone")
        if self._has_file:
            facts.append("minus what is in the resume file")
        return ", ".join(facts)

    @property
    def _is_exact(self) -> bool:
        """True if each run is one request."""
        plans = [asking.plan for asking in self._batch.askings if asking.plan]
        return not any(plan.toolset.offered or plan.asks_at_end for plan in plans)
