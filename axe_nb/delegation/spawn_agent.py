"""spawn_agent and delegate_task: run tasks in copies of the caller, and return a report.

`ctx.delegate` starts such a copy, or a named agent, from a Python tool. Reports contain run times,
which views show as `…s` and which recordings and diffs ignore when they compare requests.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, get_args

from axe_nb import builtin
from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import (
    ChildBudget,
    Mode,
    keep_server_tools,
    keep_servers,
    names_of_servers,
)
from axe_nb.errors import AxeError
from axe_nb.messages import ToolParameter, ToolResult
from axe_nb.results import RunResult, Status
from axe_nb.text import list_some, one_line, shown_value
from axe_nb.threads import without_group
from axe_nb.tools.tool import Job, Limits, Tool, ToolContext, ToolError, ToolOutput, text_argument

NAME = "spawn_agent"
NAME_SIZE = 60  # maximum characters of a child's name, which may come from a model
MAX_SUBTASKS = 5  # maximum subtasks of delegate_task (O-31)
MAX_TOOL_CALLS = 100  # maximum tool calls that a model may grant a child (O-9)
MODES: Mapping[str, Mode] = {"plan": "plan", "auto": "auto"}  # modes that a model may request

OF_OPTA: Mapping[Status, str] = {
    "completed": "completed",
    "max_turns": "budget_exceeded",
    "max_tool_calls": "budget_exceeded",
    "max_tokens": "budget_exceeded",
    "timeout": "timeout",
    "cancelled": "cancelled",
    "error": "error",
}
"""Maps a run's status to the status in the report for the caller's model (O-12, D-18)."""


def tool(budget: ChildBudget) -> Tool:
    parameters = {
        "task": ToolParameter(
            "string",
            "What the sub-agent should do: which files to look at and what to report back",
            required=True,
        ),
        "scope": ToolParameter(
            "string", "Folder or file to focus on: advice for the sub-agent, not a limit"
        ),
        "max_tool_calls": ToolParameter(
            "number", f"Maximum number of its tool calls (default: {budget.max_tool_calls})"
        ),
        "mode": ToolParameter(
            "string",
            "plan: it may only read; auto: it may also change files, if you may",
            schema={"enum": list(MODES)},
        ),
    }
    return Tool(
        NAME,
        "Spawn a sub-agent to perform a focused task independently. The sub-agent has its own "
        "context window and returns a result summary. Use for: parallel investigation, focused "
        "code search, isolated analysis. Do NOT use for trivial tasks a single tool call can "
        "handle.",
        parameters, run, "delegate", default_depth=2, is_one_child=True, copies_caller=True,
        is_budgeted=True, adapt=lambda agent, _: tool(agent.sub_agents_config.budget),
    )  # fmt: skip


async def run(ctx: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
    """Runs the child and returns a report, or an error report if it cannot start (O-42)."""
    if problem := too_deep(ctx):
        return format_failure(problem)
    task, scope = text_argument(arguments, "task"), text_argument(arguments, "scope")
    if not task.strip():
        return format_failure("task is required: describe what the sub-agent should do")
    notes = []
    wish = arguments.get("max_tool_calls")
    calls = whole_number(wish)
    most = min(MAX_TOOL_CALLS, ctx.limits.tool_calls or MAX_TOOL_CALLS)
    if wish is not None and calls is None:
        notes.append("max_tool_calls was ignored: it is not a number")
    elif calls is not None and calls > most:
        notes.append(f"max_tool_calls was clamped to {most}")
    word = text_argument(arguments, "mode").strip().lower()
    if word and word not in MODES:
        notes.append("mode was ignored: it is neither plan nor auto")
    try:
        limits = granted_limits(ctx)
        if calls is not None:
            limits = replace(limits, tool_calls=min(calls, most))
        result = await ctx.start(job(ctx, NAME, task, scope, limits, MODES.get(word)))
    except AxeError as error:
        return format_failure(str(error))
    return ToolOutput(block(result, notes), is_failure(result))


def too_deep(ctx: ToolContext) -> str:
    """Returns an error message if the caller has reached its depth limit, or "" (O-17)."""
    if ctx.depth < ctx.max_depth:
        return ""
    return f"Maximum sub-agent depth ({ctx.max_depth}) exceeded"


def granted_limits(ctx: ToolContext) -> Limits:
    own = ctx.agent.sub_agents_config.budget
    seconds = own.timeout_ms / 1000
    return Limits(tool_calls=own.max_tool_calls, tokens=own.max_tokens, seconds=seconds)


def job(
    ctx: ToolContext,
    name: str,
    task: str,
    scope: str,
    limits: Limits,
    mode: Mode | None = None,
    *,
    tools: Sequence[str] | None = None,
    more: str = "",
) -> Job:
    """Creates the job for a copy of the caller, which sees only its task (O-1, O-18)."""
    limits = limits.within(ctx.limits)
    focus = f"Focus on: {scope}" if scope.strip() else ""
    budget = "" if limits.tool_calls is None else f"You can make {limits.tool_calls} tool calls. "
    briefing = [
        "You are a sub-agent with a single task:",
        task,
        focus,
        f"Working directory: {ctx.agent.workdir.strip() or '.'}",
        f"{budget}No one can answer questions: decide yourself and state your assumptions. "
        "Be concise. End with a short summary of what you found or changed, with the names of "
        "the files: it is all that your caller sees.",
    ]
    child = replace(
        copy_of_caller(ctx, name, ctx.tools if tools is None else tools),
        system_prompt="\n\n".join(filter(None, briefing)),
        vars={},  # the task comes from a model: its braces are text
        skill="",
        files=(),
    )

    def note(result: RunResult) -> dict[str, str]:
        size = sum(
            len(m.content) + sum(len(r.content) for r in m.tool_results) for m in result.messages
        )
        seconds = limits.seconds
        notes = {
            "status": OF_OPTA[result.status],
            "tool_call_count": result.tool_calls,
            "token_estimate": result.usage.total or size // 4,
            "max_tool_calls": limits.tool_calls,
            "max_tokens": limits.tokens,
            "timeout_ms": seconds and f"{seconds * 1000:.0f}",
        }
        return {name: str(value) for name, value in notes.items() if value is not None}

    prompt = "\n\n".join(filter(None, (task, focus, more)))
    return Job(child, task, prompt, limits, mode=mode, is_copy=True, notes=note)


def block(result: RunResult, notes: Sequence[str] = ()) -> str:
    """Formats the result of a child as a report for the caller's model (D-6)."""
    head = [f"{result.tool_calls} tool calls, {result.duration_ms / 1000:.1f}s"]
    if not result.ok:
        tag = OF_OPTA[result.status].upper().replace("_", " ")
        reason = f"Error: {result.error}" if result.status == "error" else result.error
        head.insert(0, f"[{tag}] {reason}")
    tail = []
    for what in ("read", "modified"):
        names = dict.fromkeys(f for r in result.walk() for f in getattr(r, f"files_{what}"))
        if names:
            tail.append(f"Files {what}: {list_some([*names], 50)}")
    tail += (f"Note: {note}" for note in notes)
    parts = ("\n".join(head), result.text.strip(), "\n".join(tail))
    return "\n\n".join(filter(None, parts))


