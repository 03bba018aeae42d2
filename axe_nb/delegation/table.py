"""The delegation tools, one module each, and `ctx.delegate`; each of them creates a `Job`."""

from axe_nb.tools.registry import ToolTable

NAMES = ("call_agent", "subagent", "spawn_agent", "delegate_task")

SOURCE = ToolTable({name: f"axe_nb.delegation.{name}" for name in NAMES})
"""Tool → its module."""
