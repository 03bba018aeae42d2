"""Children that are copies of their caller, and the tools that they inherit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axe_nb import builtin
from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import keep_server_tools, keep_servers, names_of_servers
from axe_nb.agents.prompt import server_of
from axe_nb.delegation import SOURCE
from axe_nb.text import one_line
from axe_nb.tools.registry import Registry
from axe_nb.tools.tool import ToolContext, ToolError

_BUILT_IN = Registry((builtin.SOURCE,))
"""Resolves the toolsets and aliases that a model may use."""

NAME_SIZE = 60
"""Characters of a child's name, which may come from a model."""


def copy_of_caller(ctx: ToolContext, name: str, tools: Sequence[str]) -> Agent:
    """Copies the caller with its model, prompt, folder and settings, but only the given tools.

    An MCP server without such a tool is left out, with its permissions and resources; the caller's
    permissions hold for the copy in any case.
    """
    servers = keep_servers(ctx.agent.mcp_servers, tools)
    gone = {*names_of_servers(ctx.agent.mcp_servers)} - {*names_of_servers(servers)}
    permissions = ctx.agent.permissions.items()
    own = ctx.agent.own_tools
    of_sub_agents = {  # tools that come from `sub_agents` rather than from `tools`
        name
        for name in tools
        if name not in own and (tool := SOURCE.find(name)) and tool.calls_sub_agents
    }
    return replace(
        ctx.agent,
        name=one_line(name, NAME_SIZE),
        tools=tuple(tool for tool in tools if tool not in of_sub_agents),
        sub_agents=ctx.agent.sub_agents if of_sub_agents else (),
        mcp_servers=servers,
        params=keep_server_tools(ctx.agent.params, tools),
        permissions={n: rule for n, rule in permissions if n.partition("__")[0] not in gone},
        files=tuple(entry for entry in ctx.agent.files if server_of(entry) not in gone),
        warnings=(),
    )


def tools_of_caller(ctx: ToolContext, names: Sequence[str], problem: str) -> tuple[str, ...]:
    """Expands names to tools of the caller; a toolset yields those that the caller has (D-20).

    Raises ToolError if a name matches no tool of the caller; the text is `problem` and the name.
    """
    found: dict[str, None] = {}
    for name in names:
        mine = [tool for tool in _BUILT_IN.expand(name) if tool in ctx.tools]
        if not mine:
            raise ToolError(f"{problem}{one_line(name, NAME_SIZE)}")
        found.update(dict.fromkeys(mine))
    return tuple(found)
