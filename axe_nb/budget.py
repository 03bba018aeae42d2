"""What a run may use."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TURNS = 50
"""Turns of any run; a safety valve, not a setting (A-8.3, A-N2)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one run; None = none. Reaching one ends the run with a status, not an error."""

    turns: int = MAX_TURNS
    """Requests that it may send."""
    tool_calls: int | None = None
    """Calls that it may have executed."""
    tokens: int | None = None
    """Size of its context: input and output tokens of its latest response (D-18)."""
    seconds: float | None = None
    """Its own time; never more than what its parent has left (D-10)."""


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """When a run's time is up."""

    at: float
    """On the clock of the run's event loop, in seconds."""
    setting: float
    """The setting that this comes from, in seconds: what the timeout message names (D-10)."""

    def __str__(self) -> str:
        return f"timeout after {seconds_text(self.setting)}s"


def seconds_text(seconds: float) -> str:
    """Seconds as people write them: `120`, `0.2`; no trailing zeros (D-10)."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
