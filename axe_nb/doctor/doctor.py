"""What is in the way of working here, and the next step for each: keys, servers, agents, versions.

Nothing that it says holds a key.
Source: product.md "Notebook" (`%axe doctor`); B-3; issue "Working in the notebook".
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Literal, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_files import list_agents
from axe_nb.agents.config import Config, config_path, format_path
from axe_nb.agents.files import expand_home
from axe_nb.agents.prompt import all_warnings
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.connections import server
from axe_nb.doctor.checks import Problem, problems
from axe_nb.errors import AxeError, ConfigError, ProviderError
from axe_nb.providers import listing
from axe_nb.text import list_some, quote
from axe_nb.threads import in_thread
from axe_nb.views.appearance import LOOKS

State = Literal["right", "note", "wrong"]
SIGNS: Mapping[State, str] = {
    "right": LOOKS["completed"].sign,
    "note": "·",
    "wrong": LOOKS["error"].sign,
}

PACKAGES = ("axe-nb", "ipython", "ipykernel", "ipywidgets", "anywidget", "httpx")
"""Whose versions matter; those of the notebook are not there in every environment."""

DOES_NOT_LIST = (404, 405, 501)
"""Statuses of servers that are there and know no list of models."""

NO_KEY = 3
"""Exit code of a missing key (D-22)."""

Models: TypeAlias = dict[str, list[str]]
"""Model → agents that use it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    state: State
    what: str
    told: str
    next_step: str = ""
    """Empty where nothing is to be done."""

    def __str__(self) -> str:
        first = f"{SIGNS[self.state]} {self.what:<16} {self.told}"
        return f"{first}\n{'':<19}→ {self.next_step}" if self.next_step else first


async def examine(
    agents_dir: str | None, defined: Mapping[str, Agent], find: Callable[[str], Agent]
) -> list[Finding]:
    """All findings, in the order that they are to be read in; servers are asked side by side.

    Args:
        agents_dir: folder to look agents up in first.
        defined: name → agent of this session, which needs no file.
        find: name -> agent, of the session or a file. Raises ConfigError.
    """
    config, settings = _settings()
    agents, of_agents = await in_thread(_agents, agents_dir, defined, find, config)
    used = _used(agents)
    known = [info for info in config.known.values() if info.has_server]
    names = [info.name for info in known if _is_wanted(info.name, used, config)]
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_server(name, used.get(name, {}), config)) for name in names]
    needing_keys = [info.name for info in known if info.needs_key]
    keys = [_key(name, used.get(name, {}), config) for name in needing_keys]
    servers = [finding for task in asked for finding in task.result()]
    return [_versions(), settings, *of_agents, *keys, *servers]


