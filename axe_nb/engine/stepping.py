"""Pauses before the requests and calls of one run, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.conversion.json_schema import clean_schema, find_mistakes
from axe_nb.engine.ask_person import ask_person
from axe_nb.engine.call import CallLink, PendingCall
from axe_nb.engine.links import Link, Partial
from axe_nb.engine.person import Decision, Step, make_decided
from axe_nb.engine.place import turn_of
from axe_nb.engine.scope import Env, RunScope
from axe_nb.engine.stepper import Stepper
from axe_nb.errors import ConfigError
from axe_nb.limits import RunStopped
from axe_nb.messages import Request, Response
from axe_nb.text import quote
from axe_nb.threads import in_thread
from axe_nb.tools.tool import Tool, ToolOutput

SKIPPED = "skipped by the user"

GIVEN = "given by the user"
"""Notes of calls that were not made."""


def check_can_step(env: Env) -> None:
    """Checks that someone decides at the pauses of a tree, before anything is sent.

    Raises:
        ConfigError: no one does.
    """
    stepper = env.stepper
    if stepper is None or stepper.function is not None:
        return
    if env.ask_person is None and not any(one.answers("step") for one in env.replays):
        problem = "no one can be prompted here, and no decision is recorded"
        raise ConfigError(
            f"{stepper.flag} pauses the run: {problem}",
            hint="run it in a notebook or terminal, or pass step=function in Python",
        )


@dataclass(slots=True)
class Steps:
    """Pauses before a request, and about its reply if that is to be edited."""

    scope: RunScope
    stepper: Stepper
    protocol: str
    """Protocol of the model's server."""
    partial: Partial
    next: Link

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        scope, made = self.scope, self.partial.exchanges
        step = Step(
            kind="request", agent=scope.name, run=scope.id, turn=turn_of(request.place),
            model=scope.agent.model, request=request, protocol=self.protocol,
        )  # fmt: skip
        if not self.stepper.pauses_at(step):
            return await self.next.send(request)
        decision = await ask_person(scope, step)
        _check(scope, decision, ("go", "end", "edit", "skip", "result"))
        if (given := make_decided(step, decision)) is not None:  # nothing is sent or paid
            scope.meter.settle()
            scope.note("replay", scope.seconds, step.turn)
            made.append(given)
            assert given.response is not None
            return given.response
        response = await self.next.send(request)
        if decision.choice != "edit":
            return response
        decision = await ask_person(scope, replace(step, kind="reply", response=response))
        _check(scope, decision, ("go", "end", "edit"))
        reply = decision.reply if decision.choice == "edit" else None
        if reply is None:
            return response
        edited = replace(
            response, content=reply.content, tool_calls=reply.tool_calls,
            stop_reason=reply.stop_reason, echo={},
        )  # fmt: skip
        made[-1] = replace(made[-1], response=edited, source="edited")
        return edited


@dataclass(slots=True)
class StepCalls:
    """Pauses before a call."""

    scope: RunScope
    stepper: Stepper
    next: CallLink

    async def run(self, call: PendingCall) -> ToolOutput:
        """See `CallLink`."""
        scope, tool = self.scope, call.tool
        step = Step(
            kind="call", agent=scope.name, run=scope.id, turn=call.turn, model=scope.agent.model,
            tool=tool.name, given=call.arguments, number=call.number, call_id=call.call.id,
            whole=tool.shown_whole,
        )  # fmt: skip
        if not self.stepper.pauses_at(step):
            return await self.next.run(call)
        step = replace(step, schema=find_schema(tool))
        decision = await ask_person(scope, step)
        _check(scope, decision, ("go", "end", "edit", "skip", "result"))
        if decision.choice == "skip":
            call.is_skipped = True
            text = f"Error: {SKIPPED}; the call was not made"
            return ToolOutput(text, is_error=True, note=SKIPPED)
        if decision.choice == "result":
            return ToolOutput(decision.text, note=GIVEN)
        if decision.choice == "edit":
            given = dict(decision.arguments)
            mistakes = await in_thread(find_mistakes, step.schema, given) if step.schema else []
            if mistakes:
                told = f"the edited arguments of {tool.name} do not match its schema: "
                raise _end(scope, told + "; ".join(mistakes))
            call.arguments, call.is_edited = decision.arguments, True
        return await self.next.run(call)


def find_schema(tool: Tool) -> Mapping[str, Any]:
    """Returns the JSON Schema of a tool's arguments; empty if they cannot be checked by it."""
    with suppress(ConfigError):
        return clean_schema(tool.spec.input_schema(), tool.name)
    return {}


def _check(scope: RunScope, decision: Decision, fitting: tuple[str, ...]) -> None:
    """Checks that a decision, which may be a function's or a recorded one, fits its step."""
    if decision.choice not in fitting:
        raise _end(scope, f"{quote(decision.choice)} is not possible at this step")


def _end(scope: RunScope, why: str) -> RunStopped:
    return scope.env.halt.end_tree(RunStopped("error", f"step: {why}"))
