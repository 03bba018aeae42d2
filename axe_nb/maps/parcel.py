"""The common part of the jobs of a map: what another process needs to run it, as data.

Agents, skills and context files travel as they were read here, with the functions and rule files
that are models, the functions that are tools, and the settings. No key does: a worker takes those
of its own environment and `config.toml`.
Source: product.md "Exploring" (executors); D-53; cluster-facts.md §3.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import Config
from axe_nb.agents.context import Context
from axe_nb.agents.names import parse_model
from axe_nb.errors import ConfigError
from axe_nb.make_provider import provider_for
from axe_nb.maps.batch import Asking, Batch
from axe_nb.maps.own_session import MapSession
from axe_nb.maps.progress import Tally
from axe_nb.maps.summary import Keep
from axe_nb.prices import Prices
from axe_nb.providers.secrets import mask_query
from axe_nb.redaction import SECRET_HEADERS, is_secret_name
from axe_nb.scripting.lookup import ScriptFunction, Scripts
from axe_nb.scripting.rules import Script
from axe_nb.session.snapshot import Key, Snapshot
from axe_nb.tools.tool import Tool

MAX_AGENTS = 1000
"""Agents that are looked at for what they need."""


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """All that the runs of a map have in common."""

    askings: tuple[tuple[str | Agent | None, Mapping[str, Any]], ...]
    """Agents, with the options of their runs as keywords."""
    keep: Keep
    defined: Mapping[str, Agent]
    """The agents of the session that the tree can reach."""
    read: tuple[Mapping[str, Agent | ConfigError], Mapping[Key, Context | ConfigError]]
    """Agents and texts that were read from files."""
    config: Config
    """The settings, without keys."""
    lacks: Mapping[str, tuple[str, ...]]
    """Provider → secret settings that a worker needs of its own: `base_url`, names of headers."""
    tools: tuple[Tool, ...]
    """The session's tools that the agents name."""
    scripts: Mapping[str, ScriptFunction | Script]
    version: str
    """That of axe_nb."""

    def make_batch(self) -> Batch:
        """Returns the map as a worker runs it, in a session of its own."""
        config = self._merge(Config.load())
        askings = [Asking(agent, options) for agent, options in self.askings]
        provider = provider_for(config, sent=self.scripts)
        agents_dir = askings[0].overrides.agents_dir
        snapshot = Snapshot(self.defined, agents_dir, provider, Prices(config))
        snapshot.add_read(*self.read)
        session = MapSession(
            agents=dict(self.defined), handed=self.tools, keeps_history=False,
            _settings=(config, snapshot),
        )  # fmt: skip
        return Batch(askings=askings, keep=self.keep, session=session, tally=Tally(""))

    def _merge(self, own: Config) -> Config:
        """The settings of the parcel, with the keys and secret headers of this machine.

        Raises:
            ConfigError: one is missing here.
        """
        providers: dict[str, Mapping[str, Any]] = dict(own.providers)
        for name, table in self.config.providers.items():
            mine = own.providers.get(name, {})
            headers = {**mine.get("headers", {}), **table.get("headers", {})}
            providers[name] = {**mine, **table, **({"headers": headers} if headers else {})}
        config = replace(self.config, providers=providers, key_commands=own.key_commands)
        for name, settings in self.lacks.items():
            mine = own.providers.get(name, {})
            has = {*mine, *_lower(mine.get("headers", {}))}
            if config.key_source(name):
                has.add("key_command")
            for setting in settings:
                if setting not in has:
                    raise ConfigError(
                        f"{setting} of provider {name} is secret and is not set there",
                        hint=f"set it under [providers.{name}] in the worker's config.toml",
                    )
        return config


def _lower(headers: Mapping[str, str]) -> set[str]:
    return {name.lower() for name in headers}


def find_version() -> str:
    """Returns the version of axe_nb in this process."""
    return str(vars(sys.modules["axe_nb"])["__version__"])


def make_parcel(batch: Batch) -> Parcel:
    """Returns the parcel of a map whose configuration was checked."""
    config, snapshot = batch.session.settings
    roots = [asking.plan.agent for asking in batch.askings if asking.plan]
    agents = [*roots, *_list_below(roots, snapshot)]
    names = {name for agent in agents for name in agent.tools}
    known = batch.session.tools
    providers, lacks = _clean(config)
    return Parcel(
        askings=tuple((asking.agent, asking.options) for asking in batch.askings),
        keep=batch.keep,
        defined=_list_defined(batch, agents, snapshot), read=snapshot.list_read(),
        config=replace(config, providers=providers, key_commands={}), lacks=lacks,
        tools=tuple(tool for name in sorted(names) if (tool := known.find(name))),
        scripts=dict(_list_scripts(batch, agents, snapshot)), version=find_version(),
    )  # fmt: skip


def _list_below(roots: Sequence[Agent], snapshot: Snapshot) -> list[Agent]:
    names = [name for root in roots for name in root.sub_agents]
    found = dict[str, Agent | None]()
    while names and len(found) < MAX_AGENTS:
        name = names.pop()
        if name not in found:
            try:
                agent = found[name] = snapshot.load(name)
                names += agent.sub_agents
            except ConfigError:  # reported where it is called, there as here
                found[name] = None
    return [agent for agent in found.values() if agent is not None]


def _list_defined(batch: Batch, agents: list[Agent], snapshot: Snapshot) -> dict[str, Agent]:
    needed = {name for agent in agents for name in agent.sub_agents}
    needed |= {asking.agent for asking in batch.askings if isinstance(asking.agent, str)}
    return {name: agent for name, agent in snapshot.defined.items() if name in needed}


def _list_scripts(
    batch: Batch, agents: list[Agent], snapshot: Snapshot
) -> Iterator[tuple[str, ScriptFunction | Script]]:
    models = [agent.model for agent in agents]
    for asking in batch.askings:
        models += filter(None, (asking.overrides.model, asking.overrides.model_all))
    for model in models:
        provider, name = parse_model(model)
        if provider != "script":
            continue
        scripts: Scripts = snapshot.provider_for(provider, name).scripts  # type: ignore[attr-defined]
        if found := scripts.find(name):
            yield name, found


def _clean(config: Config) -> tuple[dict[str, dict[str, Any]], dict[str, tuple[str, ...]]]:
    """The tables of the providers without their secrets, and the names of what was left out."""
    tables, lacks = {}, {}
    for name in config.known:
        table = dict(config.providers.get(name, {}))
        table.pop("api_key", None)
        left_out = ["key_command"] if table.pop("key_command", None) else []
        if headers := table.get("headers"):
            secret = {h for h in headers if h.lower() in SECRET_HEADERS or is_secret_name(h)}
            table["headers"] = {h: value for h, value in headers.items() if h not in secret}
            left_out += [header.lower() for header in sorted(secret)]
        try:
            url = config.base_url(name) if config.provider(name).has_server else ""
            parts = urlsplit(url)
            is_secret = "@" in parts.netloc or mask_query(parts.query) != parts.query
        except (ConfigError, ValueError):
            url, is_secret = "", False
        table.pop("base_url", None)
        if is_secret:
            left_out.append("base_url")
        elif (url and url != config.provider(name).base_url) or (url and name in config.providers):
            table["base_url"] = url
        if table:
            tables[name] = table
        if left_out:
            lacks[name] = tuple(left_out)
    return tables, lacks
