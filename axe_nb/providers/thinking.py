"""The `thinking` parameter and its token budget, converted for each protocol.

Values in a vendor's own form (`thinking = {…}`, `reasoning_effort`, `think`) are not converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.messages.model_table import find_facts, thinks
from axe_nb.providers.wire import table
from axe_nb.text import quote

THINKING = "thinking"

LONG = 21_333
"""Largest `max_tokens` for which an answer need not be streamed, as in Anthropic's SDK."""

LEAST_BUDGET = 1024
"""Smallest thinking budget that Anthropic accepts, in tokens."""


def find_room(model: str, params: Mapping[str, Any]) -> int:
    """Returns the maximum number of answer tokens, from `params`, the model table or a default."""
    given = params.get("max_tokens")
    if isinstance(given, int):
        return given
    return find_facts("", model).output or (32_000 if thinks(model, params) else 4096)


def takes_long(protocol: str, model: str, params: Mapping[str, Any]) -> bool:
    """True if a reply may take so long that a proxy might close the idle connection."""
    if thinks(model, params):
        return True
    if protocol == "anthropic":
        return find_room(model, params) > LONG
    keys = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
    return any(isinstance(n := params.get(key), int) and n > LONG for key in keys)


def check_thinking(protocol: str, model: str, params: Mapping[str, Any]) -> None:
    """Raises ConfigError if the model rejects the `thinking` level or budget in `params`."""
    asked, _ = split(params)
    if protocol == "script" or asked is None:
        return
    facts = find_facts("", model)
    counts = protocol == "anthropic" and facts.thinking in ("", "budget")
    levels = facts.levels if may_think(model) else ("off",)
    if (isinstance(asked, int) and not counts) or (isinstance(asked, str) and asked not in levels):
        choices = ", ".join([*levels, *(["a number of tokens"] if counts else [])])
        told = quote(asked) if isinstance(asked, str) else f"a number of tokens ({asked})"
        problem = f"params.{THINKING}: model {quote(model)} does not take {told}"
        raise ConfigError(problem, hint=f"choose one of: {choices}")
    room = find_room(model, params)
    tokens = asked if isinstance(asked, int) else LEAST_BUDGET
    if counts and asked != "off" and not LEAST_BUDGET <= tokens < room:
        told = f"{tokens} tokens are not between {LEAST_BUDGET} and the largest answer, {room}"
        hint = f"change it, raise params.max_tokens, or set params.{THINKING} to off"
        raise ConfigError(f"params.{THINKING}: {told}", hint=hint)


def for_anthropic(model: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Converts `params` for Anthropic's Messages API, and adds `max_tokens`, which is required."""
    asked, sent = split(params)
    sent.setdefault("max_tokens", find_room(model, params))
    facts = find_facts("", model)
    display = {"display": "summarized"} if facts.summarized else {}
    if asked is None:
        if facts.thinks == "default" and display:
            sent.setdefault(THINKING, {"type": "adaptive", **display})
    elif asked == "off":
        if facts.thinks == "default" or not facts.is_known:
            sent[THINKING] = {"type": facts.off}
    elif facts.thinking == "adaptive":
        sent[THINKING] = {"type": "adaptive", **display}
        sent["output_config"] = {"effort": asked, **table(params.get("output_config"))}
    else:
        tokens = asked
        if isinstance(asked, str):
            wanted = {"low": 2048, "medium": 8192, "high": 24_576}.get(asked, LEAST_BUDGET)
            tokens = min(wanted, max(LEAST_BUDGET, find_room(model, params) // 2))
        sent[THINKING] = {"type": "enabled", "budget_tokens": tokens}
    return sent


def asks_for_summary(params: Mapping[str, Any]) -> bool:
    """True if `thinking` is on and the user's `reasoning` parameter has no `summary` of its own."""
    asked, others = split(params)
    return asked not in (None, "off") and "summary" not in table(others.get("reasoning"))


def split(params: Mapping[str, Any]) -> tuple[str | int | None, dict[str, Any]]:
    """Returns the `thinking` level or budget (None if there is none) and the other parameters."""
    asked = params.get(THINKING)
    if not isinstance(asked, (str, int)):
        return None, dict(params)
    return asked, {key: value for key, value in params.items() if key != THINKING}


def may_think(model: str) -> bool:
    """True unless the model is known never to think."""
    facts = find_facts("", model)
    return facts.thinks != "never" or not facts.is_known
