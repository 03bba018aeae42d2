"""Facts about the models of vendors, from the data file `models.toml`.

Source: D-73, D-79; issue 26.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any, Literal

SOON = timedelta(days=180)
"""Days before its end in which `doctor` warns of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts about one model; those that are not known have the values of the plain path."""

    api: Literal["", "responses", "chat"] = ""
    """API of the vendor's own address; empty = the protocol has only one."""
    thinks: Literal["never", "asked", "default"] = "never"
    """`asked` = only if `[params]` asks for it, `default` = also if nothing does."""
    thinking: Literal["", "adaptive", "budget", "effort"] = ""
    """Form in which thinking is asked for."""
    summarized: bool = False
    """True if the text of its thinking is left out unless a summary is asked for."""
    output: int | None = None
    """Largest answer in tokens, with thinking."""
    context: int | None = None
    """Largest conversation in tokens."""
    pictures: bool | None = None
    """True if it reads pictures; None = unknown."""
    retires: date | None = None
    """Day on which the vendor ends it, as far as announced."""

    def retires_soon(self, today: date) -> bool:
        """True if the vendor has ended the model, or ends it within `SOON`."""
        return self.retires is not None and self.retires - today <= SOON


UNKNOWN = ModelFacts()
"""Facts about a model that is not in the table."""


@cache
def find_facts(vendor: str, model: str) -> ModelFacts:
    """Returns the facts about a model, or `UNKNOWN`.

    Args:
        vendor: `anthropic` or `openai`; the vendor whose model it is, not the endpoint's name.
        model: the model's name without the provider; what a gateway puts before it, as in
            `anthropic/claude-…`, does not count.
    """
    name = model.rpartition("/")[2].lower()
    for family in _load_table()["family"]:
        if family["provider"] == vendor and re.fullmatch(family["pattern"], name):
            return ModelFacts(
                **{k: v for k, v in family.items() if k not in ("provider", "pattern")}
            )
    return UNKNOWN


def suggest_model(provider: str) -> str:
    """Returns the model, with its provider, that is suggested for one; empty if there is none."""
    name = _load_table()["suggested"].get(provider, "")
    return f"{provider}/{name}" if name and "/" not in name else name


@cache
def _load_table() -> dict[str, Any]:
    import tomllib  # on first use: many processes never ask
    from importlib.resources import files

    return tomllib.loads(files("axe_nb").joinpath("models.toml").read_text("utf-8"))
