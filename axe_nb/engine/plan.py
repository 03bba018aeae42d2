"""A fully resolved run, before anything is sent; the dry run prints it.

Source: A-8.4, A-10.3, B-7, B-10.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.context import Context
from axe_nb.agents.names import parse_model
from axe_nb.agents.place import find_place
from axe_nb.agents.prompt import NO_PROMPT, Briefing, brief
from axe_nb.engine.confine import check_rights
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.scope import RunScope
from axe_nb.engine.toolset import Toolset, assemble
from axe_nb.errors import ConfigError
from axe_nb.imports import protect_imports
from axe_nb.providers.protocol import Provider
from axe_nb.scripting.lookup import ScriptNotFound
from axe_nb.text import quote
from axe_nb.tools.tool import Job

MAX_CHECKED = 100
"""Sub-agents that are checked before a run; a search for similar names takes milliseconds."""


WRONG_MODEL = 1
"""Exit code of a mistake in the model's name; other errors are about settings and keys (D-22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run, ready to start."""

    scope: RunScope
    job: Job
    provider: Provider
    model: str
    """Model name without the provider."""
    briefing: Briefing
    toolset: Toolset
    missing: tuple[str, ...]
    """Warnings about sub-agents that cannot be called."""

    @property
    def agent(self) -> Agent:
        """The agent to run."""
        return self.scope.agent

    @property
    def streams(self) -> bool:
        """True if the model's replies are streamed; children stream as their root does."""
        return self.scope.env.streams and self.agent.stream

    @property
    def prompt(self) -> str:
        """The complete prompt that the agent will receive (B-8)."""
        return self.job.prompt if self.job.prompt.strip() else NO_PROMPT

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings found while resolving the run."""
        return (*self.agent.warnings, *self.briefing.warnings, *self.missing)


async def make_plan(scope: RunScope, job: Job) -> Plan:
    """Resolves the model, API key, skill, files and tools of a run.

    Raises:
        ConfigError: invalid model, missing key, missing skill, invalid glob or unknown tool.
    """
    agent = scope.agent
    provider, model = _make_provider(scope)
    briefing = await _brief(scope)
    scope.env.sources.update(_list_sources(agent, briefing))
    protect_imports(briefing.workdir.real)
    toolset = assemble(agent, scope.depth, scope.depth_limit, scope.policy, scope.env.tools)
    return Plan(
        scope=scope, job=job, provider=provider, model=model, briefing=briefing, toolset=toolset,
        missing=tuple(_find_missing(scope, toolset)),
    )  # fmt: skip


def _make_provider(scope: RunScope) -> tuple[Provider, str]:
    """The provider, and the model's name without it.

    Raises:
        ConfigError: invalid model or missing key; a mistake in the agent's file has its place.
    """
    model = scope.agent.model
    try:
        provider, name = parse_model(model)
        return scope.env.agents.provider_for(provider, name), name
    except ConfigError as error:
        if isinstance(error, ScriptNotFound) or error.exit_code == WRONG_MODEL:
            error.place = error.place or find_place(scope.agent, "model", model)
        raise


async def _brief(scope: RunScope) -> Briefing:
    """The agent's context; without its files if the time is up before they are read.

    The run then ends before its first request, as any other run whose time is up.
    """
    try:
        async with scope.clock.limit():
            return await scope.env.agents.brief(scope.agent)
    except TimeoutError:
        return brief(scope.agent, Context("", (), ("not all files were read in time",), ()))


def _find_missing(scope: RunScope, toolset: Toolset) -> Iterator[str]:
    """Yields a warning for each sub-agent on offer that cannot be started (A-E2.4)."""
    if not any(toolset.tools[spec.name].calls_sub_agents for spec in toolset.offered):
        return
    for name in islice(dict.fromkeys(scope.agent.sub_agents), MAX_CHECKED):
        try:
            agent = scope.env.agents.load(name)
            check_rights(agent, PermissionPolicy.below(scope.policy, agent))
        except ConfigError as error:
            cause = "; ".join(filter(None, (error.message, error.hint)))
            yield f"sub-agent {quote(name)} cannot be called: {cause}"


def _list_sources(agent: Agent, briefing: Briefing) -> Iterator[Path]:
    """Yields the real files that a run is loaded from (D-52)."""
    yield from briefing.sources
    if agent.path:
        yield Path(os.path.realpath(agent.path))
