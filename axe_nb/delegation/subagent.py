"""subagent: explores a sub-problem in a copy of the caller and returns only its summary.

Source: seeds 002, 004 (X-*); D-3, D-4, D-6, D-7, D-17, D-39.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from axe_nb.agents.tables import NO_CONFIG, SubAgentsConfig
from axe_nb.delegation.child_copy import NAME_SIZE, copy_of_caller, tools_of_caller
from axe_nb.errors import AxeError
from axe_nb.limits import MAX_TURNS, Limits
from axe_nb.messages import ToolParameter
from axe_nb.results import RunResult
from axe_nb.text import cut_bytes, one_line, quote
from axe_nb.tools.tool import Job, Tool, ToolContext, ToolError

NAME = "subagent"

SUMMARY = "Summarize your findings concisely"

TRUNCATED = "\n... (truncated)"
"""Follows a result that was cut at the caller's `output_limit` (X-27)."""


@dataclass(frozen=True, slots=True)
class Input:
    """Arguments of the right types; None = omitted by the model (X-2)."""

    label: str
    task_prompt: str
    summary_prompt: str
    allowed_tools: tuple[str, ...] | None
    max_turns: int | None


def tool(config: SubAgentsConfig) -> Tool:
    """Returns the tool for an agent with this configuration."""
    return Tool(
        NAME,
        "Delegate a focused task to a recursive agent instance with isolated conversation "
        "context. Use this when you need to explore a sub-problem independently without "
        "polluting the main conversation.",
        {
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
        },
        run,
        "delegate",
        default_depth=3,
        adapt=lambda agent, _: tool(agent.sub_agents_config),
        in_plan=True,
        is_one_child=True,
        copies_caller=True,
    )


async def run(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Returns the child's summary, cut to the caller's `output_limit`.

    Raises:
        ToolError: the call is invalid, or the child failed (D-7).
    """
    if ctx.depth >= ctx.max_depth:
        raise ToolError(
            f"Maximum subagent recursion depth ({ctx.max_depth}) exceeded. "
            f"Current depth: {ctx.depth}. Cannot spawn nested subagent."
        )
    given = _check_input(_parse_input(arguments))
    tools = _select_tools(ctx, given.allowed_tools)
    turns = given.max_turns or ctx.agent.sub_agents_config.max_turns
    job = Job(
        copy_of_caller(ctx, given.label, (*tools, NAME)),
        given.task_prompt,
        given.task_prompt,
        Limits(turns=turns),
        closing=given.summary_prompt,
        is_copy=True,
        notes=lambda result: _collect_metadata(result, given.label, ctx.depth, turns),
    )
    label = quote(one_line(given.label, NAME_SIZE))
    limit = ctx.agent.sub_agents_config.output_limit
    try:
        result = await ctx.start(job)
    except AxeError as error:
        raise ToolError(f"subagent {label} cannot start: {error}") from None
    if result.status in ("error", "timeout", "cancelled"):
        so_far = f"\n\nIts text so far:\n{result.text}" if result.text.strip() else ""
        reason = f"subagent {label} failed: {result.error}{so_far}"
        raise ToolError(cut_bytes(reason, limit, TRUNCATED))
    return cut_bytes(result.text, limit, TRUNCATED)


def _parse_input(arguments: Mapping[str, Any]) -> Input:
    """Parses the arguments and checks their types, as a schema would (X-7).

    Raises:
        ToolError: a required one is missing, or one has the wrong type.
    """
    for name in ("label", "task_prompt"):
        if arguments.get(name) is None:
            raise ToolError(f"Invalid subagent input: missing field `{name}`")
    for name in ("label", "task_prompt", "summary_prompt"):
        if not isinstance(arguments.get(name), str | None):
            raise ToolError(f"Invalid subagent input: `{name}` must be a string")
    tools = arguments.get("allowed_tools")
    if tools is not None and not (
        isinstance(tools, list) and all(isinstance(name, str) for name in tools)
    ):
        raise ToolError("Invalid subagent input: `allowed_tools` must be a list of strings")
    turns = arguments.get("max_turns")
    whole = isinstance(turns, int) or (isinstance(turns, float) and turns.is_integer())
    if turns is not None and (isinstance(turns, bool) or not whole or turns < 0):
        raise ToolError("Invalid subagent input: `max_turns` must be an integer from 1 to 50")
    summary = arguments.get("summary_prompt") or ""
    return Input(
        arguments["label"],
        arguments["task_prompt"],
        summary if summary.strip() else SUMMARY,
        None if tools is None else tuple(tools),
        None if turns is None else int(turns),
    )


def _check_input(given: Input) -> Input:
    """Checks the values of the arguments, in this order (X-11).

    Raises:
        ToolError: a value is invalid.
    """
    if not given.task_prompt.strip():
        raise ToolError("task_prompt cannot be empty")
    if not given.label.strip():
        raise ToolError("label cannot be empty")
    if given.max_turns is not None and not 1 <= given.max_turns <= MAX_TURNS:
        raise ToolError("max_turns must be between 1 and 50")
    return given


def _select_tools(ctx: ToolContext, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Returns the caller's tools that the child gets besides its own `subagent` (X-12..X-17).

    Raises:
        ToolError: a name is forbidden, or is not a tool of the caller.
    """
    if names is None:
        return tuple(name for name in ctx.tools if name != NAME)
    if NAME in names:
        raise ToolError("Subagent cannot have 'subagent' in allowed_tools")
    return tools_of_caller(ctx, names, "Unknown tool in allowed_tools: ")


def _collect_metadata(result: RunResult, label: str, depth: int, max_turns: int) -> dict[str, str]:
    """Returns the metadata of a child (X-22..X-25)."""
    turns = sum(not turn.closing for turn in result.log)
    notes = {
        "subagent_label": label,
        "recursion_depth": str(depth),
        "completion_status": "complete" if result.ok else "incomplete",
        "turns_used": str(turns),
    }
    if not result.ok and turns >= max_turns:
        notes |= {"max_turns_reached": "true", "max_turns": str(max_turns)}
    if result.usage.total:
        notes |= {
            "tokens_used": str(result.usage.total),
            "prompt_tokens": str(result.usage.input_tokens),
            "completion_tokens": str(result.usage.output_tokens),
        }
    return notes


TOOLS = {NAME: tool(NO_CONFIG)}
