"""Errors of requests that are not sent again.

Source: D-23; product.md `[retry]`.
"""

from __future__ import annotations

from copy import copy

from axe_nb.errors import ProviderError
from axe_nb.text import format_seconds


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
