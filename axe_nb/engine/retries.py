"""Requests that failed for now, sent again as `[retry]` says; the waits, and the errors in the end.

Source: D-23, D-72; product.md `[retry]`.
"""

from __future__ import annotations

import asyncio
import random
from copy import copy
from dataclasses import dataclass, replace
from itertools import count

from axe_nb.engine.arrival import turn_of
from axe_nb.engine.links import Link
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import RetryScheduled
from axe_nb.messages import Request, Response
from axe_nb.text import format_seconds

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
