"""The pieces of one reply as events, merged so that their number does not depend on their size.

A server may send a million characters in pieces of one: a view could not show each of them, and
each would cost a message between two threads.
Source: D-24; goals.md "streaming".
"""

from __future__ import annotations

import asyncio
import time

from axe_nb.events import Emit, TextDelta
from axe_nb.messages import Delta

EVERY = 0.03
"""Least seconds between two deltas of the same kind; the first one is passed on at once."""


class Pieces:
    """Passes the deltas of one attempt on; those that arrive soon after another are merged."""

    def __init__(self, emit: Emit, run: str, turn: int, attempt: int) -> None:
        """Creates a merger for the running event loop; `flush` must be called at the end."""
        self.deltas: list[Delta] = []
        """All that have arrived, whether passed on or not."""
        self._passed_on = 0
        """Number of those that were passed on."""
        self._emit = emit
        self._place = run, turn, attempt
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        """Time of the next delta, on the monotonic clock."""

    @property
    def text(self) -> str:
        """The reply's text so far."""
        return "".join(delta.text for delta in self.deltas if delta.kind == "text")

    def add(self, delta: Delta) -> None:
        """Takes a delta; neither blocks nor raises."""
        if len(self.deltas) > self._passed_on:
            last = self.deltas[-1]
            if last.kind != delta.kind or last.call != delta.call:
                self.flush()
        self.deltas.append(delta)
        if time.monotonic() >= self._next_at:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self.flush)

    def flush(self) -> None:
        """Passes on what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = self.deltas[self._passed_on :]
        if not waiting:
            return
        self._passed_on = len(self.deltas)
        self._next_at = time.monotonic() + EVERY
        first, text = waiting[0], "".join(delta.text for delta in waiting)
        self._emit(TextDelta(*self._place, text, first.kind, first.call, first.name))
