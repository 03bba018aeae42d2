"""One run's connection to its model, in layers: each method adds one concern to the next.

`send` keeps partial text, `_send_with_retries` applies the agent's `[retry]`, `_send_metered`
waits for its turn and counts requests against the caps of the tree, `_send_recorded` keeps the
exchange or plays a recorded one, and `_send_once` passes the request to the provider and its deltas
to the views.
Source: D-23, D-24; second form §2; product.md `[retry]`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from axe_nb.engine.pieces import Pieces
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import RetryScheduled, TextDelta
from axe_nb.exchanges import Cut, Exchange
from axe_nb.limits import RunStopped
from axe_nb.messages import Delta, Request, Response
from axe_nb.providers.protocol import OnDelta, Provider
from axe_nb.text import format_seconds
from axe_nb.wire_log import WireLog

Send: TypeAlias = Callable[[Request, OnDelta], Awaitable[Response]]
"""As `Provider.send`."""

RETRY_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Longest wait before a retry in seconds, unless the server asks for more."""

JITTER = 0.25
"""Part of a wait that is added to it at most, at random: requests that failed together do not all
return together."""

MAX_JITTER = 3.0
"""Seconds that are added at most."""


class ModelClient:
    """Sends the requests of one run."""

    def __init__(self, scope: RunScope, provider: Provider, *, streams: bool = False) -> None:
        self._scope = scope
        self._provider = provider
        self._streams = streams
        self._pieces: list[str] = []
        self._is_played = False
        """True if the last exchange was a recorded one."""

        self.exchanges: list[Exchange] = []
        """The requests so far, and their outcomes."""
        self.retries = 0
        """Requests sent again so far."""

    @property
    def arrived(self) -> str:
        """Text of an unfinished reply; empty between requests."""
        return "".join(self._pieces)

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
        self._pieces.clear()
        try:
            response = await self._send_with_retries(request, turn)
        except ProviderError as error:
            self._pieces = [error.partial_text] if error.partial_text else self._pieces
            raise
        self._pieces.clear()
        return response

    async def _send_with_retries(self, request: Request, turn: int) -> Response:
        most = self._scope.agent.retry.max_retries
        for attempt in range(1, most + 1):
            try:
                return await self._send_metered(request, turn, attempt)
            except ProviderError as error:
                if not error.retryable:
                    raise
                await self._wait_to_retry(error, request.place, turn, attempt + 1)
        return await self._send_metered(request, turn, most + 1)

    async def _wait_to_retry(
        self, error: ProviderError, place: str, turn: int, attempt: int
    ) -> None:
        """Waits before an attempt, at least as long as the server asks for; a recorded one at once.

        Raises:
            ProviderError: the time that is left does not suffice.
        """
        scope = self._scope
        tape = scope.env.tape
        is_recorded = self._is_played and tape is not None and tape.holds(place, attempt)
        seconds = error.retry_after or min(RETRY_WAIT * 2 ** min(attempt - 2, 10), MAX_RETRY_WAIT)
        left = scope.clock.left
        is_over = self._is_played and tape is not None and not tape.may_ask
        if ((left is not None and seconds >= left) or is_over) and not is_recorded:
            raise _make_late_error(error)
        slack = JITTER * seconds if left is None else min(JITTER * seconds, (left - seconds) / 2)
        seconds += min(slack, MAX_JITTER) * random.random()
        reason = str(error.status or error.category)
        scope.env.emit(RetryScheduled(scope.id, turn, attempt, seconds, reason, error.message))
        await asyncio.sleep(0.0 if is_recorded else seconds)
        self.retries += 1

    async def _send_metered(self, request: Request, turn: int, attempt: int) -> Response:
        scope = self._scope
        slots = scope.in_flight.requests
        if not slots.acquire_now():
            await slots.acquire()
        try:
            if scope.env.halt.is_set:
                raise RunStopped("cancelled", "cancelled")
            scope.clock.check()
            scope.meter.request(scope.agent.name)
            response = await self._send_recorded(request, turn, attempt)
        finally:
            slots.release()
        if response.seconds:
            try:
                scope.clock.forward(scope.clock.ahead + response.seconds)
            except TimeoutError:  # in virtual time, nothing has arrived yet
                self._pieces.clear()
                raise
        return response

    async def _send_recorded(self, request: Request, turn: int, attempt: int) -> Response:
        tape, clock = self._scope.env.tape, self._scope.clock
        recorded = None
        if tape is not None:
            request = replace(request, attempt=attempt)
            recorded = tape.find(request, self._scope.agent.model)
        self._is_played = recorded is not None
        log = WireLog(recorded.reply if recorded else None)
        log.protocol = recorded.protocol if recorded else ""
        if recorded and recorded.cut:
            log.hang = partial(self._cut, recorded.cut)
        request = replace(request, attempt=attempt, log=log)
        deltas: list[Delta] = []
        response: Response | None = None
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        try:
            response = await self._send_once(request, turn, recorded, deltas)
            cut = ""
            return response
        except ProviderError as failure:
            error, cut = copy(failure), ""
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            reply = log.reply
            exchange = Exchange(
                turn=turn, attempt=attempt, model=request.model, protocol=self._provider.name,
                sent=len(request.messages), system=request.system,
                system_ends=request.system_ends, tools=request.tools,
                past_tools=request.past_tools, params=request.params, streaming=log.streaming,
                reply=reply, response=response,
                deltas=() if reply else tuple(deltas), error=error,
                cut="timeout" if cut and clock.is_late else cut,
            )  # fmt: skip
            self.exchanges.append(exchange)
            if tape is not None:
                tape.keep(request, exchange)

    async def _send_once(
        self, request: Request, turn: int, recorded: Exchange | None, deltas: list[Delta]
    ) -> Response:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        send = self._provider.send
        if recorded and recorded.reply is None:
            send = partial(_play, recorded)
        try:
            if not self._streams:
                return await send(request)
            return await self._send_streaming(send, request, turn, deltas)
        finally:
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

    async def _send_streaming(
        self, send: Send, request: Request, turn: int, deltas: list[Delta]
    ) -> Response:
        scope = self._scope

        def show(delta: Delta) -> None:
            scope.env.emit(
                TextDelta(
                    scope.id, turn, request.attempt, delta.text, delta.kind, delta.call, delta.name
                )
            )

        def take(delta: Delta) -> None:
            deltas.append(delta)
            pieces.add(delta)

        pieces = Pieces(show)
        self._pieces = pieces.texts
        try:
            return await send(request, take)
        finally:
            pieces.flush()


async def _play(recorded: Exchange, request: Request, on_delta: OnDelta | None = None) -> Response:
    """Plays the recorded answer of a model that has no server.

    Raises:
        ProviderError: the request had failed.
    """
    for delta in recorded.deltas:
        if on_delta:
            on_delta(delta)
    if request.log and request.log.hang:
        await request.log.hang()
    if recorded.response is None:
        raise copy(recorded.error) if recorded.error else asyncio.CancelledError
    return recorded.response


def _make_late_error(error: ProviderError) -> ProviderError:
    """Returns the error of a request that could be sent again only after the run's time is up."""
    asked = error.retry_after
    wait = f"the server asks to wait {format_seconds(asked)}s" if asked else "a retry would wait"
    late = copy(error)
    late.message = f"{error.message}; {wait}, longer than the run has left"
    late.args = (late.message,)
    late.hint = "give the run more time with --timeout"
    return late
