"""A run's time: its deadline, script models on a virtual clock, and pauses for a person.

Source: seed 000 §3.12 (A-12.*); D-10, D-36, D-48.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from axe_nb.text import format_seconds


@dataclass(slots=True)
class Deadline:
    """When the time of a run, and of those below it that have no shorter one, is up."""

    at: float
    """On the clock of the event loop, in seconds."""
    setting: float
    """The setting that this comes from, in seconds: what the timeout message names (D-10)."""
    scope: asyncio.Timeout
    """The block of the run that it belongs to: cancelled then, with all runs in it."""

    def __str__(self) -> str:
        return f"timeout after {format_seconds(self.setting)}s"


class Clock:
    """The time of one run, from its making."""

    def __init__(
        self, seconds: float | None, above: Deadline | None = None, ahead: float = 0.0
    ) -> None:
        """A clock that starts now.

        Args:
            seconds: the run's own time; None = none of its own.
            above: the parent's deadline, which caps it; None = none.
            ahead: virtual seconds that have passed already.
        """
        self.ahead = ahead
        """Virtual seconds that script models on the virtual clock have taken so far."""
        self._started = self.now()
        self.deadline = above
        """The nearest one; None = no limit."""
        self._scope = asyncio.timeout_at(None)
        if seconds is not None and (above is None or self._started + seconds <= above.at):
            at = self._started + seconds
            self._scope = asyncio.timeout_at(at - ahead)
            self.deadline = Deadline(at, seconds, self._scope)

    def now(self) -> float:
        """Seconds on the loop's clock, virtual ones included."""
        return asyncio.get_running_loop().time() + self.ahead

    @property
    def elapsed(self) -> float:
        """Seconds since the start, virtual ones included."""
        return self.now() - self._started

    @property
    def is_late(self) -> bool:
        """Whether the time is up; the timer itself is asked too, for it may fire a tick early."""
        if self.deadline is None:
            return False
        return self.deadline.scope.expired() or self.now() >= self.deadline.at

    def scope(self) -> asyncio.Timeout:
        """The block that the run's work belongs into; raises TimeoutError when the time is up."""
        return self._scope

    def forward(self, ahead: float) -> None:
        """Moves the virtual clock on to `ahead` seconds, or the deadline; it never goes back.

        Raises:
            TimeoutError: the time is up by it.
        """
        before = self.ahead
        self.ahead = max(before, ahead)
        if self.deadline is not None and self.is_late:
            self.ahead = max(before, self.ahead - (self.now() - self.deadline.at))
            raise TimeoutError
        self._reschedule()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block whose time does not count, because a person is being asked."""
        asked = self.now()
        if self._scope.when() is not None:
            self._scope.reschedule(None)
        try:
            yield
        finally:
            if self.deadline is not None:
                self.deadline.at += self.now() - asked
            self._reschedule()

    def _reschedule(self) -> None:
        if self.deadline is not None and self.deadline.scope is self._scope:
            self._scope.reschedule(self.deadline.at - self.ahead)
