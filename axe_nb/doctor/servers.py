"""The MCP servers of the settings and of agents, each started once.

Source: product.md "Notebook" (`%axe doctor`) and "Models can do more than text" (MCP).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import Config
from axe_nb.agents.servers import McpServer, parse_servers
from axe_nb.errors import ConfigError
from axe_nb.mcp_servers.servers import Servers
from axe_nb.text import list_some, plural
from axe_nb.threads import in_thread

MAX_NAMED = 5
"""Tools of a server that are named."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A server that was started, or failed to."""

    name: str
    message: str
    error: ConfigError | None = None


async def try_servers(config: Config, agents: Iterable[Agent]) -> list[Tried]:
    """Starts each server, lists its tools, and ends it.

    Args:
        config: the settings.
        agents: agents with servers of their own.
    """
    tables = dict(config.mcp_servers)
    for agent in agents:
        own = parse_servers(agent.mcp_servers)
        if any(own.values()):
            tables |= {name: table for name, table in own.items() if table}
    servers = Servers()
    try:
        return list(await asyncio.gather(*(_try(servers, name, tables) for name in sorted(tables))))
    finally:
        await in_thread(servers.close)


async def _try(servers: Servers, name: str, tables: Mapping[str, McpServer]) -> Tried:
    asked = Agent(name="doctor", model="script/doctor", mcp_servers=(name,))
    try:
        offered = await servers.open(asked, tables, Path.cwd().resolve())
    except ConfigError as error:
        return Tried(name, str(error), error)
    tools = [tool.name.partition("__")[2] for tool in offered.tools]
    said = f"{plural(len(tools), 'tool')}: {list_some(tools, MAX_NAMED)}" if tools else "no tools"
    return Tried(name, "; ".join([said, *offered.warnings]))
