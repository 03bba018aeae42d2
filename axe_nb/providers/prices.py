"""Prices of replies, from the user's settings or from the price table of the `prices` extra.

The table is part of an installed package and is never downloaded during a run. If a price is
missing, the cost is unknown, not zero.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from axe_nb.agents.names import parse_model
from axe_nb.agents.provider_table import SEARCH
from axe_nb.agents.user_config import Config
from axe_nb.errors import ConfigError
from axe_nb.messages import Usage
from axe_nb.text import quote
from axe_nb.threads import in_thread

COUNTED = frozenset({SEARCH, "web_fetch", "tool_search_tool_bm25", "tool_search_tool_regex"})
"""Server-side tools of known cost: each costs only tokens, or its calls are counted in `Usage`."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Looks up model prices, using the settings in effect when the root agent started."""

    config: Config = field(default_factory=Config, repr=False)

    async def find_cost(self, model: str, usage: Usage) -> float | None:
        """Returns a reply's cost in dollars; None if unknown. Loads the price table if needed."""
        await self.load(model)
        return self.cost_of(model, usage)

    async def load(self, model: str) -> None:
        """Imports the price table in a thread, if the model's price may be in the table."""
        if "genai_prices" not in sys.modules and self._find_address(model):
            await in_thread(_load_table)

    def cost_of(self, model: str, usage: Usage) -> float | None:
        """Returns a reply's cost in dollars; None if a price is unknown or no tokens were used.

        Call `load` first, because importing the price table takes a long time.
        """
        if not usage.total:
            return None
        if own := self.config.prices.get(model):
            return own.cost_of(usage)
        name, address = model.partition("/")[2], self._find_address(model)
        table = _load_table() if address else None  # imports a library of 16 MB
        if table is None:
            return None
        try:
            counts = table.Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cached_tokens,
                cache_write_tokens=usage.cache_write_tokens,
            )
            found = table.calc_price(counts, name, provider_api_url=address)
            if usage.searches:
                tokens, counts.web_searches = found.total_price, usage.searches
                found = table.calc_price(counts, name, provider_api_url=address)
                if found.total_price == tokens:
                    return None  # the table has no price for searches
        except Exception:  # an error in the table must not end a paid run
            return None
        return float(found.total_price)

    def knows(self, model: str, tool: str = "") -> bool:
        """True if the prices of a model and of its server-side `tool`, if any, are known."""
        usage = Usage(1, 1, searches=1 if tool == SEARCH else 0)
        return (not tool or tool in COUNTED) and self.cost_of(model, usage) is not None

    def _find_address(self, model: str) -> str:
        """Returns the URL for looking up a model's price; empty if none is needed or usable."""
        if model in self.config.prices:
            return ""
        try:
            provider, _ = parse_model(model)
            if not self.config.provider(provider).has_server:
                return ""
            address = self.config.base_url(provider)
            host = urlsplit(address).hostname or ""
        except (ConfigError, ValueError):
            return ""
        is_name = "." in host and not host.rpartition(".")[2].isdigit()
        return address.partition("?")[0] if is_name else ""


def _load_table() -> Any:
    try:
        import genai_prices.data  # takes most of the time
    except Exception:
        return None
    return genai_prices


def make_price_error(model: str, problem: str) -> ConfigError:
    """Returns the error for a model whose price is required but unknown."""
    hint = f'add [prices."{model}"] with input and output to config.toml'
    if find_spec("genai_prices") is None:
        hint += ", or install a price table: pip install 'axe-nb[prices]'"
    return ConfigError(f"{problem}: the price of the model {quote(model)} is unknown", hint=hint)
