"""web_search, and every other tool that the model's server runs: nothing of them runs here.

Their calls are made and answered within a reply; what is here is what a model is offered, and the
permission for it.
Source: D-76, D-50.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.agents.provider_table import SEARCH
from axe_nb.tools.tool import CallSite, Guard, Tool, ToolContext, ToolError


def make_server_tool(name: str, description: str) -> Tool:
    """Returns a tool that the model's server runs; it may reach any host there is."""

    async def refuse(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        raise ToolError(f"{name} is run by the model's server, which has not done so")

    def guard(arguments: Mapping[str, Any], site: CallSite) -> Guard:
        return Guard(
            host=f"any host through {name}",
            note="The model's server runs it, as often as the model wants, and asks no one.",
        )

    return Tool(name, description, {}, refuse, "network", guard=guard, by_server=True)


TOOLS = {SEARCH: make_server_tool(SEARCH, "Search the web; the model's own server does it.")}
