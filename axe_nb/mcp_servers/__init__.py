"""MCP servers and their tools and resources; a run starts or connects to the servers it needs."""
