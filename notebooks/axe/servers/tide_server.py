"""An MCP server with the tide table of Skerry Point; it speaks over stdin and stdout."""

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

LOWS = {"monday": ("04:10", 0.6), "tuesday": ("05:00", 0.9), "wednesday": ("05:50", 1.3)}

server = MCPServer("tides")


@server.tool()
def low_water(day: str) -> dict[str, str | float]:
    """Returns time and height in metres of the first low water of a day.

    Args:
        day: a day of the week, in English.
    """
    if day.casefold() not in LOWS:
        raise ToolError(f"no table for {day}; there is one for {', '.join(LOWS)}")
    at, height = LOWS[day.casefold()]
    return {"day": day, "at": at, "height": height}


@server.tool()
def note_visit(day: str) -> str:
    """Writes a visit into the harbour book."""
    return f"noted: {day}"


@server.resource("tides://rules")
def rules() -> str:
    """When a boat may land."""
    return "A boat may land within three hours of low water, if it is below 1 m."


if __name__ == "__main__":
    server.run()
