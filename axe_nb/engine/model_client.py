"""One run's connection to its model, in layers: each method adds one concern to the next.

`send` keeps partial text, `_send_with_retries` applies the agent's `[retry]`, `_send_metered`
waits for its turn and counts requests against the caps of the tree, and `_send_once` passes the
request to the provider and its deltas to the views.
Source: D-23, D-24; second form §2; product.md `[retry]`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from axe_nb.engine.pieces import Pieces
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import TextDelta
from axe_nb.limits import RunStopped
from axe_nb.messages import Delta, Request, Response
from axe_nb.providers.protocol import Provider

RETRY_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Longest wait before a retry in seconds, even if the server asks for more."""


class ModelClient:
    """Sends the requests of one run."""

    def __init__(self, scope: RunScope, provider: Provider, *, streams: bool = False) -> None:
        self._scope = scope
        self._provider = provider
        self._streams = streams
        self._pieces: list[str] = []

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
        for retry in range(most):
            try:
                return await self._send_metered(request, turn, retry + 1)
            except ProviderError as error:
                if not error.retryable:
                    raise
                wait = error.retry_after or RETRY_WAIT * 2 ** min(retry, 10)
                await asyncio.sleep(min(wait, MAX_RETRY_WAIT))
        return await self._send_metered(request, turn, most + 1)

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
            response = await self._send_once(
                request if attempt == 1 else replace(request, attempt=attempt), turn
            )
        finally:
            slots.release()
        if response.seconds:
            try:
                scope.clock.forward(scope.clock.ahead + response.seconds)
            except TimeoutError:  # in virtual time, nothing has arrived yet
                self._pieces.clear()
                raise
        return response

    async def _send_once(self, request: Request, turn: int) -> Response:
        scope = self._scope

        def show(delta: Delta) -> None:
            scope.env.emit(
                TextDelta(
                    scope.id, turn, request.attempt, delta.text, delta.kind, delta.call, delta.name
                )
            )

        pieces = Pieces(show)
        self._pieces = pieces.texts
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        try:
            return await self._provider.send(request, pieces.add if self._streams else None)
        finally:
            pieces.flush()
            if task.cancelling() > before:  # even if the provider swallowed the cancellation
                raise asyncio.CancelledError
