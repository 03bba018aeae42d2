"""The budget of a map: caps that all its runs share.

Source: D-64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from axe_nb.agents.tables import TreeLimits
from axe_nb.conversion.libraries import as_number
from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.meter import UsageMeter
from axe_nb.errors import ConfigError
from axe_nb.results import RunResult, RunStopped, Status
from axe_nb.text import quote, suggestion

BudgetOption: TypeAlias = "float | Mapping[str, float] | None"
"""US dollars, or keys of `[limits]`; None = no budget."""

NO_CAPS = TreeLimits(max_requests=0, max_calls_per_reply=0, max_in_flight=0)

KEYS = ("max_requests", "max_total_tokens", "max_cost", "max_calls_per_reply", "max_in_flight")
"""Those of `[limits]` that several runs can share."""


@dataclass(slots=True)
class MapMeter(UsageMeter):
    """The usage of all runs of a map. A run that its budget ends is cancelled, not failed."""

    def _make_stop(self, status: Status, key: str, most: int | str, unit: str) -> RunStopped:
        return RunStopped("cancelled", self.describe(key, most))

    def describe(self, key: str, most: int | str) -> str:
        """The words for a cap that was reached."""
        return f"the budget of this {self.agent} was reached: {key} = {most}"

    def _describe_overshoot(self, key: str, most: int | str, used: str) -> str:
        return f"the budget of this {self.agent} was exceeded: {key} = {most}, used {used}"

    def add(self, result: RunResult) -> None:
        """Counts a run that another process has counted alone."""
        for one in result.walk():
            self.requests += one.turns + one.retries
            self.tokens += one.usage.total
        self.dollars += result.total_cost or 0.0
        if result.total_cost is None:
            self.unpriced = result.agent

    def find_end(self) -> str:
        """Returns why no further run may begin; empty = one may."""
        try:
            self.check()
        except RunStopped as stop:
            return str(stop)
        return ""


def make_meter(budget: BudgetOption, what: str) -> MapMeter | None:
    """Returns the meter of a budget; None if there is none.

    Args:
        budget: the budget.
        what: `map` or `grid`, for messages.

    Raises:
        ConfigError: it is neither a number of dollars nor a table of caps.
    """
    if budget is None:
        return None
    table = budget if isinstance(budget, Mapping) else {"max_cost": budget}
    for key in table:
        if key not in KEYS:
            raise ConfigError(
                f"unknown key {quote(str(key))} in budget",
                hint=suggestion(str(key), KEYS) or f"known keys: {', '.join(KEYS)}",
            )
    numbers: dict[str, Any] = {key: as_number(value) for key, value in table.items()}
    for key, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and 0 < value < math.inf):
            raise ConfigError(
                f"budget takes dollars or positive caps, not {shown_value(budget)}",
                hint='for example budget=0.5, or budget={"max_requests": 1000}',
            )
        if key != "max_cost" and value != int(value):
            raise ConfigError(f"budget: {key} takes a whole number, not {shown_value(value)}")
    caps: dict[str, Any] = {k: v if k == "max_cost" else int(v) for k, v in numbers.items()}
    return MapMeter(what, replace(NO_CAPS, **caps))
