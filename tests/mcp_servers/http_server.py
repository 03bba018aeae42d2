"""`python -m tests.mcp_servers.http_server TRANSPORT PORT`: a server of the mcp package."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("elsewhere")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def die() -> str:
    """Ends the server."""
    os._exit(1)


@server.tool()
def large() -> str:
    """Answers at length."""
    return "x" * 20_000_000


@server.tool()
def header(ctx: Context) -> str:
    """Returns a header of the request."""
    request = ctx.request_context.request
    return str(request.headers.get("x-memo"))


server.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))  # type: ignore[call-overload]
