"""The links that may answer before a model or tool: a fork, the person at a pause, a cassette.

A fork stands above the pauses of a run: its turns are not stepped through. A cassette stands below
them: it has the decisions of the person, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

from axe_nb.conversion.json_schema import find_mistakes
from axe_nb.engine.attempts import (
    Attempts,
    Send,
    compute_wait,
    give_up,
    tell_retry,
)
from axe_nb.engine.authorize import find_schema
from axe_nb.engine.call import RunCall
from axe_nb.engine.dispatch import Dispatch, describe_failure
from axe_nb.engine.person import Decision, Step, Stepper, make_decided
from axe_nb.engine.replay import AskedTurn, KeptCall, KeptTurn, PendingCall, Replay
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import ToolFinished, ToolStarted
from axe_nb.messages import Message, Request, Response, ToolResult
from axe_nb.messages.exchanges import Cut, Exchange
from axe_nb.results import RunResult, RunStopped, turn_of
from axe_nb.text import quote
from axe_nb.threads import in_thread
from axe_nb.tools.tool import ToolOutput

SKIPPED = "skipped by the user"


def connect_model(attempts: Attempts) -> Send:
    """Connects the links of a run above its model; returns the first one."""
    env, send = attempts.scope.env, attempts.send
    if env.cassette:
        send = CassetteReplay(attempts, env.cassette, send).send
    if env.stepper:
        send = Steps(attempts, env.stepper, send).send
    if env.fork:
        send = ForkReplay(attempts, env.fork, send).send
    return send


def connect_calls(calls: Dispatch, adopt: Callable[[RunResult], None]) -> None:
    """Connects the links of a run above its tools; `adopt` takes over the children of a fork."""
    scope, env = calls.scope, calls.scope.env
    if env.cassette:
        calls.authorizer.next = CassetteCalls(scope, env.cassette, calls.run_tool).run
    if env.stepper:
        calls.answer = StepCalls(scope, env.stepper, calls.authorizer.run).run
    if env.fork:
        calls.make = ForkCalls(calls, env.fork, adopt, calls.run).run


@dataclass(slots=True)
class ForkReplay:
    """Replays the answers of the forked run: nothing is sent, counted or paid."""

    attempts: Attempts
    fork: Replay
    next: Send

    async def send(self, request: Request) -> Response:
        scope = self.attempts.scope
        asked = AskedTurn(request, scope.agent.model)
        found = await self.fork.find(asked)
        if not isinstance(found, KeptTurn):
            return await self.next(request)
        scope.meter.settle()
        if scope.env.cassette is not None:  # so that a recorded fork finds its root again
            scope.env.cassette.keep(asked, found)

        async def take(exchange: Exchange) -> Response:
            self.attempts.exchanges.append(exchange)
            if exchange.response is None:
                assert exchange.error is not None
                raise copy(exchange.error)
            return exchange.response

        return await _play(scope, request, found, take)


@dataclass(slots=True)
class CassetteReplay:
    """Plays a recorded turn at its old price, or records a new one."""

    attempts: Attempts
    cassette: Replay
    next: Send

    async def send(self, request: Request) -> Response:
        scope = self.attempts.scope
        asked = AskedTurn(request, scope.agent.model)
        found = await self.cassette.find(asked)
        if isinstance(found, KeptTurn):
            return await _play(scope, request, found, partial(self._answer, request, found))
        made = self.attempts.exchanges
        before, refusal = len(made), None
        try:
            return await self.next(request)
        except RunStopped as stop:
            refusal = stop
            raise
        finally:
            self.cassette.keep(asked, KeptTurn(made[before:], refusal))
            made[before:] = [replace(one, deltas=()) for one in made[before:]]

    async def _answer(self, request: Request, turn: KeptTurn, recorded: Exchange) -> Response:
        """Plays one attempt."""
        attempts, response = self.attempts, recorded.response
        attempts.scope.meter.request(attempts.scope.name)
        request = replace(request, attempt=recorded.attempt)
        if on_delta := attempts.begin(request):
            for delta in recorded.deltas:
                on_delta(delta)
            attempts.partial.flush()
        if response is not None:
            response = replace(response, usage=response.usage.at_cost(recorded.cost))
        played = Exchange.of(
            request, protocol=recorded.protocol, refused=recorded.refused, server=recorded.server,
            streaming=recorded.streaming, response=response, error=recorded.error,
            was_last=recorded.was_last, cut=recorded.cut, cost=recorded.cost,
        )  # fmt: skip
        attempts.exchanges.append(played)
        if recorded.cut:
            await self._cut(recorded.cut, turn)
        if response is None:
            raise copy(recorded.error) if recorded.error else asyncio.CancelledError
        return response

    async def _cut(self, cut: Cut, turn: KeptTurn) -> None:
        """Ends an attempt the way it was ended: by the run's timeout, or by a person."""
        scope, clock, wait = self.attempts.scope, self.attempts.scope.clock, turn.wait_until_quiet
        if cut == "timeout":
            if clock.deadline is None:
                raise RunStopped("timeout", "timeout, as recorded")
            if self.attempts.is_virtual or clock.deadline.run == scope.id:
                clock.forward(clock.ahead + (clock.left or 0.0))
            else:  # the time of a run above ends all that is below it at once
                if wait is not None:
                    await wait(clock.deadline.run)
                clock.deadline.expire()
        if cut == "cancelled":
            if wait is not None:
                await wait("0")
            scope.env.halt.cancel()
        await asyncio.Event().wait()  # until the tool stops waiting for it


