"""The tools of an MCP server, as tools of an agent.

Source: product.md "Models can do more than text" (MCP); D-19.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from axe_nb.mcp_servers.content import read_result
from axe_nb.mcp_servers.listing import ListedTool
from axe_nb.tools.tool import CallSite, Guard, Tool, ToolContext, ToolError, ToolOutput

if TYPE_CHECKING:
    from axe_nb.mcp_servers.connection import Connection

Run = Callable[[Any], Awaitable[Any]]
"""(coroutine) → its result, from the loop of the servers."""


def make_tools(connection: Connection, run: Run) -> list[Tool]:
    """Returns the tools of a server that was started, in its own order."""
    named = connection.listing.name_tools(connection.name)
    return [_make_tool(connection, name, tool, run) for name, tool in named.items()]


def _make_tool(connection: Connection, name: str, tool: ListedTool, run: Run) -> Tool:
    async def call(ctx: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
        result = await run(connection.ask(lambda session: _call(session, tool.name, arguments)))
        text, pictures = read_result(result)
        if changes := await run(connection.list_changes()):
            told = f"while MCP server {connection.name} ran: "
            ctx.file_log.warnings += (f"{told}{note}; nothing was undone" for note in changes)
            raise ToolError("\n".join(filter(None, [text, *changes])), connection.label)
        if result.is_error:
            raise ToolError(text or "the tool failed without an error message", connection.label)
        return ToolOutput(text or "(no output)", pictures=pictures)

    def guard(arguments: Mapping[str, Any], site: CallSite) -> Guard:
        return Guard(note=connection.label)

    return Tool(
        name,
        tool.description,
        {},
        call,
        "read" if connection.server.is_read_only(tool.name) else "write",
        guard=guard,
        schema=tool.schema,
        server=connection.name,
    )


async def _call(session: Any, name: str, arguments: Mapping[str, Any]) -> Any:
    """Calls a tool, without checking its data against the schema that the server says it has.

    That is left to the model, and a hostile schema could keep a check busy forever.
    """
    import mcp_types
    from pydantic import TypeAdapter

    request = mcp_types.CallToolRequest(
        params=mcp_types.CallToolRequestParams(name=name, arguments=dict(arguments))
    )
    kinds = TypeAdapter(mcp_types.CallToolResult | mcp_types.InputRequiredResult)
    result = await session.send_request(request, kinds)
    if not isinstance(result, mcp_types.CallToolResult):
        raise ToolError("the server asked the user for input, which is not supported")
    return result
