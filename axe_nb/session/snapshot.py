"""The agents of one run tree, read once, when its root starts, and saved for later forks.

A tool may change files during the run, but this does not affect the run's agents, skills, context
files and scripts. Source: D-53, D-66, docs/threat-model.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from axe_nb.agents.agent import Agent, find_agent_file, list_agents
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import Briefing, Context, Definition, Definitions, brief, read_context
from axe_nb.engine.scope import AgentSource, RunScope
from axe_nb.engine.toolbox import BUILT_IN
from axe_nb.errors import ConfigError
from axe_nb.providers.prices import Prices
from axe_nb.providers.protocol import Provider
from axe_nb.session.overrides import Overrides
from axe_nb.text import quote
from axe_nb.threads import in_thread
from axe_nb.tools.output_form import Output, make_output


def find_script_dirs(agents_dir: str | None) -> tuple[Path, ...]:
    """Returns the folder `scripts` beside an agents folder; empty if no folder is given."""
    return (Path(agents_dir).expanduser().parent / "scripts",) if agents_dir else ()


def find_source_dirs(agents_dir: str | None) -> set[Path]:
    """Returns an agents folder and the folder `scripts` beside it; empty if none is given."""
    folders = (Path(agents_dir).expanduser(), *find_script_dirs(agents_dir)) if agents_dir else ()
    return {Path(os.path.realpath(folder)) for folder in folders}


T = TypeVar("T")

MAX_TEXT = 64 * 1024 * 1024
"""Maximum total size of agents, skills and context files; beyond it, no more agents are read."""

Key: TypeAlias = "tuple[str | tuple[str, ...], ...]"
"""Fields of an agent that determine which skill, files and pictures its context contains."""

Read: TypeAlias = "tuple[dict[str, Agent | ConfigError], dict[Key, Context | ConfigError]]"


class Snapshot:
    """The agents that one run tree can reach, with their skills and context files."""

    def __init__(
        self,
        defined: Mapping[str, Agent],
        agents_dir: str | None,
        provider_for: Callable[[str, str], Provider],
        prices: Prices,
        read: Read | None = None,
    ) -> None:
        """Creates a snapshot; `read` holds agents and contexts that another process has read."""
        self.prices = prices
        self.defined = dict(defined)
        """Name → agent that was defined in the session when the root started."""
        self._agents_dir = agents_dir
        self.provider_for = provider_for
        self.read: Read = read or ({}, {})
        self._agents, self._contexts = self.read
        self._size = 0
        self.loaded: dict[str, Agent] = {}
        self._is_taken = self._is_sent = read is not None
        self._roots: set[tuple[Key, bool]] = set()
        """Roots whose sub-agents have been read, and whether each root can start any agent."""
        self._check: Callable[[], None] = lambda: None
        """Function that raises TimeIsUp if the root's time is up."""

    @property
    def source(self) -> AgentSource:
        return AgentSource(
            load=self.load, knows=self.knows, provider_for=self.provider_for, brief=self.brief
        )

    def share(self) -> Snapshot:
        """Returns a snapshot of the same agents for another tree, which may read further agents."""
        shared = copy(self)
        shared._is_taken = self._is_sent
        return shared

    def load(self, name: str) -> Agent:
        if not self.knows(name):
            find_agent_file(name, self._agents_dir, also=self.defined)
            raise ConfigError(
                f"agent {quote(name)} was added after this run began",
                hint="start a new run to use it",
            )
        found = self.defined.get(name) or self._agents.get(name) or self._read_agent(name)
        self.loaded[name] = agent = _unwrap(found)
        return agent

    def knows(self, name: str) -> bool:
        """True unless the run's agents have been read and none of them has this name."""
        return name in self.defined or name in self._agents or not self._is_taken

    def restore(
        self, agents: Mapping[str, Agent], contexts: Iterable[tuple[Agent, Context]]
    ) -> None:
        """Uses an earlier run's agents and contexts instead of the current agents and contexts."""
        self.defined.update(agents)
        self.loaded.update(agents)
        self._contexts.update({_make_key(agent): context for agent, context in contexts})

    def define(self, agent: Agent) -> Definition:
        """Returns an agent in the form saved for forks, with its context if that has been read."""
        found = self._contexts.get(_make_key(agent))
        return Definition.of(agent, found if isinstance(found, Context) else None)

    async def brief(self, agent: Agent) -> Briefing:
        """Assembles the system prompt of an agent; its skill and files are read once."""
        is_slow = bool(agent.files or agent.skill) and _make_key(agent) not in self._contexts
        read = self._read_context
        context = await in_thread(read, agent) if is_slow else read(agent)
        return brief(agent, _unwrap(context))

    async def take(self, root: RunScope) -> None:
        """Reads all agents that a tree can reach. Later changes to files have no effect."""
        self._check = root.clock.check
        if self._is_taken:
            return
        has_own = _has_own_tools(root.agent) or bool(root.env.tools)
        read = _make_key(root.agent), has_own
        if (has_own or root.agent.sub_agents) and read not in self._roots:
            self._roots.add(read)
            with contextlib.suppress(TimeoutError):  # the run ends before its first request
                async with asyncio.timeout(root.clock.left):
                    await in_thread(self._take, root, has_own)
        self._is_taken = True

    def _take(self, root: RunScope, has_own: bool) -> None:
        known = {*self.defined, *list_agents(self._agents_dir)} if root.agent.sub_agents else ()
        names, seen = [*root.agent.sub_agents], set[str]()
        while names and root.clock.overdue(time.monotonic()) == 0.0:
            name = names.pop()
            if name in seen or name not in known:  # skips the search for similar names
                continue
            seen.add(name)
            with contextlib.suppress(ConfigError):  # raised when the agent is started
                agent = root.env.as_child(self.load(name))
                names += agent.sub_agents
                has_own = has_own or _has_own_tools(agent)
                self._read_context(agent)
                provider, model = parse_model(agent.model)
                if provider == "script":
                    self.provider_for(provider, model)
        others = list_agents(self._agents_dir) if has_own else ()
        for name in others:
            if name not in self._agents and root.clock.overdue(time.monotonic()) == 0.0:
                self._read_agent(name)

    def _read_agent(self, name: str) -> Agent | ConfigError:
        try:
            if self._size > MAX_TEXT:
                size = f"{MAX_TEXT >> 20} MB of texts"
                raise ConfigError(f"not read: the agents of a run are limited to {size}")
            agent = Agent.from_file(name, self._agents_dir)
        except ConfigError as error:
            self._agents[name] = error
            return error
        self._agents[name] = agent
        self._size += len(agent.text)
        return agent

    def _read_context(self, agent: Agent) -> Context | ConfigError:
        key = _make_key(agent)
        if key not in self._contexts:
            try:
                context = self._contexts[key] = read_context(agent, self._check)
                self._size += len(context.skill) + sum(len(text) for _, text in context.files)
                self._size += sum(picture.size for _, picture in context.pictures)
            except ConfigError as error:
                self._contexts[key] = error
        return self._contexts[key]


