"""The links between a run and its model: retries after temporary failures, and each attempt.

`Conversation` connects them, with those of `interceptors.py` that the run needs.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeAlias

from axe_nb.engine.limits import OverBudget, estimate_tokens
from axe_nb.engine.person import ApprovalRequest
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import Emit, RetryScheduled, TextDelta
from axe_nb.messages import Delta, Request, Response, SentLog, Usage
from axe_nb.messages.exchanges import Cut, Exchange
from axe_nb.providers.prices import COUNTED
from axe_nb.providers.protocol import OnDelta, Provider
from axe_nb.results import turn_of
from axe_nb.text import format_dollars, format_seconds

FIRST_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

LONGEST_WAIT = 30.0
"""Maximum seconds to wait before a retry, unless the server requests more."""

JITTER, LONGEST_JITTER = 0.25, 3.0
"""Maximum random addition to a wait, as a part of it and in seconds, so that requests that failed
together do not all return together."""

EVERY = 0.03
"""Minimum seconds between two deltas of the same kind; the first one is passed on at once."""

Send: TypeAlias = Callable[[Request], Awaitable[Response]]
"""One concern of a request: (request) → the complete response; asks the next link.

Raises ProviderError if the request failed and is not retried any more; RunStopped if a cap of the
tree has been reached, or the person stopped it; TimeoutError if the time is up.
"""


class Partial:
    """The unfinished reply of a run, and its exchanges so far; the links of a run share it."""

    def __init__(self, run: str, emit: Emit, *, is_streamed: bool) -> None:
        self.exchanges: list[Exchange] = []
        self.deltas: list[Delta] = []
        """Deltas of the reply that is being streamed, or was cut off, whether passed on or not."""
        self.failed = ""
        """The text that came with the failure of the latest request."""
        self._run, self._emit, self._is_streamed = run, emit, is_streamed
        self._turn_and_attempt = 0, 0
        self._passed_on = 0
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        """Time of the next event, on the monotonic clock."""

    @property
    def text(self) -> str:
        """Text of the unfinished reply; empty between requests."""
        return self.failed or "".join(delta.text for delta in self.deltas if delta.kind == "text")

    def begin(self, request: Request) -> OnDelta | None:
        """Begins a new attempt; returns the receiver of its pieces, None if it is not streamed."""
        self.clear()
        self._turn_and_attempt, self._next_at = (turn_of(request.place), request.attempt), 0.0
        return self.add if self._is_streamed else None

    def add(self, delta: Delta) -> None:
        """Takes a delta, to be merged with those that arrive soon; neither blocks nor raises."""
        if len(self.deltas) > self._passed_on:
            last = self.deltas[-1]
            if (last.kind, last.call) != (delta.kind, delta.call):
                self.flush()
        self.deltas.append(delta)
        if time.monotonic() >= self._next_at:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waiting := self.deltas[self._passed_on :]:
            self._passed_on = len(self.deltas)
            self._next_at = time.monotonic() + EVERY
            first, text = waiting[0], "".join(delta.text for delta in waiting)
            place = self._run, *self._turn_and_attempt
            self._emit(TextDelta(*place, text, first.kind, first.call, first.name))

    def clear(self) -> None:
        """Forgets the text, as the reply is complete or has not begun to arrive."""
        self.deltas, self.failed, self._passed_on = [], "", 0


@dataclass(slots=True)
class Retries:
    scope: RunScope
    is_virtual: bool
    next: Send

    async def send(self, request: Request) -> Response:
        began, turn = self.scope.seconds, turn_of(request.place)
        try:
            while True:
                try:
                    return await self.next(request)
                except ProviderError as error:
                    if not error.retryable:
                        raise
                    if request.attempt > self.scope.retries:
                        raise make_last_error(error, request.attempt) from None
                    request = replace(request, attempt=request.attempt + 1)
                    await self.wait(error, turn, request.attempt)
        finally:
            self.scope.note("model", began, turn)

    async def wait(self, error: ProviderError, turn: int, attempt: int) -> None:
        """Waits before an attempt, at least as long as the server requests."""
        clock = self.scope.clock
        seconds, left = compute_wait(error, attempt), clock.left
        if left is not None and seconds >= left:
            raise make_late_error(error)
        slack = JITTER * seconds if left is None else min(JITTER * seconds, (left - seconds) / 2)
        seconds += min(slack, LONGEST_JITTER) * random.random()
        began = self.scope.seconds
        tell_retry(self.scope, error, turn, attempt, seconds)
        try:
            if self.is_virtual:
                clock.forward(clock.ahead + seconds)
            else:
                await asyncio.sleep(seconds)
        finally:
            self.scope.note("retry", began, turn)


@dataclass(slots=True)
class Attempt:
    request: Request
    on_delta: OnDelta | None
    response: Response | None = None


@dataclass(slots=True)
class Attempts:
    """Makes one attempt, within the slots, the caps and the budget; keeps its exchange."""

    scope: RunScope
    provider: Provider
    partial: Partial
    keeps_deltas: bool

    async def send(self, request: Request) -> Response:
        scope, budget, model = self.scope, self.scope.env.budget, self.scope.agent.model
        async with scope.in_flight.requests.take():
            scope.env.halt.check()
            scope.clock.check()
            scope.meter.check()
            scope.meter.request(scope.name)
            held = await self._hold(request) if budget.amount else 0.0
            response: Response | None = None
            try:
                with self.record(request) as made:
                    answer = await self.provider.send(made.request, made.on_delta)
                    if all(call.name in COUNTED for call in answer.server_calls):
                        cost = await scope.env.prices.find_cost(model, answer.usage)
                        if cost is not None:
                            answer = replace(answer, usage=answer.usage.at_cost(cost))
                    made.response = answer
                response = answer
                return response
            finally:
                budget.settle(
                    held, model, response.usage.cost if response else None,
                    is_counted=response is not None and self.provider.name != "script",
                )  # fmt: skip

    async def _hold(self, request: Request) -> float:
        """Holds the least that a request costs: like the previous reply, or else its prompt.

        The person is asked before the session's budget would be exceeded; without approval, the
        tree ends.
        """
        scope, budget = self.scope, self.scope.env.budget
        costs = (one.cost for one in reversed(self.partial.exchanges))
        dollars = next(filter(None, costs), None)
        if dollars is None:
            usage = Usage(1 + estimate_tokens(request.system, (), request.messages))
            dollars = await scope.env.prices.find_cost(scope.agent.model, usage) or 0.0
        while not budget.try_hold(dollars):
            higher = budget.find_next(dollars)
            why = budget.describe_end(dollars)
            step, is_raised = f"raise it with %axe budget {higher:.6g}", False
            if scope.env.ask_person is not None:
                question = ApprovalRequest(
                    scope.id, scope.agent.name, "", {}, reason=why, raises=format_dollars(higher)
                )
                answer = await scope.ask(question, lambda: budget.has_room(dollars))
                step, is_raised = "it was not raised", answer.choice == "yes"
            if not is_raised:
                raise scope.env.halt.end_tree(OverBudget("error", f"{why}; {step}"))
            if not budget.has_room(dollars):
                budget.amount = max(budget.amount, higher)
        return dollars

    @contextmanager
    def record(self, request: Request, recorded: Exchange | None = None) -> Iterator[Attempt]:
        """Records the exchange of an attempt, which is made in the block, whatever its outcome.

        The attempt asks the provider, or plays a `recorded` exchange.
        """
        log, partial, scope = SentLog(), self.partial, self.scope
        if recorded is not None:
            refused = frozenset(recorded.refused)
            log = SentLog(recorded.streaming, refused, recorded.server)
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        made = Attempt(replace(request, log=log), partial.begin(request))
        try:
            try:
                yield made
            finally:
                partial.flush()
                if task.cancelling() > cancelled_before:  # even if the provider swallowed it
                    made.response = None
                    raise asyncio.CancelledError
            cut = ""
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            response = made.response
            is_last = error and error.retryable and request.attempt > scope.retries
            exchange = Exchange(
                turn=turn_of(request.place), attempt=request.attempt, model=request.model,
                protocol=recorded.protocol if recorded else self.provider.name,
                sent=len(request.messages), system=request.system,
                system_ends=request.system_ends, tools=request.tools,
                past_tools=request.past_tools, output=request.output,
                refused=tuple(sorted(log.refused)), server=log.server, params=request.params,
                streaming=log.streaming, response=response,
                deltas=tuple(partial.deltas) if self.keeps_deltas else (), error=error,
                was_last=bool(is_last or (recorded and recorded.was_last)),
                cut="timeout" if cut and scope.clock.is_late else cut,
                cost=response.usage.cost if response else None,
            )  # fmt: skip
            partial.exchanges.append(exchange)


def compute_wait(error: ProviderError, attempt: int) -> float:
    """Returns the seconds before an attempt, from 2: as the server requests, or our default."""
    return error.retry_after or min(FIRST_WAIT * 2 ** min(attempt - 2, 10), LONGEST_WAIT)


def tell_retry(
    scope: RunScope, error: ProviderError, turn: int, attempt: int, seconds: float
) -> None:
    reason = str(error.status or error.category)
    scope.env.emit(
        RetryScheduled(scope.id, turn, attempt, seconds, reason, error.message, scope.retries)
    )


def make_last_error(error: ProviderError, attempts: int) -> ProviderError:
    hint = error.hint or "try again later, or allow more retries with --retries"
    return _change(error, f" ({attempts} attempts)" if attempts > 1 else "", hint)


def make_late_error(error: ProviderError) -> ProviderError:
    """Returns the error of a request that could be sent again only after the run's time is up."""
    wait = "a retry would wait"
    if error.retry_after:
        wait = f"the server asks for a wait of {format_seconds(error.retry_after)}s"
    more = f"; {wait}, longer than the run has left"
    return _change(error, more, "give the run more time with --timeout")


def _change(error: ProviderError, more: str, hint: str) -> ProviderError:
    changed = copy(error)
    changed.message, changed.hint = error.message + more, hint
    changed.args = (changed.message,)
    return changed
