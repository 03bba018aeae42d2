"""delegate_task: runs up to five subtasks in copies of the caller and returns one report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from axe_nb.delegation.spawn_agent import (
    NAME_SIZE,
    OF_OPTA,
    block,
    format_failure,
    granted_limits,
    is_failure,
    job,
    too_deep,
    whole_number,
)
from axe_nb.errors import AxeError
from axe_nb.messages import ToolParameter
from axe_nb.results import RunResult
from axe_nb.text import one_line
from axe_nb.threads import without_group
from axe_nb.tools.tool import Tool, ToolContext, ToolError, ToolOutput, text_argument

NAME = "delegate_task"
MAX_SUBTASKS = 5


@dataclass(frozen=True, slots=True)
class Subtask:
    task: str
    scope: str
    depends_on: int | None
    """Index of an earlier subtask whose report this subtask receives; None if there is none."""


Outcome: TypeAlias = RunResult | AxeError | ToolError
"""Result of a subtask, or the error that kept the subtask from starting."""


async def run(ctx: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
    """Runs the subtasks and returns their reports, or an error if the arguments are invalid."""
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
    NAME: Tool(
        NAME,
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
        run, "delegate", default_depth=2, copies_caller=True, is_budgeted=True,
    )
}  # fmt: skip
