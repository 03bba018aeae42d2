"""What will stop an agent from running, found without sending a word.

Each problem names its key, so that a face can point at the line.
Source: product.md "Notebook" (`%%axe_agent`, `%axe doctor`); B-2, B-3, B-6, D-20, A-E2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import Config
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import brief
from axe_nb.connections import provider_for
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.toolset import DepthLimit, assemble
from axe_nb.errors import ConfigError
from axe_nb.globs import check_glob


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is in the way of an agent."""

    key: tuple[str, ...]
    """Where it is written in the agent's TOML."""
    entry: str
    """Which entry of the key's list; empty where it is no list."""
    error: ConfigError
    is_mistake: bool
    """Whether the TOML itself has to change; else something around it is missing."""


def problems(
    agent: Agent, find: Callable[[str], Agent], scripts: tuple[Path, ...] = ()
) -> list[Problem]:
    """All that is in the way of this agent, mistakes first.

    Args:
        agent: whose TOML is right so far.
        find: name -> agent. Raises ConfigError.
        scripts: folders to look script models up in first.
    """
    found = [problem for check in _checks(agent, find, scripts) if (problem := _tried(*check))]
    return sorted(found, key=lambda problem: not problem.is_mistake)


Check = tuple[tuple[str, ...], str, bool, Callable[[], object]]
"""(key, entry, whether a failure is a mistake in the TOML, the check itself)"""


def _checks(
    agent: Agent, find: Callable[[str], Agent], scripts: tuple[Path, ...]
) -> Iterator[Check]:
    provider, _, name = agent.model.partition("/")
    yield ("model",), "", True, partial(parse_model, agent.model)
    if provider.strip() and name.strip():
        reachable = partial(_reachable, provider, name, scripts)
        yield ("model",), "", _is_unknown(provider), reachable
    bare = replace(agent, tools=(), permissions={}, files=(), skill="", workdir="")
    for name in agent.tools:
        yield ("tools",), name, True, partial(_tools, replace(bare, tools=(name,)))
    for name, decision in agent.permissions.items():
        own = (name,) if name in agent.tools else ()
        alone = replace(bare, tools=own, permissions={name: decision})
        yield ("permissions", name), "", True, partial(_tools, alone)
    for pattern in agent.files:
        yield ("files",), pattern, True, partial(check_glob, pattern)
    yield ("workdir",), "", False, partial(brief, replace(bare, workdir=agent.workdir))
    yield ("skill",), "", False, partial(brief, replace(bare, skill=agent.skill))
    for name in agent.sub_agents:
        yield ("sub_agents",), name, False, partial(find, name)


def _tried(
    key: tuple[str, ...], entry: str, is_mistake: bool, check: Callable[[], object]
) -> Problem | None:
    try:
        check()
    except ConfigError as error:
        return Problem(key, entry, error, is_mistake)
    return None


def _tools(agent: Agent) -> None:
    assemble(agent, 0, DepthLimit(), PermissionPolicy(agent, agent.mode))


def _is_unknown(provider: str) -> bool:
    """Whether neither the package nor the settings know the provider."""
    try:
        return provider not in Config.load().known
    except ConfigError:
        return False  # the settings are what is wrong


def _reachable(provider: str, model: str, scripts: tuple[Path, ...]) -> None:
    """Refuses a model without a key, a base URL, or its script."""
    provider_for(Config.load(), scripts)(provider, model)
