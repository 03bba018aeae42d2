"""`ctx.delegate`: how a tool written in Python starts a child, a named agent or a copy.

Source: product.md "Python"; D-1, D-18; O-8, O-11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axe_nb.agents.agent import Agent, Mode
from axe_nb.budget import Limits
from axe_nb.delegation import spawn_agent
from axe_nb.delegation.inheritance import inherited
from axe_nb.events import RunResult
from axe_nb.tools.tool import Job, ToolContext, ToolError


async def delegate(
    ctx: ToolContext,
    task: str,
    agent: Agent | str | None = None,
    tools: Sequence[str] | None = None,
    scope: str | None = None,
    mode: Mode | None = None,
    limits: Limits | None = None,
) -> RunResult:
    """As `ToolContext.delegate` says."""
    if problem := spawn_agent.too_deep(ctx):
        raise ToolError(problem)
    if not task.strip():
        raise ToolError("task is required: say what the sub-agent is to do")
    if agent is None:
        names = None if tools is None else inherited(ctx, tools, "Unknown tool in tools: ")
        granted = _merged(limits, spawn_agent.budgeted(ctx))
        return await ctx.start(
            spawn_agent.job(ctx, ctx.call.name, task, scope or "", granted, mode, tools=names)
        )
    if tools is not None:
        raise ToolError("tools are for a copy of the caller; a named agent has its own")
    prompt = f"Task: {task}"
    if scope and scope.strip():
        prompt += f"\n\nContext:\nFocus on: {scope}"
    own = Limits(seconds=ctx.agent.sub_agents_config.timeout or None)
    return await ctx.start(Job(agent, task, prompt, _merged(limits, own), mode=mode))


def _merged(limits: Limits | None, default: Limits) -> Limits:
    """The limits, with the default's wherever they say nothing (O-8)."""
    if limits is None:
        return default
    return replace(
        limits,
        tool_calls=limits.tool_calls or default.tool_calls,
        tokens=limits.tokens or default.tokens,
        seconds=limits.seconds or default.seconds,
    )
