"""Retries of a request after a temporary failure, as `[retry]` says, and the waits before them."""

from __future__ import annotations

import asyncio
import random
from copy import copy
from dataclasses import dataclass, replace

from axe_nb.engine.attempts import Send
from axe_nb.engine.replay import turn_of
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ProviderError
from axe_nb.events import RetryScheduled
from axe_nb.messages import Request, Response
from axe_nb.text import format_seconds

FIRST_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

LONGEST_WAIT = 30.0
"""Maximum seconds to wait before a retry, unless the server requests more."""

JITTER, LONGEST_JITTER = 0.25, 3.0
"""Maximum random addition to a wait, as a part of it and in seconds, so that requests that failed
together do not all return together."""


@dataclass(slots=True)
class Retries:
    """Sends a request again after a temporary failure."""

    scope: RunScope
    is_virtual: bool
    """True if the waits pass on the virtual clock (D-36)."""
    next: Send

    async def send(self, request: Request) -> Response:
        """A link: see `Send`."""
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


def compute_wait(error: ProviderError, attempt: int) -> float:
    """Returns the seconds before an attempt, from 2: as the server requests, or our default."""
    return error.retry_after or min(FIRST_WAIT * 2 ** min(attempt - 2, 10), LONGEST_WAIT)


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
    more = f"; {wait}, longer than the run has left"
    return _change(error, more, "give the run more time with --timeout")


def _change(error: ProviderError, more: str, hint: str) -> ProviderError:
    changed = copy(error)
    changed.message, changed.hint = error.message + more, hint
    changed.args = (changed.message,)
    return changed
