"""The unfinished reply of a run: the pieces that have arrived, merged into events."""

from __future__ import annotations

import asyncio
import time

from axe_nb.engine.replay import turn_of
from axe_nb.events import Emit, TextDelta
from axe_nb.messages import Delta, Request
from axe_nb.messages.exchanges import Exchange
from axe_nb.providers.protocol import OnDelta

EVERY = 0.03
"""Minimum seconds between two deltas of the same kind; the first one is passed on at once."""


class Partial:
    """The unfinished reply of a run, and its exchanges so far; the links of a run share it.

    Deltas that arrive soon after another are merged.
    """

    def __init__(self, run: str, emit: Emit, *, is_streamed: bool) -> None:
        self.exchanges: list[Exchange] = []
        """The requests so far, and their outcomes."""
        self.deltas: list[Delta] = []
        """Deltas of the reply that is being streamed, or was cut off, whether passed on or not."""
        self.failed = ""
        """The text that came with the failure of the latest request."""
        self._run, self._emit, self._is_streamed = run, emit, is_streamed
        self._place = 0, 0
        """Turn and attempt of the current reply."""
        self._passed_on = 0
        """Number of deltas that were passed on."""
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        """Time of the next delta, on the monotonic clock."""

    @property
    def text(self) -> str:
        """Text of the unfinished reply; empty between requests."""
        return self.failed or "".join(delta.text for delta in self.deltas if delta.kind == "text")

    def begin(self, request: Request) -> OnDelta | None:
        """Begins a new attempt; returns the receiver of its pieces, None if it is not streamed."""
        self.clear()
        self._place, self._next_at = (turn_of(request.place), request.attempt), 0.0
        return self.add if self._is_streamed else None

    def add(self, delta: Delta) -> None:
        """Takes a delta; neither blocks nor raises."""
        if len(self.deltas) > self._passed_on:
            last = self.deltas[-1]
            if (last.kind, last.call) != (delta.kind, delta.call):
                self.flush()
        self.deltas.append(delta)
        if time.monotonic() >= self._next_at:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self.flush)

    def flush(self) -> None:
        """Passes on the waiting deltas."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waiting := self.deltas[self._passed_on :]:
            self._passed_on = len(self.deltas)
            self._next_at = time.monotonic() + EVERY
            first, text = waiting[0], "".join(delta.text for delta in waiting)
            self._emit(TextDelta(self._run, *self._place, text, first.kind, first.call, first.name))

    def clear(self) -> None:
        """Forgets the text, as the reply is complete or has not begun to arrive."""
        self.deltas, self.failed, self._passed_on = [], "", 0
