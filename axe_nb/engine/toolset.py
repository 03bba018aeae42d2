"""The tools that a run may use, and those of them that are offered to its model.

Source: seed 000 §3.9 (A-9.*), A-10.3, A-N1; D-3, D-20, D-44.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from axe_nb.agents.agent import Agent, find_place
from axe_nb.agents.servers import names_of_servers
from axe_nb.agents.tables import list_server_tools
from axe_nb.builtin import table as builtin
from axe_nb.builtin.web_search import make_server_tool
from axe_nb.delegation import table as delegation
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.errors import ConfigError
from axe_nb.messages import CallTraits, ToolCall, ToolSpec
from axe_nb.text import list_some, quote
from axe_nb.toolbox import REGISTRY, registry_of
from axe_nb.tools.registry import Registry, ToolTable
from axe_nb.tools.tool import Describe, Tool

MAX_NAMED = 20
"""Tools that an error names."""

HARD_DEPTH = 5
"""Maximum depth of any configuration (A-10.4)."""


@dataclass(frozen=True, slots=True)
class DepthLimit:
    """Depth limit of a tree (D-3)."""

    root: int = 0
    """The root's own `max_depth`; 0 = each tool's default."""
    lowest: int = HARD_DEPTH
    """The lowest `max_depth` on the path from the root; a child can only lower it."""

    def lowered(self, agent: Agent) -> DepthLimit:
        """Returns the limit for a child."""
        own = agent.sub_agents_config.max_depth or HARD_DEPTH
        return self if own >= self.lowest else replace(self, lowest=own)

    def of(self, tool: Tool) -> int:
        """The lowest depth at which a delegation tool may no longer be used (A-9.3)."""
        return min(self.root or tool.default_depth, self.lowest)


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of one run."""

    tools: Mapping[str, Tool]
    """Name → tool, including tools hidden by depth, which reject calls with their own message."""
    offered: tuple[ToolSpec, ...]
    """The tools offered to the model."""

    @property
    def is_needed(self) -> bool:
        """True if there are tools to run; otherwise the conversation is one turn (A-8.4)."""
        return bool(self.tools)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tools."""
        return tuple(self.tools)

    def find(self, name: str) -> Tool | None:
        """The tool with that name or alias (D-20); None if there is none."""
        if name in self.tools:
            return self.tools[name]
        meant = REGISTRY.expand(name)
        return self.tools.get(meant[0]) if len(meant) == 1 else None

    def describe(self, call: ToolCall) -> ToolCall:
        """The call with the traits of its tool; those of an unknown tool are the default."""
        tool = self.find(call.name)
        traits = tool.traits if tool else CallTraits()
        return call if call.traits == traits else replace(call, traits=traits)


def assemble(
    agent: Agent,
    depth: int,
    depth_limit: DepthLimit,
    policy: PermissionPolicy,
    handed: Sequence[Tool] = (),
    of_servers: Sequence[Tool] | None = None,
    describe: Describe = lambda _: "",
) -> Toolset:
    """Builds the toolset of `agent`; a delegation tool is offered iff `depth` is below its maximum.

    Args:
        handed: tools passed to the run as objects.
        of_servers: tools of the agent's MCP servers; None = these have not been started, so that
            their tools are not known.
        describe: name of another agent -> its description; empty = it has none.

    Raises:
        ConfigError: the agent names an unknown tool, or a function cannot be used as a tool.
    """
    registry = registry_of(agent, handed)
    table = ToolTable({tool.name: tool for tool in of_servers or ()})
    registry = Registry((*registry.sources, table))
    named = [name for given in agent.tools for name in registry.expand(given)]
    servers = names_of_servers(agent.mcp_servers)
    unknown = () if of_servers is not None else tuple(f"{name}__" for name in servers)
    of_params = dict(list_server_tools(agent.params))
    tools: dict[str, Tool] = {}
    more = (tool.name for tool in of_servers or ())
    for name in dict.fromkeys((*_list_sub_agent_tools(agent), *named, *more, *of_params)):
        tool = registry.find(name)
        if tool is None and name in of_params:
            tool = make_server_tool(name, f"{name}, run by the model's server")
        if tool is None and name.startswith(unknown):
            continue
        if tool is None or (tool.calls_sub_agents and not agent.sub_agents):
            raise _make_unknown_error(name, agent, registry)
        if agent.sub_agents_config.enabled or tool.effect != "delegate":
            tools[name] = tool.for_agent(agent, describe)
    for name in agent.permissions:
        is_of_server = name.partition("__")[0] in servers
        if name not in tools and name not in registry.known and not is_of_server:
            raise _make_unknown_error(name, agent, registry)
    offered = (
        tool.spec
        for tool in tools.values()
        if policy.offers(tool) and (tool.effect != "delegate" or depth < depth_limit.of(tool))
    )
    return Toolset(tools, tuple(offered))


def _list_sub_agent_tools(agent: Agent) -> list[str]:
    """Names of the tools that an agent gets from its `sub_agents` (D-44)."""
    if not agent.sub_agents:
        return []
    tools = map(delegation.SOURCE.find, delegation.SOURCE.names)
    return [tool.name for tool in tools if tool and tool.calls_sub_agents]


def _make_unknown_error(name: str, agent: Agent, registry: Registry) -> ConfigError:
    near = builtin.OTHER_NAMES.get(name.casefold()) or registry.nearest(name)
    meant = registry.find(near)
    if registry.find(name):
        hint = f"`sub_agents` offers {name}"
    elif near and not (meant and meant.calls_sub_agents):
        hint = f"did you mean {quote(near)}?"
    else:
        known = [tool.name for tool in registry if not tool.calls_sub_agents]
        hint = (
            f"known tools: {list_some([*registry.toolsets, *known], MAX_NAMED)}; in a notebook or "
            "in Python, decorate your own function with @axe_nb.tool first"
        )
    error = ConfigError(f"unknown tool {quote(name)} in agent {quote(agent.name)}", hint=hint)
    error.place = find_place(agent, "tools", name) or find_place(agent, "permissions", name)
    return error
