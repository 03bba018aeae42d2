"""`ctx.delegate`: starts a named agent or a copy as a child from a Python tool.

Source: D-1, D-18, O-8, O-11.
"""

from __future__ import annotations

from dataclasses import replace

from axe_nb.delegation import spawn_agent
from axe_nb.delegation.child_copy import tools_of_caller
from axe_nb.limits import Limits
from axe_nb.results import RunResult
from axe_nb.tools.tool import Job, ToolContext, ToolError, Wish


async def delegate(ctx: ToolContext, task: str, wish: Wish) -> RunResult:
    """Runs a child to its end, as documented at `ToolContext.delegate`."""
    if problem := spawn_agent.too_deep(ctx):
        raise ToolError(problem)
    if not task.strip():
        raise ToolError("task is required: describe what the sub-agent should do")
    scope, names = wish.scope or "", wish.tools
    if wish.agent is None:
        if names is not None:
            names = tools_of_caller(ctx, names, "Unknown tool in tools: ")
        limits = _merge_limits(wish.limits, spawn_agent.granted_limits(ctx))
        job = spawn_agent.job(ctx, ctx.call.name, task, scope, limits, wish.mode, tools=names)
    elif names is not None:
        raise ToolError("tools are for a copy of the caller; a named agent has its own")
    else:
        prompt = f"Task: {task}"
        if scope.strip():
            prompt += f"\n\nContext:\nFocus on: {scope}"
        own = Limits(seconds=ctx.agent.sub_agents_config.timeout or None)
        job = Job(wish.agent, task, prompt, _merge_limits(wish.limits, own), mode=wish.mode)
    return await ctx.start(replace(job, key=wish.key))


def _merge_limits(limits: Limits | None, default: Limits) -> Limits:
    if limits is None:
        return default
    return replace(
        limits,
        tool_calls=limits.tool_calls or default.tool_calls,
        tokens=limits.tokens or default.tokens,
        seconds=limits.seconds or default.seconds,
    )