def _versions() -> Finding:
    found = {name: _version(name) for name in PACKAGES}
    missing = [name for name, version in found.items() if not version]
    listed = (f"{name} {version or '(not there)'}" for name, version in found.items())
    told = ", ".join([f"Python {platform.python_version()}", *listed])
    if not missing:
        return Finding("right", "versions", told)
    return Finding("note", "versions", told, f"for notebooks: pip install {' '.join(missing)}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _settings() -> tuple[Config, Finding]:
    """The settings, empty where they are not right, and what is to be said of them."""
    path = config_path()
    try:
        config = Config.load()
    except ConfigError as error:
        return Config(), _wrong("settings", error)
    if not path.exists():
        return config, Finding("note", "settings", f"no {format_path(path)}; none is needed")
    if os.name == "posix" and path.stat().st_mode & 0o077 and _holds_keys(config):
        told = f"{format_path(path)} holds keys and others can read it"
        return config, Finding("wrong", "settings", told, f"chmod 600 {format_path(path)}")
    return config, Finding("right", "settings", format_path(path))


def _holds_keys(config: Config) -> bool:
    return any(table.get("api_key") for table in config.providers.values())


def _agents(
    agents_dir: str | None,
    defined: Mapping[str, Agent],
    find: Callable[[str], Agent],
    config: Config,
) -> tuple[list[Agent], list[Finding]]:
    """The agents that could be read, and what is to be said of all of them."""
    names = sorted({*defined, *list_agents(agents_dir)})
    scripts = (expand_home(agents_dir).parent / "scripts",) if agents_dir else ()
    agents: list[Agent] = []
    findings: list[Finding] = []
    for name in names:
        try:
            agent = find(name)
        except ConfigError as error:
            findings.append(_wrong(f"agent {name}", error))
            continue
        agents.append(agent)
        findings += [Finding("note", f"agent {name}", warning) for warning in all_warnings(agent)]
        findings += [
            _told(f"agent {name}", problem)
            for problem in problems(agent, find, scripts)
            if not _is_told_of_its_provider(problem, agent, config)
        ]
    ill = {finding.what for finding in findings if finding.state == "wrong"}
    told = f"{len(names)} found, {len(names) - len(ill)} without a problem"
    step = "" if names else "`init NAME` writes a first one"
    return agents, [Finding("right" if not ill else "note", "agents", told, step), *findings]


def _told(what: str, problem: Problem) -> Finding:
    """A script that is not there is no fault yet: a cell may still define its function."""
    found = _wrong(what, problem.error)
    is_script = problem.key == ("model",) and not problem.is_mistake
    return replace(found, state="note") if is_script else found


def _is_told_of_its_provider(problem: Problem, agent: Agent, config: Config) -> bool:
    """Whether the rows of keys and servers say the same."""
    info = config.known.get(agent.model.partition("/")[0])
    return problem.key == ("model",) and not problem.is_mistake and bool(info and info.has_server)


def _used(agents: Iterable[Agent]) -> Mapping[str, Models]:
    used: dict[str, Models] = {}
    for agent in agents:
        provider, _, model = agent.model.partition("/")
        if model.strip():
            used.setdefault(provider, {}).setdefault(model, []).append(agent.name)
    return used


def _is_wanted(provider: str, used: Mapping[str, Models], config: Config) -> bool:
    """Whether a server is worth asking: used by an agent, with a key, or named in the settings."""
    is_named = provider not in PROVIDERS
    return is_named or provider in used or bool(config.key_source(provider))


def _key(provider: str, models: Models, config: Config) -> Finding:
    what = f"{provider} key"
    try:
        config.api_key(provider)
        return Finding("right", what, f"set ({config.key_source(provider)})")
    except ConfigError as error:
        if config.key_source(provider):
            return _wrong(what, error)
    if not models:
        return Finding("note", what, "not set; no agent here needs it")
    variable = config.provider(provider).key_variable
    step = f"set {variable}, or api_key under [providers.{provider}] in config.toml"
    return Finding("wrong", what, f"not set, for {_some(models)}", step)


async def _server(provider: str, models: Models, config: Config) -> list[Finding]:
    """Whether the server is there, lets us in, and has the models that agents use."""
    what = f"{provider} server"
    try:
        asked = server(provider, config)
        names = await listing.models(asked)
    except ProviderError as error:
        where = listing.address(asked)
        if error.status in DOES_NOT_LIST:
            return [Finding("note", what, f"up at {where}; it does not list its models")]
        told = f"up at {where}, refuses the key" if error.category == "auth" else error.detail
        at = "" if where in told else f" ({where})"
        return [Finding("wrong", what, f"{told}{at}", error.hint or "check its base_url")]
    except ConfigError as error:
        has_no_key = error.exit_code == NO_KEY  # the row of keys says it
        return [] if has_no_key else [_wrong(what, error)]
    up = Finding("right", what, f"up at {listing.address(asked)}, {len(names)} models")
    lacking = [model for model in models if not listing.has(model, names)]
    return [
        up,
        *(
            Finding(
                "wrong", what, f"has no {quote(model)}, for {_some({model: models[model]})}",
                listing.advice(asked.info, model, names) or "choose another model",
            )
            for model in lacking
        ),
    ]  # fmt: skip


def _some(models: Models) -> str:
    """The agents that need the models, in a few words."""
    agents = sorted({agent for users in models.values() for agent in users})
    return f"{'agent' if len(agents) == 1 else 'agents'} {list_some(agents, 3)}"


def _wrong(what: str, error: AxeError) -> Finding:
    place = f" ({error.place})" if error.place else ""
    return Finding("wrong", what, f"{error}{place}", error.hint)
