"""A run's time: its deadline, script models on a virtual clock, and pauses for a person.

Source: seed 000 §3.12 (A-12.*); D-10, D-36, D-48.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from axe_nb.text import format_seconds


class TimeIsUp(TimeoutError):
    """Raised by a run's clock."""


@dataclass(slots=True)
class Deadline:
    """When the time of a run, and of those below it that have no shorter one, is up."""

    at: float
    """On the clock of the event loop, in seconds; virtual seconds included."""
    setting: float
    """The setting that this comes from, in seconds: what the timeout message names (D-10)."""
    timeout: asyncio.Timeout
    """Timeout context of the run that it belongs to: cancels that run, with all runs in it."""
    above: Deadline | None = None
    """The one that caps this one."""
    _ahead: float = 0.0
    _pauses: int = field(default=0, init=False)
    _paused_at: float = field(default=0.0, init=False)

    def __str__(self) -> str:
        return f"timeout after {format_seconds(self.setting)}s"

    @property
    def is_paused(self) -> bool:
        """Whether a person is being asked, so that the time stands still."""
        return self._pauses > 0

    def pause(self) -> None:
        """Stops the time here and all the way up, until as many `resume`s have come."""
        if not self._pauses:
            self._paused_at = asyncio.get_running_loop().time()
            if not self.timeout.expired():
                self.timeout.reschedule(None)
        self._pauses += 1
        if self.above is not None:
            self.above.pause()

    def resume(self) -> None:
        """Lets the time go on, later by what the pause took."""
        self._pauses -= 1
        if not self._pauses:
            self.at += asyncio.get_running_loop().time() - self._paused_at
            self.reschedule(self._ahead)
        if self.above is not None:
            self.above.resume()

    def reschedule(self, ahead: float) -> None:
        """Sets the timer anew, with so many virtual seconds passed."""
        self._ahead = ahead
        if not self.is_paused and not self.timeout.expired():
            self.timeout.reschedule(self.at - ahead)


class Clock:
    """The time of one run, from its making."""

    def __init__(
        self, seconds: float | None, above: Deadline | None = None, ahead: float = 0.0
    ) -> None:
        """Starts now.

        Args:
            seconds: the run's own time; None = none of its own.
            above: the parent's deadline, which caps it; None = none.
            ahead: virtual seconds that have passed already.
        """
        self._time = asyncio.get_running_loop().time
        self.ahead = ahead
        """Virtual seconds that script models on the virtual clock have taken so far."""
        self._started = self.now()
        self.deadline = above
        """The nearest one; None = no limit."""
        self.timeout = asyncio.timeout_at(None)
        """Timeout context for the run; raises TimeoutError when the time is up."""
        if seconds is not None and (above is None or self._started + seconds <= above.at):
            at = self._started + seconds
            self.timeout = asyncio.timeout_at(at - ahead)
            self.deadline = Deadline(at, seconds, self.timeout, above, ahead)

    def now(self) -> float:
        """Seconds on the loop's clock, virtual ones included."""
        return self._time() + self.ahead

    @property
    def elapsed(self) -> float:
        """Seconds since the start, virtual ones included."""
        return self.now() - self._started

    @property
    def is_late(self) -> bool:
        """Whether the time is up; the timer itself is asked too, for it may fire a tick early."""
        if self.deadline is None:
            return False
        if self.deadline.timeout.expired():
            return True
        return not self.deadline.is_paused and self.now() >= self.deadline.at

    def overdue(self, now: float) -> float:
        """Seconds that the time has been up, to be asked from any thread; 0.0 = it is not.

        Args:
            now: `time.monotonic()`, which event loops count by.
        """
        deadline = self.deadline
        if deadline is None or deadline.is_paused:
            return 0.0
        return max(0.0, now + self.ahead - deadline.at)

    def check(self) -> None:
        """Raises TimeIsUp if it is, for work that never waits."""
        if self.is_late:
            raise TimeIsUp

    def forward(self, ahead: float) -> None:
        """Moves the virtual clock on to `ahead` seconds, or the deadline; it never goes back.

        Raises:
            TimeIsUp: the deadline comes first.
        """
        before = self.ahead
        self.ahead = max(before, ahead)
        if self.deadline is not None and self.is_late:
            self.ahead = max(before, self.ahead - (self.now() - self.deadline.at))
            raise TimeIsUp
        if self.deadline is not None and self.deadline.timeout is self.timeout:
            self.deadline.reschedule(self.ahead)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block whose time does not count, all the way up, because a person is being asked."""
        deadline = self.deadline
        if deadline is None:
            yield
            return
        deadline.pause()
        try:
            yield
        finally:
            deadline.resume()
