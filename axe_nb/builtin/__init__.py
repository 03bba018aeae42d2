"""The built-in tools, independent of the agent loop."""
