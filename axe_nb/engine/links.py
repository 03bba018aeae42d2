"""The links between a run and its model, each with one concern: `send(request)` → the response.

`Arrival` keeps partial text and lets a script's virtual time pass, `Retries` applies `[retry]`,
`Slots` waits for its turn, `Money` checks the caps and pays, and `Exchanges` asks the provider.
`replays.py` and `stepping.py` have those that may answer first.
Source: D-23, D-24, D-36, D-51, D-64, D-72.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Protocol

from axe_nb.engine.ask_person import put_question
from axe_nb.engine.place import turn_of
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import Emit, RetryScheduled, TextDelta
from axe_nb.messages import Delta, Request, Response, Usage, WireLog
from axe_nb.messages.exchanges import Cut, Exchange
from axe_nb.providers.prices import COUNTED
from axe_nb.providers.protocol import OnDelta, Provider
from axe_nb.text import format_seconds

EVERY = 0.03
"""Least seconds between two deltas of the same kind; the first one is passed on at once."""


class Pieces:
    """Passes the deltas of one attempt on; those that arrive soon after another are merged."""

    def __init__(self, emit: Emit, run: str, turn: int, attempt: int) -> None:
        """Creates a merger for the running event loop; `flush` must be called at the end."""
        self.deltas: list[Delta] = []
        """All that have arrived, whether passed on or not."""
        self._passed_on = 0
        """Number of those that were passed on."""
        self._emit = emit
        self._place = run, turn, attempt
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        """Time of the next delta, on the monotonic clock."""

    @property
    def text(self) -> str:
        """The reply's text so far."""
        return "".join(delta.text for delta in self.deltas if delta.kind == "text")

    def add(self, delta: Delta) -> None:
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
        """Passes on what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = self.deltas[self._passed_on :]
        if not waiting:
            return
        self._passed_on = len(self.deltas)
        self._next_at = time.monotonic() + EVERY
        first, text = waiting[0], "".join(delta.text for delta in waiting)
        self._emit(TextDelta(*self._place, text, first.kind, first.call, first.name))


class Partial:
    """The unfinished reply of a run, and its exchanges so far; the links of a run share it."""

    def __init__(self, run: str, emit: Emit, *, is_streamed: bool) -> None:
        """Creates it."""
        self.exchanges: list[Exchange] = []
        """The requests so far, and their outcomes."""
        self.pieces: Pieces | None = None
        """Those of the reply that is streamed now, or was cut."""
        self.failed = ""
        """The text that came with the failure of the latest request."""
        self._run = run
        self._emit = emit
        self._is_streamed = is_streamed

    @property
    def text(self) -> str:
        """Text of the unfinished reply; empty between requests."""
        return self.failed or (self.pieces.text if self.pieces else "")

    def begin(self, request: Request) -> OnDelta | None:
        """Begins an attempt anew; returns what takes its pieces, None if it is not streamed."""
        self.clear()
        if self._is_streamed:
            place = self._run, turn_of(request.place), request.attempt
            self.pieces = Pieces(self._emit, *place)
        return self.pieces.add if self.pieces else None

    def flush(self) -> None:
        """Passes on the pieces that wait."""
        if self.pieces is not None:
            self.pieces.flush()

    def clear(self) -> None:
        """Forgets the text: the reply is complete, or nothing of it has arrived yet."""
        self.pieces, self.failed = None, ""


class Link(Protocol):
    """One concern of a request; asks the next link."""

    async def send(self, request: Request) -> Response:
        """Returns the complete response.

        Raises:
            ProviderError: the request failed and is not retried any more.
            RunStopped: a cap of the tree has been reached, or the person stopped the run.
            TimeoutError: the time is up.
        """


@dataclass(slots=True)
class Arrival:
    """Keeps the text of the unfinished reply, and lets a script's virtual time pass."""

    scope: RunScope
    partial: Partial
    next: Link

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        clock, partial = self.scope.clock, self.partial
        self.scope.env.halt.check()
        clock.check()
        partial.clear()
        try:
            response = await self.next.send(request)
        except ProviderError as error:
            partial.failed = error.partial_text
            raise
        partial.clear()  # also if the time was up before the virtual reply had arrived
        if response.seconds:
            clock.forward(clock.ahead + response.seconds)
        return response


@dataclass(slots=True)
class Slots:
    """Waits for one of the places of requests in flight."""

    scope: RunScope
    next: Link

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        async with self.scope.in_flight.requests:
            self.scope.env.halt.check()
            self.scope.clock.check()
            return await self.next.send(request)


