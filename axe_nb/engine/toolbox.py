"""Lookup of the tools of an agent, and the decorator that registers a tool."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from axe_nb import builtin
from axe_nb.agents.agent import Agent, find_place
from axe_nb.agents.agent_tables import names_of_servers
from axe_nb.agents.provider_table import SERVER_TOOLS
from axe_nb.builtin import make_server_tool
from axe_nb.delegation import SOURCE as DELEGATION
from axe_nb.errors import ConfigError
from axe_nb.messages import CallTraits, ToolCall, ToolSpec
from axe_nb.text import list_some, nearest, quote
from axe_nb.tools.python_tool import make_tool, tool_of
from axe_nb.tools.tool import Describe, Effect, Registry, Tool, ToolTable

F = TypeVar("F", bound=Callable[..., Any])

BUILT_IN = Registry((builtin.SOURCE, DELEGATION))  # built-in tools, whose names are reserved
SESSION = ToolTable()  # tools defined in this process with `@axe_nb.tool`
REGISTRY = Registry((*BUILT_IN.sources, SESSION))  # tools that any agent can use by name


@dataclass(frozen=True, slots=True)
class Toolset:
    tools: Mapping[str, Tool]
    """Tools keyed by name, including delegation tools at the depth limit, which reject calls."""
    offered: tuple[ToolSpec, ...]

    def find(self, name: str) -> Tool | None:
        """Returns the tool with a given name or alias (D-20); None if there is no such tool."""
        if name in self.tools:
            return self.tools[name]
        meant = REGISTRY.expand(name)
        return self.tools.get(meant[0]) if len(meant) == 1 else None

    def describe(self, call: ToolCall) -> ToolCall:
        """Returns a copy of a call with its tool's traits; an unknown tool has default traits."""
        tool = self.find(call.name)
        return replace(call, traits=tool.traits if tool else CallTraits())


def find_tools(
    agent: Agent,
    handed: Sequence[Tool] = (),
    of_servers: Sequence[Tool] | None = None,
    describe: Describe = lambda _: "",
) -> dict[str, Tool]:
    """Returns an agent's tools, keyed by name. Raises ConfigError if a name is unknown.

    `handed` are tools passed to the run as objects, and `of_servers` the tools of its MCP servers,
    or None if no server was started. `describe` maps the name of another agent to its description.
    """
    own = {tool.name: tool for tool in handed}
    own |= {name: tool_of(thing) for name, thing in agent.own_tools.items()}
    table = ToolTable({tool.name: tool for tool in of_servers or ()})
    registry = Registry((ToolTable({**own}), *REGISTRY.sources, table))
    named = [name for given in agent.tools for name in registry.expand(given)]
    if agent.sub_agents:  # D-44
        below = map(DELEGATION.find, DELEGATION.tools)
        named = [*(tool.name for tool in below if tool and tool.calls_sub_agents), *named]
    servers = names_of_servers(agent.mcp_servers)
    unknown = () if of_servers is not None else tuple(f"{name}__" for name in servers)
    of_params = agent.params.get(SERVER_TOOLS, {})
    tools: dict[str, Tool] = {}
    for name in dict.fromkeys((*named, *table.tools, *of_params)):
        tool = registry.find(name)
        if tool is None and name in of_params:
            tool = make_server_tool(name, f"{name}, run by the model's server")
        if tool is None and name.startswith(unknown):
            continue
        if tool is None or (tool.calls_sub_agents and not agent.sub_agents):
            raise _make_unknown_error(name, agent, registry)
        if agent.sub_agents_config.enabled or tool.effect != "delegate":
            tools[name] = tool.adapt(agent, describe) if tool.adapt else tool
    for name in agent.permissions:
        is_of_server = name.partition("__")[0] in servers
        if name not in tools and name not in registry.known and not is_of_server:
            raise _make_unknown_error(name, agent, registry)
    return tools


def _make_unknown_error(name: str, agent: Agent, registry: Registry) -> ConfigError:
    near = builtin.OTHER_NAMES.get(name.casefold()) or nearest(name, sorted(registry.known))
    meant = registry.find(near)
    if registry.find(name):
        hint = f"`sub_agents` offers {name}"
    elif near and not (meant and meant.calls_sub_agents):
        hint = f"did you mean {quote(near)}?"
    else:
        known = [tool.name for tool in registry if not tool.calls_sub_agents]
        hint = (
            f"known tools: {list_some([*registry.toolsets, *known], 20)}; in a notebook or "
            "in Python, decorate your own function with @axe_nb.tool first"
        )
    error = ConfigError(f"unknown tool {quote(name)} in agent {quote(agent.name)}", hint=hint)
    error.place = find_place(agent, "tools", name) or find_place(agent, "permissions", name)
    return error


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *, name: str = "", read_only: bool = False, writes: bool = False, record: bool = False
) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    read_only: bool = False,
    writes: bool = False,
    record: bool = False,
) -> Any:
    """Registers a function as a tool that agents can use; the function itself stays unchanged.

    Bound methods, `functools.partial` objects and other callables work as well. Type hints become
    the schema, and the first paragraph of the docstring becomes the description. Descriptions of
    parameters are read from the docstring if it follows Google, NumPy or reST style. A parameter
    annotated `ToolContext` receives the context of the call.

    Args:
        name: the tool's name; by default the function's own name.
        read_only: the tool changes nothing, so `plan` mode allows it.
        writes: the tool changes something, so `ask` mode asks before it runs.
        record: cassettes record the tool's results, and replay them instead of running the tool.

    Raises:
        ConfigError: if the function cannot be used as a tool.
    """
    if read_only and writes:
        raise ConfigError("a tool cannot have both read_only and writes", hint="remove one of them")
    effect: Effect = "read" if read_only else "write" if writes else "user"

    def mark(function: Any) -> Any:
        if isinstance(function, staticmethod):
            return staticmethod(mark(function.__func__))
        made = replace(make_tool(function, effect, name), record=record)
        if made.name in BUILT_IN.known:
            raise ConfigError(
                f"{quote(made.name)} is a built-in tool", hint='choose another name: name="…"'
            )
        SESSION.tools[made.name] = made
        marked: Any = function
        try:
            marked.__axe_tool__ = made
        except AttributeError:  # bound methods and built-in functions accept no attributes
            marked = functools.partial(function)
            marked.__axe_tool__ = made
        return marked

    return mark if function is None else mark(function)
