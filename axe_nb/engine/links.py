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
    """Makes the exchange of each attempt, whatever becomes of it."""

    scope: RunScope
    provider: Provider
    partial: Partial

    async def send(self, request: Request) -> Response:
        """See `Link`."""
        return await self.note(request, self.provider, self._price)

    async def note(
        self,
        request: Request,
        provider: Provider,
        price: Callable[[Response], Awaitable[Response]],
        log: WireLog | None = None,
        *,
        was_last: bool = False,
    ) -> Response:
        """Sends an attempt to a provider and keeps its exchange.

        Args:
            request: the request.
            provider: answers it.
            price: returns a response with its price.
            log: takes the bytes of the reply, or has those that are played.
            was_last: true if it is a recorded one after which no attempt was allowed.
        """
        clock, log = self.scope.clock, log or WireLog()
        response: Response | None = None
        error: ProviderError | None = None
        cut: Cut = "cancelled"
        try:
            response = await price(await self._ask(replace(request, log=log), provider))
            cut = ""
            return response
        except ProviderError as failure:
            error, cut = copy(failure), ""
            is_over = bool(failure.retryable) and request.attempt > self.scope.retries
            was_last = was_last or is_over
            raise
        except TimeoutError:
            cut = "timeout"
            raise
        finally:
            reply, pieces = log.reply, self.partial.pieces
            exchange = Exchange(
                turn=turn_of(request.place), attempt=request.attempt, model=request.model,
                protocol=log.protocol or self.provider.name,
                sent=len(request.messages), system=request.system,
                system_ends=request.system_ends, tools=request.tools,
                past_tools=request.past_tools, output=request.output,
                refused=tuple(sorted(log.refused)), server=log.server, params=request.params,
                streaming=log.streaming, reply=reply, response=response,
                deltas=tuple(pieces.deltas) if pieces and not reply else (), error=error,
                was_last=was_last, cut="timeout" if cut and clock.is_late else cut,
                cost=response.usage.cost if response else None,
            )  # fmt: skip
            self.partial.exchanges.append(exchange)

    async def _ask(self, request: Request, provider: Provider) -> Response:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        on_delta = self.partial.begin(request)
        try:
            return await (provider.send(request, on_delta) if on_delta else provider.send(request))
        finally:
            if self.partial.pieces:
                self.partial.pieces.flush()
            if task.cancelling() > before:  # even if the provider swallowed the cancellation
                raise asyncio.CancelledError

    async def _price(self, response: Response) -> Response:
        """Returns a response with its price."""
        if any(call.name not in COUNTED for call in response.server_calls):
            return response
        usage = response.usage
        cost = await self.scope.env.prices.find_cost(self.scope.agent.model, usage)
        return response if cost is None else replace(response, usage=usage.at_cost(cost))
