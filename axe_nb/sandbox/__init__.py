"""The sandbox for commands and MCP servers, which see only part of the machine."""
