"""The delegation tools, one module each, and `ctx.delegate`; each of them creates a `Job`."""

from axe_nb.tools.registry import ToolModules

SOURCE = ToolModules(
    "axe_nb.delegation",
    {
        "call_agent": "call_agent",
        "subagent": "subagent",
        "spawn_agent": "spawn_agent",
        "delegate_task": "delegate_task",
    },
)
"""Tool → its module in this package."""
