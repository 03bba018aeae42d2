"""MCP servers, started or connected to when a run needs them, with their tools and resources."""
