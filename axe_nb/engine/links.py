"""The links between a run and its model, each with one concern: `send(request)` → the response.

`Arrival` keeps partial text and lets a script's virtual time pass, `Slots` waits for its turn,
`Exchanges` asks the provider. The others have modules of their own; `chain.py` connects them all.
Source: D-24, D-36, D-51.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

from axe_nb.engine.arrival import Partial, turn_of
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.exchanges import Cut, Exchange
from axe_nb.messages import Request, Response
from axe_nb.prices import COUNTED
from axe_nb.providers.protocol import Provider
from axe_nb.wire_log import WireLog


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
