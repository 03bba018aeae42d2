"""MCP servers with their tools and resources; started or connected to when a run needs them."""
