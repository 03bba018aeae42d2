"""subagent: explores a sub-problem in a copy of the caller and returns only its summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.agents.agent_tables import NO_CONFIG, SubAgentsConfig
from axe_nb.delegation.spawn_agent import NAME_SIZE, copy_of_caller, tools_of_caller
from axe_nb.errors import AxeError
from axe_nb.messages import ToolParameter
from axe_nb.results import RunResult
from axe_nb.text import cut_bytes, one_line, quote
from axe_nb.tools.tool import MAX_TURNS, Job, Limits, Tool, ToolContext, ToolError

NAME = "subagent"
SUMMARY = "Summarize your findings concisely"
TRUNCATED = "\n... (truncated)"  # ends a result that was cut at `output_limit`


def tool(config: SubAgentsConfig) -> Tool:
    parameters = {
        "label": ToolParameter(
            "string", "Short name for this subagent, such as research_api_docs", required=True
        ),
        "task_prompt": ToolParameter(
            "string",
            "What the subagent should do; it does not see this conversation",
            required=True,
        ),
        "summary_prompt": ToolParameter(
            "string", f"How it should summarize its findings (default: '{SUMMARY}')"
        ),
        "allowed_tools": ToolParameter(
            "array",
            "Names of your tools that it may use (default: all)",
            schema={"items": {"type": "string"}},
        ),
        "max_turns": ToolParameter(
            "integer",
            f"Maximum number of its turns (default: {config.max_turns})",
            schema={"minimum": 1, "maximum": MAX_TURNS},
        ),
    }
    return Tool(
        NAME,
        "Delegate a focused task to a recursive agent instance with isolated conversation "
        "context. Use this when you need to explore a sub-problem independently without "
        "polluting the main conversation.",
        parameters, run, "delegate", default_depth=3, in_plan=True, is_one_child=True,
        copies_caller=True, adapt=lambda agent, _: tool(agent.sub_agents_config),
    )  # fmt: skip


async def run(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Runs the child and returns its summary. Raises ToolError if that fails (D-7)."""
    if ctx.depth >= ctx.max_depth:
        raise ToolError(
            f"Maximum subagent recursion depth ({ctx.max_depth}) exceeded. "
            f"Current depth: {ctx.depth}. Cannot spawn nested subagent."
        )
    if problem := find_problem(arguments):
        raise ToolError(problem)
    name, task, names = arguments["label"], arguments["task_prompt"], arguments.get("allowed_tools")
    if names is None:  # X-12..X-17
        tools = tuple(tool for tool in ctx.tools if tool != NAME)
    elif NAME in names:
        raise ToolError("Subagent cannot have 'subagent' in allowed_tools")
    else:
        tools = tools_of_caller(ctx, names, "Unknown tool in allowed_tools: ")
    config, given = ctx.agent.sub_agents_config, arguments.get("max_turns")
    most = config.max_turns if given is None else int(given)
    summary = arguments.get("summary_prompt") or ""

    def note(result: RunResult) -> dict[str, str]:
        turns = sum(not turn.closing for turn in result.log)
        notes = {
            "subagent_label": name,
            "recursion_depth": str(ctx.depth),
            "completion_status": "complete" if result.ok else "incomplete",
            "turns_used": str(turns),
        }
        if not result.ok and turns >= most:
            notes |= {"max_turns_reached": "true", "max_turns": str(most)}
        if result.usage.total:
            notes |= {
                "tokens_used": str(result.usage.total),
                "prompt_tokens": str(result.usage.input_tokens),
                "completion_tokens": str(result.usage.output_tokens),
            }
        return notes

    job = Job(
        copy_of_caller(ctx, name, (*tools, NAME)), task, task, Limits(turns=most),
        closing=summary if summary.strip() else SUMMARY, is_copy=True, notes=note,
    )  # fmt: skip
    label, limit = quote(one_line(name, NAME_SIZE)), config.output_limit
    try:
        result = await ctx.start(job)
    except AxeError as error:
        raise ToolError(f"subagent {label} cannot start: {error}") from None
    if result.status in ("error", "timeout", "cancelled"):
        so_far = f"\n\nIts text so far:\n{result.text}" if result.text.strip() else ""
        reason = f"subagent {label} failed: {result.error}{so_far}"
        raise ToolError(cut_bytes(reason, limit, TRUNCATED))
    return cut_bytes(result.text, limit, TRUNCATED)


def find_problem(given: Mapping[str, Any]) -> str:
    """Returns a message about the first invalid argument, or "" if all are valid (X-7, X-11)."""
    wrong = "Invalid subagent input:"
    for name in ("label", "task_prompt"):
        if given.get(name) is None:
            return f"{wrong} missing field `{name}`"
    for name in ("label", "task_prompt", "summary_prompt"):
        if not isinstance(given.get(name), str | None):
            return f"{wrong} `{name}` must be a string"
    tools, turns = given.get("allowed_tools"), given.get("max_turns")
    if tools is not None and not (
        isinstance(tools, list) and all(isinstance(name, str) for name in tools)
    ):
        return f"{wrong} `allowed_tools` must be a list of strings"
    is_whole = isinstance(turns, int) or (isinstance(turns, float) and turns.is_integer())
    if turns is not None and (isinstance(turns, bool) or not is_whole or turns < 0):
        return f"{wrong} `max_turns` must be an integer from 1 to 50"
    for name in ("task_prompt", "label"):
        if not given[name].strip():
            return f"{name} cannot be empty"
    if turns is not None and not 1 <= turns <= MAX_TURNS:
        return "max_turns must be between 1 and 50"
    return ""


TOOLS = {NAME: tool(NO_CONFIG)}
