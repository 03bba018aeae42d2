"""Pauses before the requests and calls of one run, and what becomes of them.

Source: product.md "Step by step"; issue 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.conversion.json_schema import clean_schema, find_mistakes
from axe_nb.engine.ask_person import ask_person
from axe_nb.engine.scope import Env, RunScope
from axe_nb.engine.step import Decision, Step
from axe_nb.errors import ConfigError
from axe_nb.limits import RunStopped
from axe_nb.messages import Request, Response, ToolCall
from axe_nb.text import quote
from axe_nb.threads import in_thread
from axe_nb.tools.tool import Tool, ToolOutput

SKIPPED = "skipped by the user"

GIVEN = "given by the user"
"""Notes of calls that were not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStep:
    """A call after its pause."""

    arguments: Mapping[str, Any]
    """Those to run with."""
    is_edited: bool = False
    output: ToolOutput | None = None
    """Takes the place of the call; None = it is made."""
    is_skipped: bool = False


def check_can_step(env: Env) -> None:
    """Checks that someone decides at the pauses of a tree, before anything is sent.

    Raises:
        ConfigError: no one does.
    """
    stepper, tape = env.stepper, env.tape
    if stepper is None or stepper.function is not None or (tape and tape.has_steps):
        return
    if env.ask_person is None or (tape and not tape.may_ask):
        problem = "no one can be prompted here, and no decision is recorded"
        raise ConfigError(
            f"{stepper.flag} pauses the run: {problem}",
            hint="run it in a notebook or terminal, or pass step=function in Python",
        )


async def step_request(scope: RunScope, request: Request, turn: int, protocol: str) -> Decision:
    """Pauses before a request, if there is a pause; returns how to go on.

    Args:
        scope: the run.
        request: the request.
        turn: its turn.
        protocol: that of its server.

    Raises:
        RunStopped: the tree was stopped.
    """
    step = _make_step(scope, request, turn, protocol)
    stepper = scope.env.stepper
    if stepper is None or not stepper.pauses_at(step):
        return Decision("go")
    decision = await ask_person(scope, step)
    _check(scope, decision, ("go", "end", "edit", "skip", "result"))
    if decision.choice == "result" and decision.reply is None:
        raise _end(scope, "a result for a request must contain a reply")
    return decision


async def step_reply(
    scope: RunScope, request: Request, turn: int, protocol: str, response: Response
) -> Response | None:
    """Has the person edit a reply; returns what takes its place, None = it stays.

    Raises:
        RunStopped: the tree was stopped.
    """
    step = replace(_make_step(scope, request, turn, protocol), kind="reply", response=response)
    decision = await ask_person(scope, step)
    _check(scope, decision, ("go", "end", "edit"))
    reply = decision.reply if decision.choice == "edit" else None
    if reply is None:
        return None
    return replace(
        response, content=reply.content, tool_calls=reply.tool_calls,
        stop_reason=reply.stop_reason, echo={},
    )  # fmt: skip


async def step_call(
    scope: RunScope, tool: Tool, call: ToolCall, number: int, turn: int
) -> CallStep:
    """Pauses before a call, if there is a pause; returns how to go on.

    Args:
        scope: the run.
        tool: the tool.
        call: the call.
        number: among the calls of the run, from 1.
        turn: the turn that made it.

    Raises:
        RunStopped: the tree was stopped, or edited arguments do not fit.
    """
    stepper = scope.env.stepper
    step = Step(
        kind="call", agent=scope.name, run=scope.id, turn=turn, model=scope.agent.model,
        tool=tool.name, given=call.arguments, number=number, call_id=call.id,
        whole=tool.shown_whole,
    )  # fmt: skip
    if stepper is None or not stepper.pauses_at(step):
        return CallStep(arguments=call.arguments)
    step = replace(step, schema=find_schema(tool))
    decision = await ask_person(scope, step)
    _check(scope, decision, ("go", "end", "edit", "skip", "result"))
    match decision.choice:
        case "skip":
            text = f"Error: {SKIPPED}; the call was not made"
            output = ToolOutput(text, is_error=True, note=SKIPPED)
            return CallStep(arguments=call.arguments, output=output, is_skipped=True)
        case "result":
            output = ToolOutput(decision.text, note=GIVEN)
            return CallStep(arguments=call.arguments, output=output)
        case "edit":
            await _check_arguments(scope, step, decision.arguments)
            return CallStep(arguments=decision.arguments, is_edited=True)
    return CallStep(arguments=call.arguments)


def find_schema(tool: Tool) -> Mapping[str, Any]:
    """Returns the JSON Schema of a tool's arguments; empty if they cannot be checked by it."""
    with suppress(ConfigError):
        return clean_schema(tool.spec.input_schema(), tool.name)
    return {}


def _make_step(scope: RunScope, request: Request, turn: int, protocol: str) -> Step:
    return Step(
        kind="request", agent=scope.name, run=scope.id, turn=turn, model=scope.agent.model,
        request=request, protocol=protocol,
    )  # fmt: skip


def _check(scope: RunScope, decision: Decision, fitting: tuple[str, ...]) -> None:
    """Checks that a decision, which may be a function's or a recorded one, fits its step.

    Raises:
        RunStopped: it does not.
    """
    if decision.choice not in fitting:
        raise _end(scope, f"{quote(decision.choice)} is not possible at this step")


async def _check_arguments(scope: RunScope, step: Step, arguments: Mapping[str, Any]) -> None:
    """Checks edited arguments.

    Raises:
        RunStopped: they do not fit the schema of the tool.
    """
    mistakes = await in_thread(find_mistakes, step.schema, dict(arguments)) if step.schema else []
    if mistakes:
        told = "; ".join(mistakes)
        raise _end(scope, f"the edited arguments of {step.tool} do not match its schema: {told}")


def _end(scope: RunScope, why: str) -> RunStopped:
    return scope.env.halt.end_tree(RunStopped("error", f"step: {why}"))
