"""The agent loop: turns, tool calls, permissions and child runs."""