def format_failure(reason: str) -> ToolOutput:
    """Returns an error report for a child that did not start (O-27, O-41)."""
    return ToolOutput(f"[ERROR] Error: {reason}", is_error=True)


def is_failure(result: RunResult) -> bool:
    """True if a child failed or was cancelled, but not if its budget was used up (O-6, D-7)."""
    return result.status in ("error", "cancelled")


def whole_number(value: object) -> int | None:
    """Converts a number or numeric string to an int by truncation; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):  # other text, NaN or infinity
        return int(float(value) if isinstance(value, str) else value)
    return None


def copy_of_caller(ctx: ToolContext, name: str, tools: Sequence[str]) -> Agent:
    """Returns a copy of the calling agent with the given name and only the given tools.

    MCP servers that provide none of the tools are left out, with their permissions.
    The caller's permissions still apply to the copy.
    """
    caller = ctx.agent
    servers = keep_servers(caller.mcp_servers, tools)
    gone = {*names_of_servers(caller.mcp_servers)} - {*names_of_servers(servers)}
    rules = caller.permissions.items()
    # `call_agent` comes from `sub_agents`, unless the caller has a tool of its own with this name
    calls = "call_agent" in tools and "call_agent" not in caller.own_tools
    return replace(
        caller,
        name=one_line(name, NAME_SIZE),
        tools=tuple(tool for tool in tools if not (calls and tool == "call_agent")),
        sub_agents=caller.sub_agents if calls else (),
        mcp_servers=servers,
        params=keep_server_tools(caller.params, tools),
        permissions={key: rule for key, rule in rules if key.partition("__")[0] not in gone},
        warnings=(),
    )


def tools_of_caller(ctx: ToolContext, names: Sequence[str], problem: str) -> tuple[str, ...]:
    """Expands names and toolsets to the caller's tools (D-20). Raises ToolError for other names."""
    found: dict[str, None] = {}
    for name in names:
        mine = [tool for tool in builtin.SOURCE.sets.get(name, (name,)) if tool in ctx.tools]
        if not mine:
            raise ToolError(f"{problem}{one_line(name, NAME_SIZE)}")
        found.update(dict.fromkeys(mine))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Subtask:
    task: str
    scope: str
    depends_on: int | None
    """Index of an earlier subtask whose report this subtask receives; None if there is none."""


