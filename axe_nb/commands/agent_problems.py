"""Problems that would stop an agent from running, found without sending anything.

Each problem names its key, so that its line can be shown.
Source: B-2, B-3, B-6, D-20, A-E2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.globs import check_glob
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import brief, fill_in
from axe_nb.agents.provider_table import SEARCH
from axe_nb.agents.user_config import Config
from axe_nb.engine.make_provider import make, provider_for
from axe_nb.engine.plan import check_agent_thinking, check_search
from axe_nb.engine.toolbox import find_tools
from axe_nb.errors import ConfigError
from axe_nb.providers.prices import Prices, make_price_error
from axe_nb.providers.protocol import Provider
from axe_nb.providers.thinking import THINKING


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem that stops an agent from running."""

    key: tuple[str, ...]
    """Its key in the agent's TOML."""
    entry: str
    """The entry of the key's list; empty if it is not a list."""
    error: ConfigError
    is_mistake: bool
    """True if the TOML itself must change, False if something else is missing."""


def problems(
    agent: Agent, find: Callable[[str], Agent], scripts: tuple[Path, ...] = ()
) -> list[Problem]:
    """Returns all problems of this agent, mistakes in the TOML first.

    `scripts` are folders that are searched for script models first.
    """
    found = []
    for key, entry, is_mistake, check in _list_checks(agent, find, scripts):
        try:
            check()
        except ConfigError as error:
            found.append(Problem(key, entry, error, is_mistake))
    return sorted(found, key=lambda problem: not problem.is_mistake)


Check = tuple[tuple[str, ...], str, bool, Callable[[], object]]
"""(key, entry, true if a failure is a mistake in the TOML, the check itself)"""


def _list_checks(
    agent: Agent, find: Callable[[str], Agent], scripts: tuple[Path, ...]
) -> Iterator[Check]:
    provider, _, name = agent.model.partition("/")
    config = None
    with suppress(ConfigError):  # of the settings, which has a row of its own
        config = Config.load()
    yield ("model",), "", True, partial(parse_model, agent.model)
    if provider.strip() and name.strip():
        is_unknown = config is not None and provider not in config.known
        yield ("model",), "", is_unknown, partial(_make_provider, provider, name, scripts)
        yield ("params", THINKING), "", False, partial(_check_model, agent, check_agent_thinking)
        yield ("tools",), SEARCH, False, partial(_check_model, agent, check_search)
    yield ("system_prompt",), "", False, partial(fill_in, agent)
    bare = replace(agent, vars={}, tools=(), permissions={}, files=(), skill="", workdir="")
    for name in agent.tools:
        yield ("tools",), name, True, partial(find_tools, replace(bare, tools=(name,)))
    for name, decision in agent.permissions.items():
        own = (name,) if name in agent.tools else ()
        alone = replace(bare, tools=own, permissions={name: decision})
        yield ("permissions", name), "", True, partial(find_tools, alone)
    for pattern in agent.files:
        yield ("files",), pattern, True, partial(check_glob, pattern)
    if agent.limits.max_cost:
        yield ("limits", "max_cost"), "", False, partial(_check_price, agent.model)
    yield ("workdir",), "", False, partial(brief, replace(bare, workdir=agent.workdir))
    yield ("skill",), "", False, partial(brief, replace(bare, skill=agent.skill))
    for name in agent.sub_agents:
        yield ("sub_agents",), name, False, partial(find, name)


def _check_price(model: str) -> None:
    if not Prices(Config.load()).knows(model):
        raise make_price_error(model, "limits.max_cost cannot be enforced")


def _check_model(agent: Agent, check: Callable[[Agent, Provider], None]) -> None:
    """Checks the agent's demands on its model's server; an unknown server has a row of its own."""
    name, model = parse_model(agent.model)
    try:
        provider = make(name, Config.load(), model=model, needs="provider")
    except ConfigError:
        return
    check(agent, provider)


def _make_provider(provider: str, model: str, scripts: tuple[Path, ...]) -> Provider:
    return provider_for(Config.load(), scripts)(provider, model)
