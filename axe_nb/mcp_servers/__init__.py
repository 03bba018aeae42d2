"""MCP servers and their tools; a run starts or connects to the servers it needs."""