Outcome: TypeAlias = RunResult | AxeError | ToolError
"""Result of a subtask, or the error that kept the subtask from starting."""


async def run_plan(ctx: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
    """Runs subtasks and returns their reports, or an error if the arguments are invalid."""
    if problem := too_deep(ctx):
        return format_failure(problem)
    try:
        subtasks = parse_subtasks(arguments.get("subtasks"))
    except ToolError as error:
        return format_failure(str(error))
    outcomes = await run_subtasks(ctx, text_argument(arguments, "plan"), subtasks)
    done = sum(isinstance(outcome, RunResult) and outcome.ok for outcome in outcomes.values())
    failed = [number for number, outcome in sorted(outcomes.items()) if _is_error(outcome)]
    stopped = (f"\nStopped: subtask {number} ended with an error" for number in failed)
    parts = [f"{done} of {len(subtasks)} subtasks completed{''.join(stopped)}"]
    for number, subtask in enumerate(subtasks):
        report = "not run"
        if isinstance(outcome := outcomes.get(number), RunResult):
            report = block(outcome)
        elif outcome is not None:
            report = format_failure(str(outcome)).content
        parts.append(f"Subtask {number}: {one_line(subtask.task, NAME_SIZE)}\n{report}")
    return ToolOutput("\n\n".join(parts), bool(failed))


def parse_subtasks(given: object) -> list[Subtask]:
    """Parses subtasks sent by a model (O-42, D-21). Raises ToolError if they are invalid."""
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, list) or not given:
        raise ToolError("subtasks must be a list of objects with a task")
    if len(given) > MAX_SUBTASKS:
        raise ToolError(f"Maximum {MAX_SUBTASKS} subtasks per call, got {len(given)}")
    subtasks = []
    for number, one in enumerate(given):
        entry = one if isinstance(one, Mapping) else {"task": one}
        task, wish = text_argument(entry, "task"), entry.get("depends_on")
        if not task.strip():
            raise ToolError(f"subtask {number}: task is required")
        before = None if wish in (None, "") else whole_number(wish)
        if wish not in (None, "") and (before is None or not 0 <= before < number):
            must = "be omitted in the first"
            if number:
                must = f"name an earlier subtask, 0 to {number - 1}"
            raise ToolError(f"subtask {number}: depends_on must {must}")
        subtasks.append(Subtask(task, text_argument(entry, "scope"), before))
    return subtasks


async def run_subtasks(
    ctx: ToolContext, plan: str, subtasks: Sequence[Subtask]
) -> dict[int, Outcome]:
    """Runs subtasks until one fails, and returns their outcomes, keyed by index.

    Subtasks start in order, at most `max_concurrent` at once, each after its dependency (D-5).
    """
    width = max(1, ctx.agent.sub_agents_config.max_concurrent)
    outcomes: dict[int, Outcome] = {}

    async def run_one(number: int, subtask: Subtask) -> None:
        more = [f"This is one step of a plan: {plan}"] if plan.strip() else []
        earlier = outcomes.get(-1 if subtask.depends_on is None else subtask.depends_on)
        if isinstance(earlier, RunResult):  # (O-29)
            state = "" if earlier.ok else f" ({OF_OPTA[earlier.status]})"
            report = earlier.text.strip() or "(no text)"
            more.append(f"Result of subtask {subtask.depends_on}{state}:\n{report}")
        name, limits = f"subtask {number}", granted_limits(ctx)
        work = job(ctx, name, subtask.task, subtask.scope, limits, more="\n\n".join(more))
        try:
            outcomes[number] = await ctx.start(replace(work, key=number))
        except (AxeError, ToolError) as error:
            outcomes[number] = error

    while len(outcomes) < len(subtasks) and not any(map(_is_error, outcomes.values())):
        ready = [
            (number, subtask)
            for number, subtask in enumerate(subtasks)
            if number not in outcomes
            and (subtask.depends_on is None or subtask.depends_on in outcomes)
        ]
        with without_group():
            async with asyncio.TaskGroup() as group:
                for number, subtask in ready[:width]:
                    group.create_task(run_one(number, subtask))
    return outcomes


