"""The tokens of replies, and their price.

Source: A-1.*.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as reported by the API; 0 if it reports none.

    `total` is input plus output. Cached tokens are part of the input, reasoning tokens are part of
    the output. Usages can be added.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = field(default=0, kw_only=True)
    """Input tokens that were read from the provider's prompt cache, at a lower price."""
    cache_write_tokens: int = field(default=0, kw_only=True)
    """Input tokens that were written to the cache, for which some providers charge more."""
    reasoning_tokens: int = field(default=0, kw_only=True)
    """Output tokens that are reasoning."""
    searches: int = field(default=0, kw_only=True)
    """Searches of the web by the model's server, which it charges for one by one."""
    priced_tokens: int = field(default=0, kw_only=True, compare=False)
    """Tokens whose price was known when they were used."""
    dollars: float = field(default=0.0, kw_only=True, compare=False)
    """The price of those tokens, in US dollars."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            searches=self.searches + other.searches,
            priced_tokens=self.priced_tokens + other.priced_tokens,
            dollars=self.dollars + other.dollars,
        )

    def at_cost(self, dollars: float | None) -> Usage:
        """Returns the usage of one reply with its price; None = the price is unknown."""
        if dollars is None:
            return self
        return replace(self, priced_tokens=self.total, dollars=dollars)

    @property
    def cost(self) -> float | None:
        """The price in US dollars; None if any token has an unknown price, or none was counted."""
        return self.dollars if self.total and self.priced_tokens == self.total else None

    def counts(self) -> dict[str, int]:
        """Returns the token counts by name."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


def add_costs(costs: Iterable[float | None]) -> float | None:
    """Returns the sum of prices; None if any is unknown."""
    known: list[float] = []
    for cost in costs:
        if cost is None:
            return None
        known.append(cost)
    return math.fsum(known)
