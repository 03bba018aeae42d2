"""Which tools a run may use, and which of them its model is told of.

Source: seed 000 §3.9 (A-9.*), A-10.3, A-N1; D-3, D-20, D-44.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from axe_nb.agents.agent import Agent
from axe_nb.builtin import ALIASES, NAMES, TOOLSETS, canonical, expanded, find
from axe_nb.delegation import call_agent, delegate_task, spawn_agent, subagent
from axe_nb.engine.permissions import Permit
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolSpec
from axe_nb.text import nearest, quote
from axe_nb.tools.python_tool import SESSION
from axe_nb.tools.tool import Tool

HARD_DEPTH = 5
"""No configuration goes deeper (A-10.4)."""

KNOWN = (
    *NAMES, *TOOLSETS, *ALIASES,
    call_agent.NAME, subagent.NAME, spawn_agent.NAME, delegate_task.NAME,
)  # fmt: skip
"""Names that agents and `[permissions]` may use without a tool of the user's own."""


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
        """The tool that a model means, also by an alias (D-20); None where there is none."""
        return self.tools.get(name) or self.tools.get(canonical(name))


def assemble(
    agent: Agent, depth: int, ceiling: Ceiling, permit: Permit, extra: Sequence[Tool] = ()
) -> Toolset:
    """The tools of `agent` at `depth`: a delegation tool is offered iff depth < its maximum.

    Args:
        extra: tools that may be named beside the built-in ones and those of the session.

    Raises:
        ConfigError: the agent names a tool that there is not.
    """
    own = {**SESSION, **{tool.name: tool for tool in extra}} if extra else SESSION
    config = agent.sub_agents_config
    names = [name for given in agent.tools for name in expanded(given)]
    if agent.sub_agents:
        names.insert(0, call_agent.NAME)
    tools: dict[str, Tool] = {}
    for name in names:
        tool = _delegation(name, agent) or own.get(name) or find(name)
        if tool is None:
            raise _unknown(name, agent, (*KNOWN, *own))
        if config.enabled or tool.effect != "delegate":
            tools[name] = tool
    for name in agent.permissions:
        if name not in tools and name not in KNOWN and name not in own:
            raise _unknown(name, agent, (*KNOWN, *own))
    offered = (
        tool.spec
        for tool in tools.values()
        if permit.offers(tool) and (tool.effect != "delegate" or depth < ceiling.of(tool))
    )
    return Toolset(tools, tuple(offered), ceiling)


def _delegation(name: str, agent: Agent) -> Tool | None:
    """The delegation tool of that name; None where it is none, or one without anybody to call."""
    config = agent.sub_agents_config
    match name:
        case call_agent.NAME if agent.sub_agents:
            return call_agent.tool(agent.sub_agents)
        case subagent.NAME:
            return subagent.tool(config)
        case spawn_agent.NAME:
            return spawn_agent.tool(config.budget)
        case delegate_task.NAME:
            return delegate_task.TOOL
    return None


def _unknown(name: str, agent: Agent, known: Iterable[str]) -> ConfigError:
    near = nearest(name, known)
    hint = (
        "`sub_agents` offers call_agent"
        if name == call_agent.NAME
        else f"did you mean {quote(near)}?"
        if near
        else "a tool of yours needs @axe_nb.tool above it, in a cell that has run"
    )
    return ConfigError(f"unknown tool {quote(name)} in agent {quote(agent.name)}", hint=hint)
