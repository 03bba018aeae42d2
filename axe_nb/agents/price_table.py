"""Prices of the user's own: the tables `[prices."PROVIDER/MODEL"]` of config.toml.

Source: issue 12 (money); product.md "Models can do more than text".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from axe_nb.conversion.toml_tables import Source, WrongValue, build, check_types
from axe_nb.messages import Usage

MILLION = 1_000_000

UNSET = -1.0
"""A price that the table does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """`[prices."PROVIDER/MODEL"]`: the price of a model, in US dollars per million tokens."""

    input: float = UNSET
    """Input tokens; required."""
    output: float = UNSET
    """Output tokens, reasoning included; required."""
    cached_input: float = UNSET
    """Input tokens read from the provider's prompt cache; the default is `input`."""
    cache_write: float = UNSET
    """Input tokens written to that cache; the default is `input`."""
    search: float = UNSET
    """A thousand searches of the web by the model's server; without it, a reply with one has no
    known price."""

    def __post_init__(self) -> None:
        check_types(self)

    def cost_of(self, usage: Usage) -> float | None:
        """Returns the price of one reply in dollars; None if that of its searches is unknown."""
        if usage.searches and self.search == UNSET:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        parts = (
            (usage.input_tokens - cached - written) * self.input,
            cached * (self.input if self.cached_input == UNSET else self.cached_input),
            written * (self.input if self.cache_write == UNSET else self.cache_write),
            usage.output_tokens * self.output,
        )
        return sum(parts) / MILLION + usage.searches * max(self.search, 0.0) / 1000


def read_prices(tables: object, source: Source) -> Mapping[str, PriceTable]:
    """Returns provider/model → its price, from the table `prices` of config.toml.

    Raises:
        ConfigError: an unknown key.
        WrongValue: an invalid value.
    """
    if not isinstance(tables, dict):
        raise WrongValue(("prices",), "must be a table", hint='write [prices."provider/model"]')
    return {model: _read_price(model, table, source) for model, table in tables.items()}


def _read_price(model: str, table: Any, source: Source) -> PriceTable:
    at = ("prices", model)
    provider, _, name = model.partition("/")
    if not (provider.strip() and name.strip()):
        raise WrongValue(at, "must be the price of a model", hint='write [prices."provider/model"]')
    price = build(PriceTable, table, source, at)
    for key in ("input", "output"):
        if key not in table:
            raise WrongValue(
                (*at, key), "is missing", hint="US dollars per million tokens; 0 = free"
            )
    for key in table:
        if getattr(price, key) < 0:
            raise WrongValue((*at, key), "must be non-negative")
    return price
