"""call_agent: delegates a task to a named, independent agent and returns only its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axe_nb.errors import AxeError
from axe_nb.messages import ToolParameter
from axe_nb.text import one_line, quote
from axe_nb.tools.tool import Describe, Job, Limits, Tool, ToolContext, ToolOutput, text_argument

NAME = "call_agent"


def tool(agents: Sequence[str], describe: Describe = lambda _: "") -> Tool:
    """Creates the `call_agent` tool of an agent whose sub-agents are `agents` (A-6.4)."""
    names = ", ".join(agents)
    # shortened, as they are sent with every request
    described = {name: one_line(describe(name), 300) for name in agents}
    lines = [f"\n- {name}: {about}" for name, about in described.items() if about]
    parameters = {
        "agent": ToolParameter(
            "string",
            f"Name of the sub-agent to invoke (must be one of: {names})",
            required=True,
            schema={"enum": list(described)} if described else {},
        ),
        "task": ToolParameter("string", "What you need the sub-agent to do", required=True),
        "context": ToolParameter(
            "string", "Additional context from your conversation to pass along"
        ),
    }
    return Tool(
        NAME,
        "Delegate a task to a sub-agent. The sub-agent runs independently with its own context "
        f"and returns only its final result. Available agents: {names}{''.join(lines)}",
        parameters, run, "delegate", default_depth=3, in_plan=True, is_one_child=True,
        calls_sub_agents=True, adapt=lambda agent, describe: tool(agent.sub_agents, describe),
    )  # fmt: skip


async def run(ctx: ToolContext, arguments: Mapping[str, Any]) -> str | ToolOutput:
    """Runs the sub-agent and returns its answer, or an error message if that fails (A-7.1)."""
    agent, task, context = (text_argument(arguments, n) for n in ("agent", "task", "context"))
    problem = ""  # the order of the checks is specified (A-7.3-o)
    if not agent.strip():
        problem = '"agent" argument is required'
    elif not task.strip():
        problem = '"task" argument is required'
    elif agent not in ctx.agent.sub_agents:
        problem = f"agent {quote(agent)} is not in this agent's sub_agents list"
    elif ctx.depth >= ctx.max_depth:
        problem = f"maximum sub-agent depth ({ctx.max_depth}) reached"
    if problem:
        return ToolOutput(f"call_agent error: {problem}", is_error=True)
    prompt = f"Task: {task}"
    if context.strip():
        prompt += f"\n\nContext:\n{context}"
    seconds = ctx.agent.sub_agents_config.timeout or None
    try:
        result = await ctx.start(Job(agent, task, prompt, Limits(seconds=seconds)))
    except AxeError as error:
        return _format_failure(agent, str(error))
    return result.text if result.ok else _format_failure(agent, result.error or result.status)


def _format_failure(agent: str, reason: str) -> ToolOutput:
    return ToolOutput(
        f"Error: sub-agent {quote(agent)} failed - {reason}. "
        "You may retry or proceed without this result.",
        is_error=True,
    )


TOOLS = {NAME: tool(())}
