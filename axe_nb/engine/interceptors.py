"""Handlers for forks, pauses and cassettes, which may answer instead of a model or tool.

Requests and calls pass through the handlers of the fork first, so that a run does not pause at
replayed turns. The handlers of the pauses come next, and the handlers of the cassette last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import replace
from functools import partial

from axe_nb.conversion.json_schema import find_wrong_arguments
from axe_nb.engine.attempts import Attempts, Send, compute_wait, give_up, tell_retry
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


def connect(attempts: Attempts, calls: Dispatch, adopt: Callable[[RunResult], None]) -> Send:
    """Adds the handlers that a run needs, and returns the first handler for its requests."""
    env = attempts.scope.env
    send: Send = attempts.send
    if env.cassette:
        send = partial(replay_cassette_turn, attempts, env.cassette, send)
        calls.authorizer.next = partial(replay_cassette_call, env.cassette, calls.run_tool)
    if env.stepper:
        send = partial(step_turn, attempts, env.stepper, send)
        calls.answer = partial(step_call, calls.scope, env.stepper, calls.authorizer.run)
    if env.fork:
        send = partial(replay_fork_turn, attempts, env.fork, send)
        calls.make = partial(replay_fork_call, calls, env.fork, adopt)
    return send


async def replay_fork_turn(
    attempts: Attempts, fork: Replay, next: Send, request: Request
) -> Response:
    """Replays a recorded turn of the forked run without charge; passes other requests to `next`."""
    scope = attempts.scope
    asked = AskedTurn(request, scope.agent.model)
    found = await fork.find(asked)
    if not isinstance(found, KeptTurn):
        return await next(request)
    if scope.env.cassette is not None:  # so that a recorded fork finds its root again
        scope.env.cassette.keep(asked, found)

    async def take(exchange: Exchange) -> Response:
        attempts.exchanges.append(exchange)
        if exchange.response is None:
            assert exchange.error is not None
            raise copy(exchange.error)
        return exchange.response

    return await _play(scope, request, found, take)


async def replay_cassette_turn(
    attempts: Attempts, cassette: Replay, next: Send, request: Request
) -> Response:
    """Replays a recorded turn with its recorded cost, or records the turn that `next` makes."""
    scope = attempts.scope
    asked = AskedTurn(request, scope.agent.model)
    found = await cassette.find(asked)
    if isinstance(found, KeptTurn):
        return await _play(scope, request, found, partial(_answer, attempts, request, found))
    made = attempts.exchanges
    before, refusal = len(made), None
    try:
        return await next(request)
    except RunStopped as stop:
        refusal = stop
        raise
    finally:
        cassette.keep(asked, KeptTurn(made[before:], refusal))
        made[before:] = [replace(one, deltas=()) for one in made[before:]]


async def _answer(
    attempts: Attempts, request: Request, turn: KeptTurn, recorded: Exchange
) -> Response:
    response = recorded.response
    attempts.scope.meter.request(attempts.scope.name)
    request = replace(request, attempt=recorded.attempt)
    if on_delta := attempts.begin(request):
        for delta in recorded.deltas:
            on_delta(delta)
    if response is not None:
        response = replace(response, usage=response.usage.at_cost(recorded.cost))
    played = Exchange.of(
        request, protocol=recorded.protocol, refused=recorded.refused, server=recorded.server,
        streaming=recorded.streaming, response=response, error=recorded.error,
        was_last=recorded.was_last, cut=recorded.cut, cost=recorded.cost,
    )  # fmt: skip
    attempts.exchanges.append(played)
    if recorded.cut:
        await _cut(attempts, recorded.cut, turn)
    if response is None:
        raise copy(recorded.error) if recorded.error else asyncio.CancelledError
    return response


async def _cut(attempts: Attempts, cut: Cut, turn: KeptTurn) -> None:
    scope, clock, wait = attempts.scope, attempts.scope.clock, turn.wait_until_quiet
    if cut == "timeout":
        if clock.deadline is None:
            raise RunStopped("timeout", "timeout, as recorded")
        if attempts.is_virtual or clock.deadline.run == scope.id:
            clock.forward(clock.ahead + (clock.left or 0.0))
        else:  # the deadline of a run above ends all runs below it at once
            if wait is not None:
                await wait(clock.deadline.run)
            clock.deadline.expire()
    if cut == "cancelled":
        if wait is not None:
            await wait("0")
        scope.env.halt.cancel()
    await asyncio.Event().wait()  # until the task is cancelled


async def _play(
    scope: RunScope,
    request: Request,
    turn: KeptTurn,
    answer: Callable[[Exchange], Awaitable[Response]],
) -> Response:
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


async def replay_fork_call(
    calls: Dispatch, fork: Replay, adopt: Callable[[RunResult], None], call: PendingCall
) -> ToolResult:
    """Replays a call of the forked run with its child runs. Passes other calls to `calls.run`."""
    scope = calls.scope
    kept = await fork.find(call)
    if not isinstance(kept, KeptCall):
        return await calls.run(call)
    calls.count += 1
    scope.env.emit(ToolStarted(scope.id, call.call))
    for child in kept.children:
        adopt(child)
    calls.file_log.files_read.update(dict.fromkeys(kept.files_read))
    calls.file_log.files_modified.update(dict.fromkeys(kept.files_modified))
    calls.pictures.use([Message("tool", tool_results=(kept.result,))])
    scope.env.emit(ToolFinished(scope.id, kept.result, 0.0))
    return kept.result


async def replay_cassette_call(cassette: Replay, next: RunCall, call: PendingCall) -> ToolOutput:
    """Replays or records the output of a tool with `record=True`. Passes other calls to `next`."""
    if not call.tool.record:
        return await next(call)
    found = await cassette.find(call)
    if isinstance(found, ToolOutput):
        return found
    try:
        output = await next(call)
    except RunStopped:
        raise
    except Exception as error:
        cassette.keep(call, describe_failure(error))
        raise
    cassette.keep(call, output)
    return output


async def step_turn(attempts: Attempts, stepper: Stepper, next: Send, request: Request) -> Response:
    """Pauses before a request, and after its response if the user chose to edit the response."""
    scope, made = attempts.scope, attempts.exchanges
    step = Step(
        kind="request", agent=scope.name, run=scope.id, turn=turn_of(request.place),
        model=scope.agent.model, request=request, protocol=attempts.provider.name,
    )  # fmt: skip
    if not stepper.pauses_at(step):
        return await next(request)
    decision = await scope.ask(step)
    _check(scope, decision, ("go", "end", "edit", "skip", "result"))
    if (given := make_decided(step, decision)) is not None:  # nothing is sent or paid
        scope.note("replay", scope.seconds, step.turn)
        made.append(given)
        assert given.response is not None
        return given.response
    response = await next(request)
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


async def step_call(
    scope: RunScope, stepper: Stepper, next: RunCall, call: PendingCall
) -> ToolOutput:
    tool = call.tool
    step = Step(
        kind="call", agent=scope.name, run=scope.id, turn=call.turn, model=scope.agent.model,
        tool=tool.name, given=call.arguments, number=call.number, call_id=call.call.id,
        whole=tool.shown_whole, schema=tool.spec.input_schema(),
    )  # fmt: skip
    if not stepper.pauses_at(step):
        return await next(call)
    decision = await scope.ask(step, call=call)
    _check(scope, decision, ("go", "end", "edit", "skip", "result"))
    if decision.choice == "skip":
        call.is_skipped = True
        text = "Error: skipped by the user; the call was not made"
        return ToolOutput(text, is_error=True, note="skipped by you")
    if decision.choice == "result":
        return ToolOutput(decision.text, note="given by you")
    if decision.choice == "edit":
        given = dict(decision.arguments)
        mistakes = await in_thread(find_wrong_arguments, step.schema, given)
        if mistakes:
            told = f"the edited arguments of {tool.name} do not match its schema: "
            raise _end(scope, told + "; ".join(mistakes))
        call.arguments = call.edited = decision.arguments
    return await next(call)


def _check(scope: RunScope, decision: Decision, fitting: tuple[str, ...]) -> None:
    if decision.choice not in fitting:
        raise _end(scope, f"{quote(decision.choice)} is not possible at this step")


def _end(scope: RunScope, why: str) -> RunStopped:
    return scope.env.halt.end_tree(RunStopped("error", f"step: {why}"))
