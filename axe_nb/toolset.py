"""Which tools a run may use, and which of them its model is told of.

Source: seed 000 §3.9 (A-9.*), A-10.3, A-N1; D-3, D-44.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from axe_nb.agent import Agent, quoted
from axe_nb.builtin import call_agent
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolSpec
from axe_nb.permissions import Permit
from axe_nb.python_tool import SESSION
from axe_nb.tool import Tool

HARD_DEPTH = 5
"""No configuration goes deeper (A-10.4)."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How deep a tree may go (D-3)."""

    root: int = 0
    """The root's own `max_depth`; 0 = each tool's default."""
    lowest: int = HARD_DEPTH
    """The lowest `max_depth` set on the way down: a child can lower the limit, never raise it."""

    def lowered(self, agent: Agent) -> Ceiling:
        """The ceiling for a child."""
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
    ceiling: Ceiling

    @property
    def is_needed(self) -> bool:
        """Whether calls are run at all; else a conversation is one turn (A-8.4)."""
        return bool(self.tools)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tools."""
        return tuple(self.tools)

    def find(self, name: str) -> Tool | None:
        """The tool that a model means; None where there is none."""
        return self.tools.get(name)


def assemble(
    agent: Agent, depth: int, ceiling: Ceiling, permit: Permit, extra: Sequence[Tool] = ()
) -> Toolset:
    """The tools of `agent` at `depth`: a delegation tool is offered iff depth < its maximum.

    Raises:
        ConfigError: the agent names a tool that there is not.
    """
    mine = {**SESSION, **{tool.name: tool for tool in extra}}
    tools: dict[str, Tool] = {}
    if agent.sub_agents and agent.sub_agents_config.enabled:
        tools[call_agent.NAME] = call_agent.tool(agent.sub_agents)
    for name in agent.tools:
        tool = mine.get(name)
        if tool is None:
            raise ConfigError(f"unknown tool {quoted(name)} in agent {quoted(agent.name)}")
        tools[name] = tool
    offered = (
        tool.spec
        for tool in tools.values()
        if permit.offers(tool) and (tool.effect != "delegate" or depth < ceiling.of(tool))
    )
    return Toolset(tools, tuple(offered), ceiling)
