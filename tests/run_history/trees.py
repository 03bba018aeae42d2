"""Trees of runs that the tests of the history keep."""

from __future__ import annotations

from typing import Any

import axe_nb
from axe_nb import Agent, Request, Response, Usage, call, script


def define_tree() -> None:
    """A lead that asks two guides, of which one fails."""

    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn == 1:
            calls = tuple(call("call_agent", agent="guide", task=town) for town in ("Rome", "Oslo"))
            return Response("Let me ask.", calls, "tool_use", Usage(100, 20, cached_tokens=7))
        return "Compared.\n" + "\n".join(result.content for result in request.results)

    @script("guide")
    def guide(request: Request) -> str:
        if "Oslo" in request.last:
            raise axe_nb.ProviderError("server", "out of order")
        return "Rome: a fine town 🏛"

    axe_nb.define(
        Agent(name="lead", model="script/lead", system_prompt="You lead.", sub_agents=("guide",))
    )
    axe_nb.define(Agent(name="guide", model="script/guide"))
