"""The variants of a grid: agents × models × parameters × prompts, each with a short name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

from axe_nb.agents.agent import Agent
from axe_nb.conversion.jsonable import jsonable
from axe_nb.errors import ConfigError
from axe_nb.results import NO_AGENT
from axe_nb.text import one_line

T = TypeVar("T")

MAX_LABEL = 40
"""Characters of one part of a variant's name, unless another one begins with the same."""

SEPARATOR = " · "


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to ask."""

    label: str
    """Name by what it differs in from the others; a single variant has the name of its agent."""
    agent: str | Agent | None = field(repr=False)
    model: str | None = None
    """provider/model; None = that of the agent."""
    params: Mapping[str, Any] | None = None
    """None = those of the agent."""
    prompt: str = field(repr=False)
    """Template of the prompt."""


def make_variants(agents: Any, models: Any, params: Any, prompts: Any) -> tuple[Variant, ...]:
    """Makes all combinations, in order.

    Args:
        agents: an agent or its name, or several; None = models are asked without one.
        models: provider/model, or several; None = that of each agent.
        params: parameters of the model, or several, also as label → parameters; None = those of
            each agent.
        prompts: a template, or several, also as label → template.

    Raises:
        ConfigError: there are none, or two of them are the same.
    """
    choices = [
        _name("agents", _list(agents, (str, Agent, type(None))), name_agent),
        _name("models", _list(models, (str, type(None))), str),
        _name_params(params),
        _name("prompt", _list(prompts, (str,)), lambda _: ""),
    ]
    varied = [len(choice) > 1 for choice in choices]
    variants = []
    for combination in product(*choices):
        parts = [label for (label, _), many in zip(combination, varied, strict=True) if many]
        agent, model, some, prompt = (value for _, value in combination)
        label = SEPARATOR.join(parts) or name_agent(agent)
        variants.append(Variant(label=label, agent=agent, model=model, params=some, prompt=prompt))
    return tuple(variants)


def _list(given: Any, single: tuple[type, ...]) -> Any:
    return [given] if isinstance(given, single) else given


def name_agent(agent: str | Agent | None) -> str:
    """Returns the name of an agent, for people."""
    return (agent.name if isinstance(agent, Agent) else agent) or NO_AGENT


def _name_params(given: Any) -> Sequence[tuple[str, Any]]:
    is_one = isinstance(given, Mapping) and not all(isinstance(v, Mapping) for v in given.values())
    if given is None or is_one or given == {}:
        return [("", given)]
    return _name("params", given, _describe_params)


def _describe_params(params: Mapping[str, Any]) -> str:
    said = (f"{name}={json.dumps(jsonable(value))}" for name, value in params.items())
    return ", ".join(said) or "no params"


def _name(what: str, given: Any, describe: Any) -> Sequence[tuple[str, Any]]:
    """Returns (label, value) of each choice."""
    if isinstance(given, Mapping):
        named = [(str(label), value) for label, value in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        values = list(given)
        named = [
            (describe(value) or f"{what} {number}", value) for number, value in enumerate(values)
        ]
    else:
        raise ConfigError(f"{what} takes one value or a list, not {type(given).__name__}")
    if not named:
        raise ConfigError(f"{what} is empty: there is nothing to run")
    short = [one_line(label, MAX_LABEL) for label, _ in named]
    labels = [  # those that would be cut to the same are whole
        label if short.count(label) == 1 else one_line(whole, max(len(whole), MAX_LABEL))
        for label, (whole, _) in zip(short, named, strict=True)
    ]
    for label in labels:
        if labels.count(label) > 1:
            hint = f'name them: {what}={{"before": …, "after": …}}'
            raise ConfigError(f"{what} contains {one_line(label, MAX_LABEL)} twice", hint=hint)
    return [(label, value) for label, (_, value) in zip(labels, named, strict=True)]
