"""The links between a run and its model, each with one concern (`Send`).

`Retries` applies `[retry]`; `Attempts` waits for a slot, checks the caps, pays, and asks the
provider. `replays.py` has those that may answer first.
Source: D-23, D-24, D-51, D-64, D-72.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from axe_nb.engine.meter import OverBudget
from axe_nb.engine.person import ApprovalRequest
from axe_nb.engine.replay import turn_of
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import Emit, RetryScheduled, TextDelta
from axe_nb.messages import Delta, Request, Response, Usage, WireLog
from axe_nb.messages.exchanges import Cut, Exchange
from axe_nb.providers.prices import COUNTED
from axe_nb.providers.protocol import OnDelta, Provider
from axe_nb.text import format_dollars, format_seconds

EVERY = 0.03
"""Minimum seconds between two deltas of the same kind; the first one is passed on at once."""


class Partial:
    """The unfinished reply of a run, and its exchanges so far; the links of a run share it.

    Deltas that arrive soon after another are merged.
    """

    def __init__(self, run: str, emit: Emit, *, is_streamed: bool) -> None:
        self.exchanges: list[Exchange] = []
        """The requests so far, and their outcomes."""
        self.deltas: list[Delta] = []
        """Deltas of the reply that is being streamed, or was cut off, whether passed on or not."""
        self.failed = ""
        """The text that came with the failure of the latest request."""
        self._run = run
        self._emit = emit
        self._is_streamed = is_streamed
        self._place = 0, 0
        """Turn and attempt of the current reply."""
        self._passed_on = 0
        """Number of deltas that were passed on."""
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        """Time of the next delta, on the monotonic clock."""

    @property
    def text(self) -> str:
        """Text of the unfinished reply; empty between requests."""
        return self.failed or "".join(delta.text for delta in self.deltas if delta.kind == "text")

    def begin(self, request: Request) -> OnDelta | None:
        """Begins a new attempt; returns the receiver of its pieces, None if it is not streamed."""
        self.clear()
        self._place, self._next_at = (turn_of(request.place), request.attempt), 0.0
        return self._add if self._is_streamed else None

    def _add(self, delta: Delta) -> None:
        """Takes a delta; neither blocks nor raises."""
        if len(self.deltas) > self._passed_on:
            last = self.deltas[-1]
            if last.kind != delta.kind or last.call != delta.call:
                self.flush()
        self.deltas.append(delta)
        if time.monotonic() >= self._next_at:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self.flush)

    def flush(self) -> None:
        """Passes on the waiting deltas."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waiting := self.deltas[self._passed_on :]:
            self._passed_on = len(self.deltas)
            self._next_at = time.monotonic() + EVERY
            first, text = waiting[0], "".join(delta.text for delta in waiting)
            self._emit(TextDelta(self._run, *self._place, text, first.kind, first.call, first.name))

    def clear(self) -> None:
        """Forgets the text, as the reply is complete or has not begun to arrive."""
        self.deltas, self.failed, self._passed_on = [], "", 0


Send: TypeAlias = Callable[[Request], Awaitable[Response]]
"""One concern of a request: (request) → the complete response; asks the next link.

Raises ProviderError if the request failed and is not retried any more; RunStopped if a cap of the
tree has been reached, or the person stopped it; TimeoutError if the time is up.
"""

