"""Which tools a run may use, and which of them its model is told of.

Source: seed 000 §3.9 (A-9.*), A-10.3, A-N1; D-3, D-20, D-44.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from axe_nb import delegation
from axe_nb.agents.agent import Agent
from axe_nb.delegation.child_copy import calls_sub_agents
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolSpec
from axe_nb.text import quote
from axe_nb.toolbox import REGISTRY, registry_of
from axe_nb.tools.registry import Registry
from axe_nb.tools.tool import Tool

HARD_DEPTH = 5
"""No configuration goes deeper (A-10.4)."""


@dataclass(frozen=True, slots=True)
class DepthLimit:
    """How deep a tree may go (D-3)."""

    root: int = 0
    """The root's own `max_depth`; 0 = each tool's default."""
    lowest: int = HARD_DEPTH
    """The lowest `max_depth` set on the way down: a child can lower the limit, never raise it."""

    def lowered(self, agent: Agent) -> DepthLimit:
        """The limit for a child."""
        own = agent.sub_agents_config.max_depth or HARD_DEPTH
        return replace(self, lowest=min(self.lowest, own))

    def of(self, tool: Tool) -> int:
        """The depth from which on a delegation tool may not be used (A-9.3)."""
        return min(self.root or tool.default_depth, self.lowest)


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of one run."""

    tools: Mapping[str, Tool]
    """Name → tool: all that it has, also those hidden by depth, which refuse in their own words."""
    offered: tuple[ToolSpec, ...]
    """Those that the model is told of."""

    @property
    def is_needed(self) -> bool:
        """Whether calls are run at all; else a conversation is one turn (A-8.4)."""
        return bool(self.tools)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tools."""
        return tuple(self.tools)

    def find(self, name: str) -> Tool | None:
        """The tool that a model means, also by an alias (D-20); None where there is none."""
        meant = REGISTRY.expand(name)
        return self.tools.get(name) or (self.tools.get(meant[0]) if len(meant) == 1 else None)


def assemble(
    agent: Agent,
    depth: int,
    depth_limit: DepthLimit,
    policy: PermissionPolicy,
    handed: Sequence[Tool] = (),
) -> Toolset:
    """The tools of `agent` at `depth`: a delegation tool is offered iff depth < its maximum.

    Args:
        handed: tools that its run was given as objects.

    Raises:
        ConfigError: the agent names a tool that there is not, or a function cannot be a tool.
    """
    registry = registry_of(agent, handed)
    named = [name for given in agent.tools for name in registry.expand(given)]
    tools: dict[str, Tool] = {}
    for name in (*_of_sub_agents(agent), *named):
        tool = registry.find(name)
        if tool is None or (tool.calls_sub_agents and not agent.sub_agents):
            raise _unknown(name, agent, registry)
        if agent.sub_agents_config.enabled or tool.effect != "delegate":
            tools[name] = tool.for_agent(agent)
    for name in agent.permissions:
        if name not in tools and name not in registry.known:
            raise _unknown(name, agent, registry)
    offered = (
        tool.spec
        for tool in tools.values()
        if policy.offers(tool) and (tool.effect != "delegate" or depth < depth_limit.of(tool))
    )
    return Toolset(tools, tuple(offered))


def _of_sub_agents(agent: Agent) -> list[str]:
    """The tools that an agent has by its `sub_agents` (D-44)."""
    if not agent.sub_agents:
        return []
    return [name for name in delegation.SOURCE.names if calls_sub_agents(name)]


def _unknown(name: str, agent: Agent, registry: Registry) -> ConfigError:
    near = registry.nearest(name)
    if registry.find(name):
        hint = f"`sub_agents` offers {name}"
    elif near and not calls_sub_agents(near):
        hint = f"did you mean {quote(near)}?"
    else:
        hint = "a tool of yours needs @axe_nb.tool above it, in a cell that has run"
    return ConfigError(f"unknown tool {quote(name)} in agent {quote(agent.name)}", hint=hint)
