"""The delegation tools and `ctx.delegate`, which create a `Job` for each child run."""

from axe_nb.tools.tool import ToolTable

SOURCE = ToolTable(
    {
        "call_agent": "axe_nb.delegation.call_agent",
        "subagent": "axe_nb.delegation.subagent_tool",
        "spawn_agent": "axe_nb.delegation.spawn_agent",
        "delegate_task": "axe_nb.delegation.spawn_agent",
    }
)