RETRY_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Maximum seconds to wait before a retry, unless the server requests more."""

JITTER = 0.25
"""Maximum random addition to a wait, as a part of it, so that requests that failed together do
not all return together."""

MAX_JITTER = 3.0
"""Maximum random addition in seconds."""


@dataclass(slots=True)
class Retries:
    """Sends a request again after a temporary failure, as `[retry]` says."""

    scope: RunScope
    is_virtual: bool
    """True if the waits pass on the virtual clock (D-36)."""
    next: Send

    async def send(self, request: Request) -> Response:
        """A link: see `Send`."""
        began, turn = self.scope.seconds, turn_of(request.place)
        try:
            for attempt in count(1):
                try:
                    return await self.next(replace(request, attempt=attempt))
                except ProviderError as error:
                    if not error.retryable:
                        raise
                    if attempt > self.scope.retries:
                        raise make_last_error(error, attempt) from None
                    await self._wait(error, turn, attempt + 1)
        finally:
            self.scope.note("model", began, turn)
        raise AssertionError("it is sent until it is answered, or was the last attempt")

    async def _wait(self, error: ProviderError, turn: int, attempt: int) -> None:
        """Waits before an attempt, at least as long as the server requests."""
        clock = self.scope.clock
        seconds, left = compute_wait(error, attempt), clock.left
        if left is not None and seconds >= left:
            raise make_late_error(error)
        slack = JITTER * seconds if left is None else min(JITTER * seconds, (left - seconds) / 2)
        seconds += min(slack, MAX_JITTER) * random.random()
        began = self.scope.seconds
        tell_retry(self.scope, error, turn, attempt, seconds)
        try:
            if self.is_virtual:
                clock.forward(clock.ahead + seconds)
            else:
                await asyncio.sleep(seconds)
        finally:
            self.scope.note("retry", began, turn)


def compute_wait(error: ProviderError, attempt: int) -> float:
    """Returns the seconds before an attempt, from 2: as the server requests, or our default."""
    return error.retry_after or min(RETRY_WAIT * 2 ** min(attempt - 2, 10), MAX_RETRY_WAIT)


def tell_retry(
    scope: RunScope, error: ProviderError, turn: int, attempt: int, seconds: float
) -> None:
    """Tells the views that a request will be sent again."""
    reason = str(error.status or error.category)
    scope.env.emit(
        RetryScheduled(scope.id, turn, attempt, seconds, reason, error.message, scope.retries)
    )


def make_last_error(error: ProviderError, attempts: int) -> ProviderError:
    """Returns the error of the last attempt that was allowed."""
    hint = error.hint or "try again later, or allow more retries with --retries"
    return _change(error, f" ({attempts} attempts)" if attempts > 1 else "", hint)


def make_late_error(error: ProviderError) -> ProviderError:
    """Returns the error of a request that could be sent again only after the run's time is up."""
    wait = "a retry would wait"
    if error.retry_after:
        wait = f"the server asks for a wait of {format_seconds(error.retry_after)}s"
    hint = "give the run more time with --timeout"
    return _change(error, f"; {wait}, longer than the run has left", hint)


def _change(error: ProviderError, more: str, hint: str) -> ProviderError:
    changed = copy(error)
    changed.message += more
    changed.args, changed.hint = (changed.message,), hint
    return changed


CHARACTERS = 4
"""Characters per token, if nothing better is known."""


