"""The tools that a run may use, and those of them that are offered to its model.

Also those that its model's server runs: their entries, and the approval for them.
Source: A-9.*, A-10.3, A-N1, D-3, D-20, D-44, D-50, D-76.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.agents.agent import Agent, find_place
from axe_nb.agents.names import ANY, is_address, parse_model
from axe_nb.agents.provider_table import SEARCH, SERVER_TOOLS
from axe_nb.agents.tables import names_of_servers
from axe_nb.builtin import table as builtin
from axe_nb.builtin.web_search import make_server_tool
from axe_nb.delegation import table as delegation
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.scope import DepthLimit, RunScope
from axe_nb.engine.toolbox import REGISTRY, registry_of
from axe_nb.errors import ConfigError
from axe_nb.messages import CallTraits, ToolCall, ToolSpec
from axe_nb.providers.prices import make_price_error
from axe_nb.providers.protocol import Provider
from axe_nb.providers.server_tools import make_entry
from axe_nb.text import list_some, quote
from axe_nb.tools.registry import Registry, ToolTable
from axe_nb.tools.tool import Describe, Guard, Tool

MAX_NAMED = 20
"""Tools that an error names."""


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
    of_params = agent.params.get(SERVER_TOOLS, {})
    tools: dict[str, Tool] = {}
    more = (tool.name for tool in of_servers or ())
    below = map(delegation.SOURCE.find, delegation.SOURCE.tools if agent.sub_agents else ())
    own = [tool.name for tool in below if tool and tool.calls_sub_agents]  # D-44
    for name in dict.fromkeys((*own, *named, *more, *of_params)):
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


def enter_server_tools(
    scope: RunScope, toolset: Toolset, provider: Provider
) -> tuple[Toolset, tuple[Tool, ...]]:
    """Returns the toolset with the entries of the server's tools, and those that need approval.

    Raises:
        ConfigError: the server has no such tool, or a limit of the cost cannot be enforced.
    """
    if not any(tool.by_server for tool in toolset.tools.values()):
        return toolset, ()
    offered: list[ToolSpec] = []
    to_permit: list[Tool] = []
    for spec in toolset.offered:
        tool = toolset.tools[spec.name]
        if not tool.by_server:
            offered.append(spec)
            continue
        _check_price(scope, tool)
        is_permitted, entry = _make_entry(scope, tool, provider)
        offered.append(replace(spec, entry=entry))
        to_permit += [] if is_permitted else [tool]
    return replace(toolset, offered=tuple(offered)), tuple(to_permit)


def _make_entry(scope: RunScope, tool: Tool, provider: Provider) -> tuple[bool, Mapping[str, Any]]:
    """Returns the entry of a tool, and True if it needs no approval.

    A search that can be limited to the hosts that the run may reach anyway needs none (D-50), but
    in plan mode.
    """
    policy, agent = scope.policy, scope.agent
    server = provider.name, getattr(provider, "base_url", "")
    options = agent.params.get(SERVER_TOOLS, {}).get(tool.name, {})
    is_permitted = policy.decide(tool, Guard(host=ANY))[0] == "allow"
    if not is_permitted and tool.name == SEARCH and policy.mode != "plan":
        listed = dict.fromkeys(host for one in policy.agents for host in one.allowed_hosts)
        hosts = [one for one in listed if policy.decide(tool, Guard(host=one))[0] == "allow"]
        names = [host.removeprefix("*.") for host in hosts]
        domains = [name for name in names if "." in name and not is_address(name)]
        if domains and (limited := make_entry(*server, SEARCH, options, domains)):
            return True, limited
    entry = make_entry(*server, tool.name, options)
    if not entry:
        raise _make_error(agent, tool.name, provider)
    return is_permitted, entry


def check_search(agent: Agent, provider: Provider) -> None:
    """Checks that the model's server searches the web, if the agent's `tools` name that.

    Raises:
        ConfigError: it does not; a mistake in the agent's file has its place.
    """
    address = getattr(provider, "base_url", "")
    if SEARCH in agent.tools and make_entry(provider.name, address, SEARCH, {}) is None:
        raise _make_error(agent, SEARCH, provider)


def _make_error(agent: Agent, tool: str, provider: Provider) -> ConfigError:
    """Makes the error for a tool that the model's server does not have."""
    listed = "tools" if tool in agent.tools else f"params.{SERVER_TOOLS}"
    name = parse_model(agent.model)[0]
    who = f"agent {quote(agent.name)}" if agent.name else f"model {quote(agent.model)}"
    step = "use a model of Anthropic, OpenAI, OpenRouter or Groq"
    if provider.name == "openai":  # Chat Completions, where a server may have Responses too
        step = f'set api = "responses" under [providers.{name}] if its server has that API'
    error = ConfigError(
        f"{who} cannot use {tool}: the model's server has to run it, and "
        f"{name} has no such tool in the protocol {provider.name}",
        hint=f"{step}, or remove {tool} from `{listed}`; `fetch` reads pages with any model",
    )
    error.place = find_place(agent, "tools", tool)
    return error


def _check_price(scope: RunScope, tool: Tool) -> None:
    """Checks that what the tool costs can be counted, if the cost of the run has a limit."""
    model = scope.agent.model
    if (
        not scope.meter.caps_cost
        or scope.env.cassette
        or scope.env.prices.knows_call(model, tool.name)
    ):
        return
    raise make_price_error(model, f"limits.max_cost cannot be enforced with {tool.name}")