def _is_error(outcome: Outcome) -> bool:
    return not isinstance(outcome, RunResult) or is_failure(outcome)


SUBTASK = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What its sub-agent should do"},
        "scope": {
            "type": "string",
            "description": "Folder or file to focus on: advice, not a limit",
        },
        "depends_on": {
            "type": "number",
            "description": "Number of an earlier step, from 0, whose report its sub-agent should "
            "receive",
        },
    },
    "required": ["task"],
}

TOOLS = {
    NAME: tool(ChildBudget()),
    "delegate_task": Tool(
        "delegate_task",
        "Break a complex task into sub-tasks and run them sequentially. Each sub-task spawns a "
        "sub-agent. Results are aggregated into a single report. Use for multi-step investigations "
        "or when exploring multiple areas of the codebase.",
        {
            "plan": ToolParameter("string", "The overall goal of the steps", required=True),
            "subtasks": ToolParameter(
                "array",
                f"The steps in order, at most {MAX_SUBTASKS}",
                required=True,
                schema={"items": SUBTASK},
            ),
        },
        run_plan, "delegate", default_depth=2, copies_caller=True, is_budgeted=True,
    )
}  # fmt: skip


async def delegate(
    ctx: ToolContext,
    task: str,
    agent: Agent | str | None,
    tools: Sequence[str] | None,
    scope: str | None,
    mode: Mode | None,
    limits: Mapping[str, Any] | None,
    key: str | int | None,
) -> RunResult:
    """Implements `ToolContext.delegate`."""
    if problem := too_deep(ctx):
        raise ToolError(problem)
    names, modes = () if tools is None else tools, get_args(Mode)
    for wanted, fits in {
        f"task takes a text, not {shown_value(task)}": isinstance(task, str),
        f"mode takes {', '.join(modes)}, not {shown_value(mode)}": mode in (None, *modes),
        "tools takes a list of names of the caller's tools": isinstance(names, list | tuple)
        and all(isinstance(name, str) for name in names),
    }.items():
        if not fits:
            raise ToolError(wanted)
    if not task.strip():
        raise ToolError("task is required: describe what the sub-agent should do")
    own = granted_limits(ctx)
    if agent is not None:
        own = Limits(seconds=ctx.agent.sub_agents_config.timeout or None)
    try:
        given = Limits(**(limits or {}))
    except TypeError:
        keys = "turns, tool_calls, tokens and seconds"
        raise ToolError(f"limits takes a dict of {keys}, not {shown_value(limits)}") from None
    granted = replace(
        given,
        tool_calls=given.tool_calls or own.tool_calls,
        tokens=given.tokens or own.tokens,
        seconds=given.seconds or own.seconds,
    )
    if agent is None:
        if tools is not None:
            tools = tools_of_caller(ctx, tools, "Unknown tool in tools: ")
        child = job(ctx, ctx.call.name, task, scope or "", granted, mode, tools=tools)
    elif tools is not None:
        raise ToolError("tools are for a copy of the caller; a named agent has its own")
    else:
        prompt = f"Task: {task}"
        if scope and scope.strip():
            prompt += f"\n\nContext:\nFocus on: {scope}"
        child = Job(agent, task, prompt, granted, mode=mode)
    return await ctx.start(replace(child, key=key))


REPORTING = ("spawn_agent", "delegate_task")  # tools whose results are reports
REPORT = re.compile(r"(\b\d+ tool calls), \d+\.\ds\b")  # tool calls and run time in a report


def without_seconds(result: ToolResult) -> str:
    """Returns a tool result's text, with the run times in sub-agents' reports replaced by `…s`."""
    if result.name not in REPORTING:
        return result.content
    return re.sub(r"\b\d+\.\d+s\b", "…s", result.content)
