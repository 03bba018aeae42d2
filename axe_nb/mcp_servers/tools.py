"""The tools of an MCP server as tools of an agent, and its content as text and pictures (D-19)."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from axe_nb.mcp_servers.connection import Connection
from axe_nb.pictures.picture import Illustrated, NoPicture, Picture, format_bytes, join_parts
from axe_nb.text import one_line
from axe_nb.tools.tool import CallSite, Guard, Tool, ToolContext, ToolError, ToolOutput, as_text

Run = Callable[[Any], Awaitable[Any]]
"""(coroutine) → its result, from the loop of the servers."""


def make_tools(connection: Connection, run: Run) -> list[Tool]:
    """Returns the tools of a server that was started, in its own order."""
    named = connection.listing.name_tools(connection.name)

    def guard(arguments: Mapping[str, Any], site: CallSite) -> Guard:
        return Guard(note=connection.label)

    return [
        Tool(
            name, tool.description, {}, _make_call(connection, tool.name, run),
            "read" if connection.server.is_read_only(tool.name) else "write",
            guard=guard, schema=tool.schema, server=connection.name,
        )
        for name, tool in named.items()
    ]  # fmt: skip


def _make_call(
    connection: Connection, name: str, run: Run
) -> Callable[[ToolContext, Mapping[str, Any]], Awaitable[ToolOutput]]:
    async def call(ctx: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
        async def send(session: Any) -> Any:
            # its structured result is not checked against the server's schema: that is left to the
            # model, and a hostile schema could keep a check busy forever
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

        result = await run(connection.ask(send))
        text, pictures = read_result(result)
        if changes := await run(connection.list_changes()):
            told = f"while MCP server {connection.name} ran: "
            ctx.file_log.warnings += (f"{told}{note}; nothing was undone" for note in changes)
            raise ToolError("\n".join(filter(None, [text, *changes])), connection.label)
        if result.is_error:
            raise ToolError(text or "the tool failed without an error message", connection.label)
        return ToolOutput(text or "(no output)", pictures=pictures)

    return call


def read_result(result: Any) -> Illustrated:
    """Returns the result of a tool: its texts and pictures, else its data as JSON."""
    found = join_parts(map(read_block, result.content), "\n")
    if found.text or result.structured_content is None:
        return found
    return Illustrated(as_text(result.structured_content))


def read_block(block: Any) -> str | Picture:
    """Returns the content of a block; a note if it is neither text nor a picture."""
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            with suppress(NoPicture, ValueError):
                return Picture(base64.b64decode(block.data, validate=True))
            return _format_media("a picture", block.mime_type, block.data)
        case "audio":
            return _format_media("an audio clip", block.mime_type, block.data)
        case "resource":
            return format_resource(block.resource)
        case _:
            name, uri = one_line(block.title or block.name, 200), one_line(str(block.uri), 200)
            return f"[a resource, {name}: {uri}]"


def format_resource(resource: Any) -> str:
    """Returns the text of a resource; a note if it has none."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    return _format_media("a file", resource.mime_type or "", resource.blob)


def _format_media(what: str, media_type: str, data: str) -> str:
    """Returns a note that replaces content that is not sent to a model."""
    size = format_bytes(len(data) * 3 // 4)
    return f"[{', '.join(filter(None, (what, one_line(media_type, 80), size)))}]"
