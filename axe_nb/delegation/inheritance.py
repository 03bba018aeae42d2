"""What a child without a file of its own has from its caller.

Source: seeds 002 (ADR-002, ADR-003), 003 §1; D-4, D-20, D-39; X-12..X-19, O-2, O-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axe_nb.agents.agent import Agent
from axe_nb.builtin import expanded
from axe_nb.delegation import call_agent
from axe_nb.text import one_line
from axe_nb.tools.tool import ToolContext, ToolError

NAME_SIZE = 60
"""Characters of a child's name; a model may have made it up."""


def heir(ctx: ToolContext, name: str, tools: Sequence[str]) -> Agent:
    """A copy of the caller: its model, prompt, folder and settings, with these of its tools."""
    return replace(
        ctx.agent,
        name=one_line(name, NAME_SIZE),
        tools=tuple(tool for tool in tools if tool != call_agent.NAME),
        sub_agents=ctx.agent.sub_agents if call_agent.NAME in tools else (),
        warnings=(),
    )


def inherited(ctx: ToolContext, names: Sequence[str], problem: str) -> tuple[str, ...]:
    """The tools of the caller that the names stand for; of a toolset, those that it has (D-20).

    Raises:
        ToolError: `problem`, and a name that stands for none of them.
    """
    found: dict[str, None] = {}
    for name in names:
        mine = [tool for tool in expanded(name) if tool in ctx.tools]
        if not mine:
            raise ToolError(f"{problem}{one_line(name, NAME_SIZE)}")
        found.update(dict.fromkeys(mine))
    return tuple(found)
