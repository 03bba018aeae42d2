"""Facts about vendors' models, from the data file `models.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

SOON = timedelta(days=180)
"""Period before a model's retirement in which axe_nb warns about it."""

ASKING = ("thinking", "reasoning", "reasoning_effort", "enable_thinking", "think")
"""Keys of `[params]` that can turn on thinking."""

OFF = (False, "none", "off", "disabled")
"""Values that turn thinking off, whether of a key in `ASKING` or of a subkey in `DECIDING`."""

DECIDING = ("type", "effort", "enabled")
"""Subkeys that turn thinking on or off, if the value of a key in `ASKING` is a table."""

LEVELS = ("off", "low", "medium", "high")
"""Levels to which `[params] thinking` can be set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts about one model; a fact that is unknown has its default value."""

    api: Literal["", "responses", "chat"] = ""
    """API to use at the vendor's own address; empty if the protocol has only one API."""
    thinks: Literal["never", "asked", "default"] = "never"
    """When the model thinks: `never`, if `asked` to, or by `default` unless thinking is off."""
    thinking: Literal["", "adaptive", "budget", "effort"] = ""
    levels: tuple[str, ...] = LEVELS
    """Levels of `[params] thinking` that the model accepts."""
    off: str = "disabled"
    """Value of `thinking.type` in Anthropic's API for the level `off`."""
    summarized: bool = False
    """True if replies omit the thinking text unless a summary is requested."""
    output: int | None = None
    """Maximum number of tokens in an answer, including thinking; None if unknown."""
    retires: date | None = None
    """Date on which the vendor retires the model; None if not announced."""

    @property
    def is_known(self) -> bool:
        return self is not UNKNOWN


UNKNOWN = ModelFacts()

_CLAUDE = re.compile(r"(?:[\w.-]*\banthropic\.)?(claude-[\w.@-]+?)(?:-v\d+(?::\d+)?)?")
"""Matches names of Claude models, including the forms that cloud platforms use."""


@cache
def find_facts(vendor: str, model: str) -> ModelFacts:
    """Returns the facts about a model, or `UNKNOWN` if the data file does not list the model.

    Args:
        vendor: the vendor of the model, not the name of the endpoint; empty for any vendor.
        model: the name without the provider, or as gateways and cloud platforms spell it:
            `anthropic/claude-…`, `us.anthropic.claude-…-v1:0`, `claude-…@20260928`.
    """
    name = model.rpartition("/")[2].lower()
    if spelled := _CLAUDE.fullmatch(name):
        name = re.sub("[.@]", "-", spelled[1])
    for family in _load_table()["family"]:
        if family["provider"].startswith(vendor) and re.fullmatch(family["pattern"], name):
            facts = {k: v for k, v in family.items() if k not in ("provider", "pattern")}
            return ModelFacts(**facts | {"levels": tuple(facts.get("levels", LEVELS))})
    return UNKNOWN


def suggest_model(provider: str) -> str:
    """Returns a provider's suggested model, in the form provider/model; empty if there is none."""
    name = _load_table()["suggested"].get(provider, "")
    return f"{provider}/{name}" if name else ""


def thinks(model: str, params: Mapping[str, Any]) -> bool:
    """True if a model thinks before it answers, because of `[params]` or by default."""
    facts = find_facts("", model)
    nested = params.get("chat_template_kwargs")
    tables = (params, nested) if isinstance(nested, Mapping) else (params,)
    asked = [table[key] for table in tables for key in ASKING if table.get(key) is not None]
    for value in asked:
        in_table = [value.get(key) for key in DECIDING] if isinstance(value, Mapping) else [value]
        if not any(one in OFF for one in in_table):
            return True
    return facts.thinks == "default" and (not asked or facts.off != "disabled")


def suggest_small() -> str:
    """Returns the suggested small model, in the form provider/model."""
    return str(_load_table()["small"])


def tell_end(model: str, today: date) -> tuple[str, str]:
    """Returns a warning and a hint if a model is retired or soon will be, else two empty texts."""
    provider, _, name = model.partition("/")
    vendor = provider if provider in ("anthropic", "openai") else ""
    end = find_facts(vendor, name).retires
    if end is None or end - today > SOON:
        return "", ""
    verb = "ended" if end <= today else "ends"
    other = suggest_model(vendor) or "a newer model"
    return f"its vendor {verb} this model on {end.isoformat()}", f"use {other}"


@cache
def _load_table() -> dict[str, Any]:
    import tomllib  # imported late, as many processes do not need it

    return tomllib.loads(Path(__file__).with_name("models.toml").read_text("utf-8"))