@dataclass(slots=True)
class Attempts:
    """Makes one attempt, within the slots, the caps and the budget; keeps its exchange."""

    scope: RunScope
    provider: Provider
    partial: Partial
    keeps_replies: bool
    """True if a cassette records the bytes of the replies."""

    async def send(self, request: Request) -> Response:
        """A link: see `Send`."""
        scope, budget = self.scope, self.scope.env.budget
        async with scope.in_flight.requests.take():
            scope.env.halt.check()
            scope.clock.check()
            scope.meter.check()
            scope.meter.request(scope.name)
            held, response = await self._hold(request), None
            try:
                response = await self.ask(request)
                return response
            finally:
                budget.settle(
                    held, scope.agent.model, response.usage.cost if response else None,
                    is_counted=response is not None and self.provider.name != "script",
                )  # fmt: skip

    async def _hold(self, request: Request) -> float:
        """Reserves the minimum cost of a request within the session's budget; returns that cost.

        That is the price of the previous reply; for the first request, that of its prompt. The
        person is asked before the budget would be exceeded; without approval, the tree ends.
        """
        scope, budget = self.scope, self.scope.env.budget
        if not budget.amount:
            return 0.0
        costs = (one.cost for one in reversed(self.partial.exchanges))
        dollars = next(filter(None, costs), None)
        if dollars is None:
            size = len(request.system) + sum(len(message.content) for message in request.messages)
            usage = Usage(1 + size // CHARACTERS)
            dollars = await scope.env.prices.find_cost(scope.agent.model, usage) or 0.0
        while not budget.try_hold(dollars):
            higher = budget.find_next(dollars)
            problem = budget.describe_end(dollars)
            if scope.env.ask_person is None:
                why = f"{problem}; raise it with %axe budget {higher:.6g}"
                raise scope.env.halt.end_tree(OverBudget("error", why))
            question = ApprovalRequest(
                scope.id, scope.agent.name, "", {}, reason=problem, raises=format_dollars(higher)
            )
            answer = await scope.ask(question, lambda: budget.has_room(dollars))
            if answer.choice != "yes":
                why = f"{problem}; it was not raised"
                raise scope.env.halt.end_tree(OverBudget("error", why))
            if not budget.has_room(dollars):
                budget.amount = max(budget.amount, higher)
        return dollars

    async def ask(
        self,
        request: Request,
        player: Provider | None = None,
        recorded: Exchange | None = None,
        hang: Callable[[], Awaitable[None]] | None = None,
    ) -> Response:
        """Sends a request to the provider, and records the exchange, whatever its outcome.

        Args:
            request: the request.
            player: plays the recorded exchange; None = the provider is asked now.
            recorded: the exchange that is played.
            hang: ends the recorded exchange, if it did not end by itself.
        """
        log = WireLog()
        log.keeps = self.keeps_replies and recorded is None
        if recorded is not None:
            log.recorded, log.protocol = recorded.reply, recorded.protocol
            log.refused, log.server = frozenset(recorded.refused), recorded.server
            log.hang = hang
        response: Response | None = None
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        request = replace(request, log=log)
        on_delta = self.partial.begin(request)
        try:
            try:
                sent = (request, on_delta) if on_delta else (request,)
                response = await (player or self.provider).send(*sent)
            finally:
                self.partial.flush()
                if task.cancelling() > cancelled_before:  # even if the provider swallowed it
                    response = None
                    raise asyncio.CancelledError
            if recorded is None:
                response = await self._price(response)
            else:
                response = replace(response, usage=response.usage.at_cost(recorded.cost))
            cut = ""
            return response
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            made = self._make_exchange(request, log, response, error, cut, recorded)
            self.partial.exchanges.append(made)

    async def _price(self, response: Response) -> Response:
        """Returns a response with its price."""
        if any(call.name not in COUNTED for call in response.server_calls):
            return response
        usage = response.usage
        cost = await self.scope.env.prices.find_cost(self.scope.agent.model, usage)
        return response if cost is None else replace(response, usage=usage.at_cost(cost))

    def _make_exchange(
        self,
        request: Request,
        log: WireLog,
        response: Response | None,
        error: ProviderError | None,
        cut: Cut,
        recorded: Exchange | None,
    ) -> Exchange:
        is_last = error is not None and request.attempt > self.scope.retries
        was_last = recorded.was_last if recorded else False
        reply = log.reply if log.keeps else None
        return Exchange(
            turn=turn_of(request.place), attempt=request.attempt, model=request.model,
            protocol=log.protocol or self.provider.name,
            sent=len(request.messages), system=request.system, system_ends=request.system_ends,
            tools=request.tools, past_tools=request.past_tools, output=request.output,
            refused=tuple(sorted(log.refused)), server=log.server, params=request.params,
            streaming=log.streaming, reply=reply, response=response,
            deltas=tuple(self.partial.deltas) if log.keeps and not reply else (), error=error,
            was_last=was_last or bool(is_last and error and error.retryable),
            cut="timeout" if cut and self.scope.clock.is_late else cut,
            cost=response.usage.cost if response else None,
        )  # fmt: skip
