"""The caps of a tree: those that an agent lifts, and what this process allows.

Source: D-51; docs/reference.md "At a limit".
"""

from __future__ import annotations

from axe_nb.agents.agent import Agent
from axe_nb.agents.tables import DEFAULT_LIMITS
from axe_nb.conversion.toml_tables import toml_fields
from axe_nb.providers.connections import most_in_flight


def find_lifted_caps(agent: Agent) -> str:
    """Returns the caps that hold by default and not for this agent; empty if there are none."""
    lifted = [
        f"limits.{key.name} = 0"
        for key in toml_fields(type(DEFAULT_LIMITS))
        if getattr(DEFAULT_LIMITS, key.name) and not getattr(agent.limits, key.name)
    ]
    return f"{', '.join(lifted)}: no limit" if lifted else ""


def describe_caps() -> str:
    """Returns the default caps of a tree in one line."""
    most = most_in_flight()
    limits = DEFAULT_LIMITS
    text = (
        f"by default {limits.max_requests} requests per tree, {limits.max_calls_per_reply} calls "
        f"per reply, {limits.max_in_flight} requests in progress"
    )
    if most < limits.max_in_flight:
        text += f"; {most} to servers, as this process can open only a few files"
    return text