def _has_own_tools(agent: Agent) -> bool:
    return bool(agent.own_tools or set(agent.tools) - BUILT_IN.known)


def _make_key(agent: Agent) -> Key:
    return agent.path, agent.text, agent.workdir, agent.skill, agent.files


def _unwrap(found: T | ConfigError) -> T:
    if isinstance(found, ConfigError):
        raise copy(found)
    return found


def find_output(kept: Definitions | None) -> Output | None:
    """Returns the answer format that was saved with the agents, or None for a text answer."""
    if kept is None or kept.output is None:
        return None
    found: Output | None = kept.memory.get("output")
    return found or make_output(kept.output)


def describe_agents(
    snapshot: Snapshot,
    options: Overrides,
    forked: Definitions | None = None,
    changed: Mapping[str, Agent] | None = None,
) -> AgentSource:
    """Returns the agents of a snapshot as a source that can describe them for later forks.

    For a fork, `forked` holds the agents of the forked run, and `changed` maps run ids to
    the agents that the fork has changed. Entries are added to `changed` while the tree runs.
    """
    output = options.output or find_output(forked)

    def describe(root: Agent) -> Definitions:
        define = snapshot.define
        made = Definitions(
            root=define(root),
            agents={name: define(agent) for name, agent in snapshot.loaded.items()},
            changed={id: define(one) for id, one in (changed or {}).items()},
            model_all=options.model_all or (forked.model_all if forked else ""),
            vars={**(forked.vars if forked else {}), **options.vars},
            output=output.sent if output else None,
        )
        made.memory["output"] = output  # with its Python type
        return made

    return replace(snapshot.source, describe=describe)
