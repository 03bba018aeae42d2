"""The sandbox for commands and MCP servers, which hides most of the machine from them."""
