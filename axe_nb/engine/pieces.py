"""The pieces of one reply as events, merged so that their number does not depend on their size.

A server may send a million characters in pieces of one: a view could not show each of them, and
each would cost a message between two threads.
Source: D-24; goals.md "streaming".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from axe_nb.messages import Delta

EVERY = 0.03
"""Least seconds between two deltas of the same kind; the first one is passed on at once."""


class Pieces:
    """Passes the deltas of one attempt on; those that arrive soon after another are merged."""

    def __init__(self, emit: Callable[[Delta], None]) -> None:
        """Creates a merger for the running event loop; `flush` must be called at the end."""
        self.texts: list[str] = []
        """The pieces of the reply's text, whether passed on or not."""
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._first: Delta | None = None
        """The first one of those that wait."""
        self._waiting: list[str] = []
        """Texts of those that wait."""
        self._next_at = 0.0
        """Time of the next delta, on the monotonic clock."""

    def add(self, delta: Delta) -> None:
        """Takes a delta; neither blocks nor raises."""
        if delta.kind == "text":
            self.texts.append(delta.text)
        first = self._first
        if first is None:
            self._first = delta
        elif first.kind != delta.kind or first.call != delta.call:
            self.flush()
            self._first = delta
        self._waiting.append(delta.text)
        if time.monotonic() >= self._next_at:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(EVERY, self.flush)

    def flush(self) -> None:
        """Passes on what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        first, self._first = self._first, None
        if first is None:
            return
        text = "".join(self._waiting)
        self._waiting.clear()
        self._next_at = time.monotonic() + EVERY
        self._emit(Delta(text, first.kind, first.call, first.name))
