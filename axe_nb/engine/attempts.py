"""Sends a run's requests to its provider, and retries after temporary failures.

For forks, cassettes and pauses, `interceptors.py` puts handlers in front of `Attempts.send`.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import replace
from typing import TypeAlias

from axe_nb.agents.names import parse_model
from axe_nb.engine.limits import estimate_tokens
from axe_nb.engine.plan import Plan
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import Emit, RetryScheduled, TextDelta, discard
from axe_nb.messages import Delta, Request, Response, SentLog, Usage
from axe_nb.messages.exchanges import Cut, Exchange
from axe_nb.providers.prices import COUNTED
from axe_nb.providers.protocol import OnDelta
from axe_nb.results import turn_of
from axe_nb.text import format_seconds

Send: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Function that returns the response to a request; handlers of this type form a chain.

Raises ProviderError if the request fails and is not retried, RunStopped if a cap is reached or the
tree is stopped, TimeoutError if the run's time is up, CassetteMiss if a required recording is
missing, and ConfigError if the provider is not set up.
"""


class Attempts:
    """Sends the requests of a run to its provider, with retries after temporary failures."""

    def __init__(self, plan: Plan) -> None:
        self.scope, self.provider = plan.scope, plan.provider
        self._is_streamed = plan.is_streamed
        self._emit: Emit = plan.scope.env.emit if plan.streams else discard
        self.deltas: list[Delta] = []
        """The pieces of the latest response that have arrived; empty once it is complete."""
        self.exchanges: list[Exchange] = []
        find_virtual = getattr(plan.provider, "is_virtual", None)
        self.is_virtual = bool(find_virtual and find_virtual(parse_model(plan.agent.model)[1]))
        """True if delays of the model advance only the virtual clock (D-36)."""

    async def send(self, request: Request) -> Response:
        """Sends a request, with up to `scope.retries` retries. Raises the errors of `Send`."""
        scope, turn, began = self.scope, turn_of(request.place), self.scope.seconds
        try:
            while True:
                try:
                    return await self._attempt(request)
                except ProviderError as error:
                    if not error.retryable:
                        raise
                    if request.attempt > scope.retries:
                        raise give_up(error, request.attempt) from None
                    request = replace(request, attempt=request.attempt + 1)
                    await self._wait(error, turn, request.attempt)
        finally:
            scope.note("model", began, turn)

    async def _wait(self, error: ProviderError, turn: int, attempt: int) -> None:
        scope, clock, began = self.scope, self.scope.clock, self.scope.seconds
        seconds, left = compute_wait(error, attempt), math.inf if clock.left is None else clock.left
        if seconds >= left:
            raise give_up(error)
        # a random delay, so that requests that failed together are not retried together
        seconds += min(seconds / 4, 3.0, (left - seconds) / 2) * random.random()
        tell_retry(scope, error, turn, attempt, seconds)
        try:
            if self.is_virtual:
                clock.forward(clock.ahead + seconds)
            else:
                await asyncio.sleep(seconds)
        finally:
            scope.note("retry", began, turn)

    async def _attempt(self, request: Request) -> Response:
        """Waits for a slot, checks the caps and the session's budget, and sends a request once."""
        scope, budget, usage = self.scope, self.scope.env.budget, None
        async with scope.in_flight.requests.take():
            scope.env.halt.check()
            scope.clock.check()
            scope.meter.check()
            scope.meter.request(scope.name)
            held = await scope.hold(await self._estimate_cost(request)) if budget.amount else 0.0
            try:
                response = await self._ask(request)
                usage = response.usage
            finally:
                budget.settle(held, scope.agent.model, usage)
        return response

    async def _estimate_cost(self, request: Request) -> float:
        model = self.scope.agent.model
        if known := self.scope.env.budget.latest.get(model):
            return known
        usage = Usage(1 + estimate_tokens(request.system, (), request.messages))
        return await self.scope.env.prices.find_cost(model, usage) or 0.0

    def begin(self, request: Request) -> OnDelta | None:
        """Returns a new receiver for pieces of a response; None if responses are not streamed."""
        deltas = self.deltas = list[Delta]()
        place = self.scope.id, turn_of(request.place), request.attempt

        def add(delta: Delta) -> None:
            deltas.append(delta)
            self._emit(TextDelta(*place, delta.text, delta.kind, delta.call, delta.name))

        return add if self._is_streamed else None

    async def _ask(self, request: Request) -> Response:
        """Sends a request to the provider, and records the exchange even if the request fails."""
        scope, log, on_delta = self.scope, SentLog(), self.begin(request)
        response: Response | None = None
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        try:
            try:
                response = await self.provider.send(replace(request, log=log), on_delta)
                if all(call.name in COUNTED for call in response.server_calls):
                    cost = await scope.env.prices.find_cost(scope.agent.model, response.usage)
                    response = replace(response, usage=response.usage.at_cost(cost))
            finally:
                if task.cancelling() > cancelled_before:  # even if the provider swallowed it
                    response = None
                    raise asyncio.CancelledError
            cut = ""
            return response
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            is_last = bool(error and error.retryable and request.attempt > scope.retries)
            exchange = Exchange.of(
                request, protocol=self.provider.name,
                refused=tuple(sorted(log.refused)), server=log.server, streaming=log.streaming,
                response=response, error=error,
                deltas=tuple(self.deltas) if scope.env.cassette is not None else (),
                was_last=is_last, cut="timeout" if cut and scope.clock.is_late else cut,
                cost=response.usage.cost if response else None,
            )  # fmt: skip
            self.exchanges.append(exchange)


def compute_wait(error: ProviderError, attempt: int) -> float:
    """Returns the wait in seconds before `attempt`: the server's Retry-After, or 0.5, 1, 2 … 30."""
    return error.retry_after or min(0.5 * 2 ** min(attempt - 2, 10), 30.0)


def tell_retry(
    scope: RunScope, error: ProviderError, turn: int, attempt: int, seconds: float
) -> None:
    reason = str(error.status or error.category)
    scope.env.emit(
        RetryScheduled(scope.id, turn, attempt, seconds, reason, error.message, scope.retries)
    )


def give_up(error: ProviderError, attempts: int = 0) -> ProviderError:
    """Returns a copy of the error that explains why the request is not retried.

    `attempts` is the number of attempts made; 0 means that a retry would exceed the run's time.
    """
    final = copy(error)
    if attempts:
        final.message += f" ({attempts} attempts)" if attempts > 1 else ""
        final.hint = (
            error.hint or "try again later, or allow more retries with --retries (retries=)"
        )
    else:
        wait = "a retry would wait"
        if error.retry_after:
            wait = f"the server asks for a wait of {format_seconds(error.retry_after)}s"
        final.message += f"; {wait}, longer than the run has left"
        final.hint = "give the run more time with --timeout"
    final.args = (final.message,)
    return final
