"""The reply of a turn while it arrives: its text so far, and its pieces as events.

The pieces are merged, so that their number does not depend on their size. A server may send a
million characters in pieces of one: a view could not show each of them, and each would cost a
message between two threads.
Source: D-24, D-36; goals.md "streaming".
"""

from __future__ import annotations

import asyncio
import time

from axe_nb.events import Emit, TextDelta
from axe_nb.exchanges import Exchange
from axe_nb.messages import Delta, Request
from axe_nb.providers.protocol import OnDelta

EVERY = 0.03
"""Least seconds between two deltas of the same kind; the first one is passed on at once."""


def turn_of(place: str) -> int:
    """Returns the turn of a place, such as 3 for `0.2/3`."""
    return int(place.rpartition("/")[2])


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


class Partial:
    """The unfinished reply of a run, and its exchanges so far; the links of a run share it."""

    def __init__(self, run: str, emit: Emit, *, is_streamed: bool) -> None:
        """Creates it.

        Args:
            run: id of the run.
            emit: receives the pieces.
            is_streamed: false if replies come as a whole.
        """
        self.exchanges: list[Exchange] = []
        """The requests so far, and their outcomes."""
        self.pieces: Pieces | None = None
        """Those of the reply that is streamed now, or was cut."""
        self.failed = ""
        """The text that came with the failure of the latest request."""
        self._run = run
        self._emit = emit
        self._is_streamed = is_streamed

    @property
    def text(self) -> str:
        """Text of the unfinished reply; empty between requests."""
        return self.failed or (self.pieces.text if self.pieces else "")

    def begin(self, request: Request) -> OnDelta | None:
        """Begins an attempt anew; returns what takes its pieces, None if it is not streamed."""
        self.clear()
        if self._is_streamed:
            place = self._run, turn_of(request.place), request.attempt
            self.pieces = Pieces(self._emit, *place)
        return self.pieces.add if self.pieces else None

    def flush(self) -> None:
        """Passes on the pieces that wait."""
        if self.pieces is not None:
            self.pieces.flush()

    def clear(self) -> None:
        """Forgets the text: the reply is complete, or nothing of it has arrived yet."""
        self.pieces, self.failed = None, ""
