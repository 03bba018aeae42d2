"""The waits before a request is sent again.

Source: D-23; product.md `[retry]`.
"""

from __future__ import annotations

import random

from axe_nb.errors import ProviderError

RETRY_WAIT = 0.5
"""Seconds before the first retry if the server gives no `Retry-After`; doubles each time."""

MAX_RETRY_WAIT = 30.0
"""Longest wait before a retry in seconds, unless the server asks for more."""

JITTER = 0.25
"""Part of a wait that is added to it at most, at random: requests that failed together do not all
return together."""

MAX_JITTER = 3.0
"""Seconds that are added at most."""


def compute_wait(error: ProviderError, attempt: int) -> float:
    """Returns the seconds before an attempt, from 2: what the server asks for, else our own."""
    return error.retry_after or min(RETRY_WAIT * 2 ** min(attempt - 2, 10), MAX_RETRY_WAIT)


def add_jitter(seconds: float, left: float | None) -> float:
    """Returns a wait that is a little longer, by chance.

    Args:
        seconds: the wait.
        left: seconds until the deadline, which it stays below; None = there is none.
    """
    slack = JITTER * seconds if left is None else min(JITTER * seconds, (left - seconds) / 2)
    return seconds + min(slack, MAX_JITTER) * random.random()
