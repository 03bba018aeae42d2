"""Deadlines of runs, with virtual time for script models and pauses for user prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from axe_nb.text import format_seconds

NO_TIMEOUT: AbstractAsyncContextManager[object] = nullcontext()
"""The timeout context of a run without a timeout, its own or from above."""


class TimeIsUp(TimeoutError):
    """Raised by a run's clock."""


@dataclass(slots=True)
class Deadline:
    """Deadline of a run, and of its descendants without an earlier one."""

    at: float
    """Time on the event loop's clock in seconds, virtual time included."""
    setting: float
    """The `timeout` setting in seconds, for the timeout message (D-10)."""
    timeout: asyncio.Timeout
    """Timeout context of its run; cancels that run and its descendants."""
    run: str
    """The id of its run."""
    above: Deadline | None
    """The deadline that caps this one."""
    ahead: float
    """Virtual seconds that the timer accounts for."""
    pauses: int = field(default=0, init=False)
    """Number of questions to the user in progress; no time passes while there are any."""
    _paused_at: float = field(default=0.0, init=False)

    def __str__(self) -> str:
        return f"timeout after {format_seconds(self.setting)}s"

    def pause(self) -> None:
        """Stops the time here and in all deadlines above, until `resume` is called as often."""
        if not self.pauses:
            self._paused_at = asyncio.get_running_loop().time()
            if not self.timeout.expired():
                self.timeout.reschedule(None)
        self.pauses += 1
        if self.above is not None:
            self.above.pause()

    def resume(self) -> None:
        """Resumes the time; the deadline moves by the length of the pause."""
        self.pauses -= 1
        if not self.pauses:
            self.at += asyncio.get_running_loop().time() - self._paused_at
            self.reschedule(self.ahead)
        if self.above is not None:
            self.above.resume()

    def expire(self) -> None:
        """Ends the time now, for its run and all below it."""
        if not self.timeout.expired():
            self.timeout.reschedule(0.0)

    def reschedule(self, ahead: float) -> None:
        """Resets the timer, with `ahead` virtual seconds elapsed."""
        self.ahead = ahead
        if not self.pauses and not self.timeout.expired():
            self.timeout.reschedule(self.at - ahead)


class Clock:
    """Time of one run since its creation."""

    def __init__(
        self,
        seconds: float | None,
        above: Deadline | None = None,
        ahead: float = 0.0,
        run: str = "0",
    ) -> None:
        """Starts the clock, in the task that runs the run.

        Args:
            seconds: the run's own timeout; None = it only has the deadline above.
            above: the parent's deadline, which caps this one.
            ahead: virtual seconds already elapsed for the parent.
            run: the run's id.
        """
        self._loop = asyncio.get_running_loop()
        self.ahead = ahead
        """Virtual seconds taken so far by script models on the virtual clock."""
        self.started = self.now()
        """Value of `now` at the start."""
        self.deadline = above
        """The nearest deadline; None = no limit."""
        self.timeout = NO_TIMEOUT
        """Timeout context for the run; raises TimeoutError when its own time is up."""
        if seconds is not None and (above is None or self.started + seconds <= above.at):
            at = self.started + seconds
            self.timeout = timeout = asyncio.timeout_at(at - ahead)
            self.deadline = Deadline(at, seconds, timeout, run, above, ahead)

    def now(self) -> float:
        """Seconds on the loop's clock, virtual time included."""
        return self._loop.time() + self.ahead

    @property
    def elapsed(self) -> float:
        """Seconds since the start, virtual time included."""
        return self.now() - self.started

    @property
    def is_late(self) -> bool:
        """True if the time is up or the timer, which may be a tick early, has fired."""
        if self.deadline is None:
            return False
        return self.deadline.timeout.expired() or self.left == 0.0

    @property
    def left(self) -> float | None:
        """Seconds until the deadline; None if there is none, or it is paused."""
        if self.deadline is None or self.deadline.pauses:
            return None
        return max(0.0, self.deadline.at - self.now())

    def overdue(self, now: float) -> float:
        """Seconds past the deadline, 0.0 if it has not passed; may be called from any thread.

        `now` is `time.monotonic()`, the time base of event loops.
        """
        deadline = self.deadline
        if deadline is None or deadline.pauses:
            return 0.0
        return max(0.0, now + self.ahead - deadline.at)

    def check(self) -> None:
        """Raises TimeIsUp if the time is up, for work that never awaits."""
        if self.is_late:
            raise TimeIsUp

    def limit(self) -> asyncio.Timeout:
        """Timeout context for work before the run, which itself ends at its first `check`."""
        return asyncio.timeout(self.left)

    def forward(self, ahead: float) -> None:
        """Advances the virtual clock, never back; raises TimeIsUp if the deadline comes first."""
        before, deadline = self.ahead, self.deadline
        self.ahead = max(before, ahead)
        if deadline is None:
            return
        if self.is_late:
            self.ahead = max(before, self.ahead - (self.now() - deadline.at))
            raise TimeIsUp
        if deadline.timeout is self.timeout and deadline.ahead != self.ahead:
            deadline.reschedule(self.ahead)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the time, here and above, within the block, while the user is prompted."""
        deadline = self.deadline
        if deadline is None:
            yield
            return
        deadline.pause()
        try:
            yield
        finally:
            deadline.resume()
