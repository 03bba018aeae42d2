"""The MCP servers of a session, with their tools.

Connections outlive the event loops of runs, and a call from a loop other than the connection's own
would hang. All connections therefore belong to one loop in a thread (D-46, D-81, D-82, O-5).
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import threading
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from axe_nb.agents.agent import Agent, find_place
from axe_nb.agents.agent_tables import McpServer, parse_servers
from axe_nb.errors import ConfigError
from axe_nb.text import plural, quote, suggestion
from axe_nb.tools.tool import Tool

if TYPE_CHECKING:
    from axe_nb.mcp_servers.connection import Connection

T = TypeVar("T")

MAX_TOOLS = 128  # maximum tools of a server by default, as some providers accept no more


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self.serve, name="axe-nb-mcp", daemon=True)
        self._thread.start()

    def serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._over.wait())

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine on the loop; cancelling the returned future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self.begin(work))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(1.0)


@dataclass(frozen=True, slots=True)
class ServerTools:
    """Tools that an agent's MCP servers provide."""

    tools: tuple[Tool, ...] = ()
    warnings: tuple[str, ...] = ()


def find_servers(agent: Agent, settings: Mapping[str, McpServer]) -> Mapping[str, McpServer]:
    """Returns an agent's servers, keyed by name, with the agent's own or the user's settings."""
    found = {}
    for name, own in parse_servers(agent.mcp_servers).items():
        if own is None and name not in settings:
            add = f"add [mcp_servers.{name}] to config.toml, or to the agent's file"
            step = suggestion(name, settings) or add
            raise _make_error(agent, "unknown MCP server", "mcp_servers", name, step)
        found[name] = own or settings[name]
    return found


def _make_error(agent: Agent, problem: str, key: str, entry: str, step: str) -> ConfigError:
    error = ConfigError(f"{problem} {quote(entry)} in agent {quote(agent.name)}", hint=step)
    error.place = find_place(agent, key, entry)
    return error


@dataclass(eq=False)
class Servers:
    """The MCP servers that a session has started."""

    _connections: dict[str, Connection] = field(default_factory=dict)
    """Connections, keyed by the server's name, settings and workdir as JSON."""
    _thread: LoopThread = field(init=False, repr=False)
    _owner: int = 0
    """Id of the process in which the thread was started; 0 if there is no thread."""

    async def open(
        self,
        agent: Agent,
        settings: Mapping[str, McpServer],
        workdir: Path,
        sources: Iterable[Path] = (),
    ) -> ServerTools:
        """Starts an agent's servers, and returns their tools.

        Local servers run in `workdir`, a path without symlinks; their sandbox protects `sources`.
        Raises ConfigError if a server fails, or the agent refers to something that does not exist.
        """
        tables = find_servers(agent, settings)
        if not tables:
            return ServerTools()
        connections = {
            name: self._find(name, table, workdir, frozenset(sources))
            for name, table in tables.items()
        }
        warnings = [  # since the previous run; no errors, as the user may have made the changes
            f"while MCP server {name} ran: {note}; nothing was undone"
            for name, connection in connections.items()
            for note in await self._thread.run(connection.list_changes())
        ]
        starts = (self._thread.run(one.start()) for one in connections.values())
        for outcome in await asyncio.gather(*starts, return_exceptions=True):
            if outcome is not None:
                raise outcome
        tools: list[Tool] = []
        for name, connection in connections.items():
            offered = connection.make_tools(self._thread.run)
            known = [tool.name for tool in offered]
            for entry in agent.permissions:
                if entry.startswith(f"{name}__") and entry not in known:
                    listed = f"`%axe tools NAME` lists the tools of MCP server {quote(name)}"
                    step = suggestion(entry, known) or listed
                    raise _make_error(agent, "unknown tool", "permissions", entry, step)
            named = [tool for tool in offered if tool.name in agent.tools]
            tools += named or offered[:MAX_TOOLS]
            warnings += (f"MCP server {name}: {words}" for words in connection.warnings)
            if not named and len(offered) > MAX_TOOLS:
                warnings.append(
                    f"MCP server {name}: it offers {plural(len(offered), 'tool')}, and the agent "
                    f"gets the first {MAX_TOOLS}; to choose others, list them in `tools`"
                )
        return ServerTools(tuple(tools), tuple(warnings))

    def list_running(self) -> list[Tool]:
        if self._owner != os.getpid():
            return []
        running = [one for one in self._connections.values() if one.is_running]
        tools = {tool.name: tool for one in running for tool in one.make_tools(self._thread.run)}
        return list(tools.values())

    def close(self) -> None:
        if self._owner == os.getpid() and self._connections:
            from axe_nb.mcp_servers.connection import CLOSING

            ending = [self._thread.begin(one.close()) for one in self._connections.values()]
            for one in ending:
                with suppress(Late):
                    one.result(CLOSING + 1)
            self._thread.close()
        self._connections, self._owner = {}, 0

    def _find(
        self, name: str, server: McpServer, workdir: Path, sources: frozenset[Path]
    ) -> Connection:
        if self._owner != os.getpid():  # also after a fork, where the thread does not run
            self._connections, self._thread = {}, LoopThread()
            self._owner = os.getpid()
            atexit.register(self.close)
        key = json.dumps([name, asdict(server), str(workdir)])
        if key not in self._connections:
            from axe_nb.mcp_servers.connection import Connection  # few runs need one

            self._connections[key] = Connection(name, server, workdir, sources)
        return self._connections[key]