@dataclass(slots=True)
class Exchanges:
    """Asks the provider, and makes the exchange of each attempt, whatever becomes of it."""

    scope: RunScope
    provider: Provider
    partial: Partial
    keeps_replies: bool = False
    """True if a cassette records the bytes of the replies."""
    recorded: Exchange | None = None
    """The exchange that the provider plays, with its price; None = it is asked now."""
    hang: Callable[[], Awaitable[None]] | None = None
    """Ends the recorded exchange, if it did not end by itself."""

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        log = self._make_log()
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
                response = await self.provider.send(*sent)
            finally:
                self.partial.flush()
                if task.cancelling() > cancelled_before:  # even if the provider swallowed it
                    response = None
                    raise asyncio.CancelledError
            response = await self._price(response)
            cut = ""
            return response
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            self.partial.exchanges.append(self._make_exchange(request, log, response, error, cut))

    def _make_log(self) -> WireLog:
        log, recorded = WireLog(), self.recorded
        if recorded is None:
            log.keeps = self.keeps_replies
        else:
            log.recorded, log.protocol = recorded.reply, recorded.protocol
            log.refused, log.server = frozenset(recorded.refused), recorded.server
            log.hang = self.hang
        return log

    async def _price(self, response: Response) -> Response:
        """Returns a response with its price; a recorded one has that of its time."""
        usage = response.usage
        if self.recorded is not None:
            return replace(response, usage=usage.at_cost(self.recorded.cost))
        if any(call.name not in COUNTED for call in response.server_calls):
            return response
        cost = await self.scope.env.prices.find_cost(self.scope.agent.model, usage)
        return response if cost is None else replace(response, usage=usage.at_cost(cost))

    def _make_exchange(
        self,
        request: Request,
        log: WireLog,
        response: Response | None,
        error: ProviderError | None,
        cut: Cut,
    ) -> Exchange:
        is_last = error is not None and request.attempt > self.scope.retries
        was_last = self.recorded.was_last if self.recorded else False
        reply = log.reply if log.keeps else None
        pieces = self.partial.pieces.deltas if log.keeps and self.partial.pieces else ()
        return Exchange(
            turn=turn_of(request.place), attempt=request.attempt, model=request.model,
            protocol=log.protocol or self.provider.name,
            sent=len(request.messages), system=request.system, system_ends=request.system_ends,
            tools=request.tools, past_tools=request.past_tools, output=request.output,
            refused=tuple(sorted(log.refused)), server=log.server, params=request.params,
            streaming=log.streaming, reply=reply, response=response,
            deltas=() if reply else tuple(pieces), error=error,
            was_last=was_last or bool(is_last and error and error.retryable),
            cut="timeout" if cut and self.scope.clock.is_late else cut,
            cost=response.usage.cost if response else None,
        )  # fmt: skip


RETRY_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Longest wait before a retry in seconds, unless the server asks for more."""

JITTER = 0.25
"""Part of a wait that is added to it at most, at random: requests that failed together do not all
return together."""

MAX_JITTER = 3.0
"""Seconds that are added at most."""


@dataclass(slots=True)
class Retries:
    """Sends a request that failed for now again, as `[retry]` says."""

    scope: RunScope
    is_virtual: bool
    """True if the waits pass on the virtual clock (D-36)."""
    next: Link

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        began, turn = self.scope.seconds, turn_of(request.place)
        try:
            for attempt in count(1):
                try:
                    return await self.next.send(replace(request, attempt=attempt))
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
        """Waits before an attempt, at least as long as the server asks for."""
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
    """Returns the seconds before an attempt, from 2: what the server asks for, else our own."""
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
    last = copy(error)
    if attempts > 1:
        last.message = f"{error.message} ({attempts} attempts)"
        last.args = (last.message,)
    last.hint = error.hint or "try again later, or allow more retries with --retries"
    return last


def make_late_error(error: ProviderError) -> ProviderError:
    """Returns the error of a request that could be sent again only after the run's time is up."""
    asked = error.retry_after
    wait = "a retry would wait"
    if asked:
        wait = f"the server asks for a wait of {format_seconds(asked)}s"
    late = copy(error)
    late.message = f"{error.message}; {wait}, longer than the run has left"
    late.args = (late.message,)
    late.hint = "give the run more time with --timeout"
    return late


CHARACTERS = 4
"""Characters of a token, where nothing better is known."""


@dataclass(slots=True)
class Money:
    """Checks and counts each attempt against the caps, and the budget of the session."""

    scope: RunScope
    partial: Partial
    is_free: bool
    """True if the model costs nothing."""
    next: Link

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        scope = self.scope
        scope.meter.check()
        scope.meter.request(scope.name)
        held, response = await self._hold(request), None
        try:
            response = await self.next.send(request)
            return response
        finally:
            scope.env.budget.session.settle(
                held, scope.agent.model, response.usage.cost if response else None,
                is_counted=response is not None and not self.is_free,
            )  # fmt: skip

    async def _hold(self, request: Request) -> float:
        """Holds what a request costs at least, within the budget of the session; returns that.

        It is the price of the reply before it, of the first one that of its prompt.
        """
        scope, budget = self.scope, self.scope.env.budget
        if not budget.session.amount:
            return 0.0
        costs = (one.cost for one in reversed(self.partial.exchanges))
        dollars = next(filter(None, costs), None)
        if dollars is None:
            size = len(request.system) + sum(len(message.content) for message in request.messages)
            usage = Usage(1 + size // CHARACTERS)
            dollars = await scope.env.prices.find_cost(scope.agent.model, usage) or 0.0
        person = scope.env.ask_person
        ask = person and partial(put_question, scope, ask=person)
        await budget.hold(scope.id, scope.agent.name, dollars, ask)
        return dollars
