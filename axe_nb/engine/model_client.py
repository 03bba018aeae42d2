"""One run's connection to its model, in layers: each method adds one concern to the next.

`send` keeps partial text, `_send_with_retries` applies the agent's `[retry]`, `_send_metered`
waits for its turn, `_send_recorded` counts requests against the caps of the tree and keeps the
exchange with its price or plays a recorded one, and `_send_once` passes the request to the provider
and its deltas to the views.
Source: D-23, D-24; second form §2; product.md `[retry]`.
"""

from __future__ import annotations

import asyncio
import random
from copy import copy
from dataclasses import replace
from functools import partial

from axe_nb.engine.given_up import make_last_error, make_late_error
from axe_nb.engine.pieces import Pieces
from axe_nb.engine.scope import RunScope
from axe_nb.engine.tape import play
from axe_nb.errors import ProviderError
from axe_nb.events import RetryScheduled
from axe_nb.exchanges import Cut, Exchange
from axe_nb.limits import RunStopped
from axe_nb.messages import Request, Response, Usage
from axe_nb.providers.protocol import Provider
from axe_nb.wire_log import WireLog

RETRY_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Longest wait before a retry in seconds, unless the server asks for more."""

JITTER = 0.25
"""Part of a wait that is added to it at most, at random: requests that failed together do not all
return together."""

MAX_JITTER = 3.0
"""Seconds that are added at most."""

CHARACTERS = 4
"""Characters of a token, where nothing better is known."""


class ModelClient:
    """Sends the requests of one run."""

    def __init__(self, scope: RunScope, provider: Provider, *, streams: bool = False) -> None:
        self._scope = scope
        self._provider = provider
        self._streams = streams
        self._pieces: Pieces | None = None
        """Those of the reply that is streamed now, or was cut."""
        self._partial = ""
        """The text that came with the failure of the latest request."""
        self._is_played = False
        """True if the last exchange was a recorded one."""
        self.is_kept = False
        """True if it was taken from the run that this one forks."""
        self.exchanges: list[Exchange] = []
        """The requests so far, and their outcomes."""
        self.retries = 0
        """Requests sent again so far."""

    @property
    def arrived(self) -> str:
        """Text of an unfinished reply; empty between requests."""
        return self._partial or (self._pieces.text if self._pieces else "")

    async def send(self, request: Request, turn: int) -> Response:
        """Sends a request and returns the complete reply.

        If it fails or is cancelled, `arrived` has the text so far.

        Args:
            request: the request; its attempt number is set here.
            turn: the number of the turn in the conversation, from 1.

        Raises:
            ProviderError: the request failed and is not retried any more.
            RunStopped: a cap of the tree has been reached.
            TimeoutError: the time is up.
        """
        self._pieces, self._partial = None, ""
        try:
            response = await self._send_with_retries(request, turn)
        except ProviderError as error:
            self._partial = error.partial_text
            raise
        self._pieces = None
        return response

    def check_caps(self, place: str, attempt: int = 1, *, is_live: bool = False) -> None:
        """Checks that a request may be sent, or is recorded.

        Args:
            place: its place.
            attempt: from 1.
            is_live: if True, it is not going to be played.

        Raises:
            RunStopped: a cap of the tree has been reached, now or when the request was recorded.
        """
        tape, meter, origin = self._scope.env.tape, self._scope.meter, self._scope.env.origin
        if not is_live and origin is not None and origin.holds(place, attempt):
            return
        if not is_live and tape is not None and tape.admits(place, attempt, meter.has_cap):
            return
        try:
            meter.check()
        except RunStopped as stop:
            if tape is not None:
                tape.keep_refusal(place, attempt, stop)
            raise

    async def _send_with_retries(self, request: Request, turn: int) -> Response:
        most = self._scope.agent.retry.max_retries
        for attempt in range(1, most + 1):
            try:
                return await self._send_metered(request, turn, attempt)
            except ProviderError as error:
                if not error.retryable:
                    raise
                await self._wait_to_retry(error, request.place, turn, attempt + 1)
        try:
            return await self._send_metered(request, turn, most + 1)
        except ProviderError as error:
            raise (
                make_last_error(error, most + 1) if most and error.retryable else error
            ) from None

    async def _wait_to_retry(
        self, error: ProviderError, place: str, turn: int, attempt: int
    ) -> None:
        """Waits before an attempt, at least as long as the server asks for; a recorded one at once.

        Raises:
            ProviderError: the time that is left does not suffice.
        """
        scope = self._scope
        tape = scope.env.tape
        is_recorded = self._is_played and self._holds(place, attempt)
        seconds = error.retry_after or min(RETRY_WAIT * 2 ** min(attempt - 2, 10), MAX_RETRY_WAIT)
        left = scope.clock.left
        is_over = self.is_kept or (self._is_played and tape is not None and not tape.may_ask)
        if ((left is not None and seconds >= left) or is_over) and not is_recorded:
            raise make_late_error(error)
        slack = JITTER * seconds if left is None else min(JITTER * seconds, (left - seconds) / 2)
        seconds += min(slack, MAX_JITTER) * random.random()
        reason = str(error.status or error.category)
        most = scope.agent.retry.max_retries
        scope.env.emit(
            RetryScheduled(scope.id, turn, attempt, seconds, reason, error.message, most)
        )
        await asyncio.sleep(0.0 if is_recorded else seconds)
        self.retries += 1

    def _holds(self, place: str, attempt: int) -> bool:
        """True if what was played last has such an attempt."""
        tape, origin = self._scope.env.tape, self._scope.env.origin
        if self.is_kept:
            return origin is not None and origin.holds(place, attempt)
        return tape is not None and tape.holds(place, attempt)

    async def _send_metered(self, request: Request, turn: int, attempt: int) -> Response:
        scope = self._scope
        slots = scope.in_flight.requests
        if not slots.acquire_now():
            await slots.acquire()
        try:
            if scope.env.halt.is_set:
                raise RunStopped("cancelled", "cancelled")
            scope.clock.check()
            response = await self._send_recorded(request, turn, attempt)
        finally:
            slots.release()
        if response.seconds:
            try:
                scope.clock.forward(scope.clock.ahead + response.seconds)
            except TimeoutError:  # in virtual time, nothing has arrived yet
                self._pieces = None
                raise
        return response

    async def _send_recorded(self, request: Request, turn: int, attempt: int) -> Response:
        tape, clock, meter = self._scope.env.tape, self._scope.clock, self._scope.meter
        recorded, origin = None, self._scope.env.origin
        if attempt > 1 or request.log is None:
            request = replace(request, attempt=attempt, log=WireLog())
        log = request.log
        assert log is not None
        if origin is not None and (kept := origin.find(request, self._scope.agent.model)):
            return self._take(request, kept)
        self.check_caps(request.place, attempt)
        if tape is not None:
            recorded = tape.find(request, self._scope.agent.model)
            if recorded is None:  # also one that is recorded, but was asked otherwise
                self.check_caps(request.place, attempt, is_live=True)
        meter.request(self._scope.name)
        self._is_played, self.is_kept = recorded is not None, False
        if recorded:
            log.recorded, log.protocol = recorded.reply, recorded.protocol
            log.answer_tool = recorded.answer_tool
            if recorded.cut:
                log.hang = partial(self._cut, recorded.cut)
        held = 0.0 if recorded else await self._hold(request)
        response: Response | None = None
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        try:
            response = await self._send_once(request, turn, recorded)
            cut = ""
            response = await self._price(response, recorded)
            return response
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            if not recorded:
                self._settle(held, response)
            reply, pieces = log.reply, self._pieces
            exchange = Exchange(
                turn=turn, attempt=attempt, model=request.model, protocol=self._provider.name,
                sent=len(request.messages), system=request.system,
                system_ends=request.system_ends, tools=request.tools,
                past_tools=request.past_tools, output=request.output,
                answer_tool=log.answer_tool, params=request.params,
                streaming=log.streaming, reply=reply, response=response,
                deltas=tuple(pieces.deltas) if pieces and not reply else (), error=error,
                cut="timeout" if cut and clock.is_late else cut,
                cost=response.usage.cost if response else None,
            )  # fmt: skip
            self.exchanges.append(exchange)
            if tape is not None:
                tape.keep(request, exchange)

    def _take(self, request: Request, kept: Exchange) -> Response:
        """Takes an exchange of the run that this one forks: nothing is sent, and nothing is paid.

        Raises:
            ProviderError: the request had failed.
        """
        scope = self._scope
        self._is_played = self.is_kept = True
        scope.meter.settle()
        self.exchanges.append(kept)
        if scope.env.tape is not None:
            scope.env.tape.note(request, scope.agent.model, kept)
        if kept.response is None:
            assert kept.error is not None
            raise copy(kept.error)
        return kept.response

    async def _hold(self, request: Request) -> float:
        """Holds what the request costs at least, within the budget of the session.

        That is the price of the reply before it, of the first one that of its prompt.

        Raises:
            RunStopped: the budget would be passed.
        """
        scope, purse, prices = self._scope, self._scope.env.purse, self._scope.env.prices
        if not purse.budget.amount:
            return 0.0
        dollars = next(filter(None, (one.cost for one in reversed(self.exchanges))), None)
        if dollars is None:
            size = len(request.system) + sum(len(message.content) for message in request.messages)
            usage = Usage(1 + size // CHARACTERS)
            dollars = await prices.find_cost(scope.agent.model, usage) or 0.0
        await purse.hold(scope.id, scope.agent.name, dollars, scope.clock)
        return dollars

    async def _price(self, response: Response, recorded: Exchange | None) -> Response:
        """The response with its price; a recorded one has that of its time."""
        usage = response.usage
        if recorded is not None:
            return replace(response, usage=usage.at_cost(recorded.cost))
        cost = await self._scope.env.prices.find_cost(self._scope.agent.model, usage)
        return response if cost is None else replace(response, usage=usage.at_cost(cost))

    def _settle(self, held: float, response: Response | None) -> None:
        cost = response.usage.cost if response else None
        is_counted = response is not None and self._provider.name != "script"
        self._scope.env.purse.budget.settle(
            held, self._scope.agent.model, cost, is_counted=is_counted
        )

    async def _send_once(self, request: Request, turn: int, recorded: Exchange | None) -> Response:
        scope, task = self._scope, asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        send = self._provider.send
        if recorded and recorded.reply is None:
            send = partial(play, recorded)
        self._pieces = None
        if self._streams:
            self._pieces = Pieces(scope.env.emit, scope.id, turn, request.attempt)
        try:
            return await (send(request, self._pieces.add) if self._pieces else send(request))
        finally:
            if self._pieces:
                self._pieces.flush()
            if task.cancelling() > before:  # even if the provider swallowed the cancellation
                raise asyncio.CancelledError

    async def _cut(self, cut: Cut) -> None:
        """Ends a recorded exchange as it was ended by the run's time, or by a person.

        Raises:
            TimeIsUp: its time was up.
            asyncio.CancelledError: it was cancelled.
        """
        clock, tape = self._scope.clock, self._scope.env.tape
        if cut == "timeout":
            if clock.deadline is None:
                raise RunStopped("timeout", "timeout, as it was recorded")
            clock.forward(clock.ahead + (clock.left or 0.0))
        if cut == "cancelled" and tape is not None:
            await tape.wait_to_cancel()
        await asyncio.Event().wait()  # until the tool stops waiting for it