async def _play(
    scope: RunScope,
    request: Request,
    turn: KeptTurn,
    answer: Callable[[Exchange], Awaitable[Response]],
) -> Response:
    """Plays the attempts of a turn, without waits between them."""
    began, number = scope.seconds, turn_of(request.place)
    refusal = turn.refusal if turn.refusal and scope.meter.has_cap(turn.refusal.cap) else None
    try:
        for recorded in turn.attempts:
            try:
                return await answer(recorded)
            except ProviderError as error:
                if not error.retryable:
                    raise
                if recorded.was_last:
                    raise give_up(error, recorded.attempt) from None
                if recorded is turn.attempts[-1] and refusal is None:
                    raise give_up(error) from None
                attempt = recorded.attempt + 1
                tell_retry(scope, error, number, attempt, compute_wait(error, attempt))
                scope.note("retry", scope.seconds, number)
                await asyncio.sleep(0)
    finally:
        scope.note("replay", began, number)
    assert refusal is not None
    raise refusal


@dataclass(slots=True)
class ForkCalls:
    """Takes the results of calls from the forked run, with the children of each call."""

    calls: Dispatch
    fork: Replay
    adopt: Callable[[RunResult], None]
    next: Callable[[PendingCall], Awaitable[ToolResult]]

    async def run(self, call: PendingCall) -> ToolResult:
        calls, scope = self.calls, self.calls.scope
        kept = await self.fork.find(call)
        if not isinstance(kept, KeptCall):
            return await self.next(call)
        calls.count += 1
        scope.env.emit(ToolStarted(scope.id, call.call))
        for child in kept.children:
            self.adopt(child)
        calls.file_log.files_read.update(dict.fromkeys(kept.files_read))
        calls.file_log.files_modified.update(dict.fromkeys(kept.files_modified))
        calls.pictures.use([Message("tool", tool_results=(kept.result,))])
        scope.env.emit(ToolFinished(scope.id, kept.result, 0.0))
        return kept.result


@dataclass(slots=True)
class CassetteCalls:
    """Plays or records the outputs of tools with `record=True`."""

    scope: RunScope
    cassette: Replay
    next: RunCall

    async def run(self, call: PendingCall) -> ToolOutput:
        if not call.tool.record:
            return await self.next(call)
        found = await self.cassette.find(call)
        if isinstance(found, ToolOutput):
            return found
        try:
            output = await self.next(call)
        except RunStopped:
            raise
        except Exception as error:
            self.cassette.keep(call, describe_failure(error))
            raise
        self.cassette.keep(call, output)
        return output


@dataclass(slots=True)
class Steps:
    """Pauses before a request, and about its reply if that is to be edited."""

    attempts: Attempts
    stepper: Stepper
    next: Send

    async def send(self, request: Request) -> Response:
        scope, made = self.attempts.scope, self.attempts.exchanges
        step = Step(
            kind="request", agent=scope.name, run=scope.id, turn=turn_of(request.place),
            model=scope.agent.model, request=request, protocol=self.attempts.provider.name,
        )  # fmt: skip
        if not self.stepper.pauses_at(step):
            return await self.next(request)
        decision = await scope.ask(step)
        _check(scope, decision, ("go", "end", "edit", "skip", "result"))
        if (given := make_decided(step, decision)) is not None:  # nothing is sent or paid
            scope.meter.settle()
            scope.note("replay", scope.seconds, step.turn)
            made.append(given)
            assert given.response is not None
            return given.response
        response = await self.next(request)
        if decision.choice != "edit":
            return response
        decision = await scope.ask(replace(step, kind="reply", response=response))
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
    scope: RunScope
    stepper: Stepper
    next: RunCall

    async def run(self, call: PendingCall) -> ToolOutput:
        scope, tool = self.scope, call.tool
        step = Step(
            kind="call", agent=scope.name, run=scope.id, turn=call.turn, model=scope.agent.model,
            tool=tool.name, given=call.arguments, number=call.number, call_id=call.call.id,
            whole=tool.shown_whole, schema=find_schema(tool),
        )  # fmt: skip
        if not self.stepper.pauses_at(step):
            return await self.next(call)
        decision = await scope.ask(step)
        _check(scope, decision, ("go", "end", "edit", "skip", "result"))
        if decision.choice == "skip":
            call.is_skipped = True
            text = f"Error: {SKIPPED}; the call was not made"
            return ToolOutput(text, is_error=True, note=SKIPPED)
        if decision.choice == "result":
            return ToolOutput(decision.text, note="given by the user")
        if decision.choice == "edit":
            given = dict(decision.arguments)
            mistakes = await in_thread(find_mistakes, step.schema, given) if step.schema else []
            if mistakes:
                told = f"the edited arguments of {tool.name} do not match its schema: "
                raise _end(scope, told + "; ".join(mistakes))
            call.arguments = call.edited = decision.arguments
        return await self.next(call)


def _check(scope: RunScope, decision: Decision, fitting: tuple[str, ...]) -> None:
    """Checks that a decision, which may be a function's or a recorded one, fits its step."""
    if decision.choice not in fitting:
        raise _end(scope, f"{quote(decision.choice)} is not possible at this step")


def _end(scope: RunScope, why: str) -> RunStopped:
    return scope.env.halt.end_tree(RunStopped("error", f"step: {why}"))
