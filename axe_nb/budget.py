"""What a run may use, and how reaching it ends the run: with a status, not an error.

Source: D-2, D-10, D-18, D-35; seed 000 §3.8 (A-8.3); product.md `[limits]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from axe_nb.agent import TreeLimits
from axe_nb.events import Status
from axe_nb.messages import Usage

MAX_TURNS = 50
"""Turns of any run; a safety valve, not a setting (A-8.3, A-N2)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one run; None = none."""

    turns: int = MAX_TURNS
    """Requests that it may send."""
    tool_calls: int | None = None
    """Calls that it may have executed."""
    tokens: int | None = None
    """Size of its context: input and output tokens of its latest response (D-18)."""
    seconds: float | None = None
    """Its own time; never more than what its parent has left (D-10)."""


class Stop(Exception):
    """Ends a run with another status than `completed`; never leaves `Run.execute`."""

    def __init__(self, status: Status, error: str) -> None:
        super().__init__(error)
        self.status: Status = status


@dataclass(slots=True)
class Tally:
    """What a run and everything below it has spent, against the caps of its `[limits]`."""

    agent: str
    limits: TreeLimits
    above: Tally | None = None
    """The parent's; what a child spends counts there too."""
    requests: int = 0
    tokens: int = 0
    spent: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Agent → (requests, tokens), in order of first request."""

    def request(self, agent: str) -> None:
        """Counts a request that is about to be sent.

        Raises:
            Stop: a cap of this run or of one above it has been reached.
        """
        for tally in self._chain():
            tally._check()
        for tally in self._chain():
            tally.requests += 1
            requests, tokens = tally.spent.get(agent, (0, 0))
            tally.spent[agent] = requests + 1, tokens

    def charge(self, agent: str, usage: Usage) -> None:
        """Counts the tokens of a response."""
        for tally in self._chain():
            tally.tokens += usage.total
            requests, tokens = tally.spent[agent]
            tally.spent[agent] = requests, tokens + usage.total

    def _chain(self) -> Iterator[Tally]:
        tally: Tally | None = self
        while tally is not None:
            yield tally
            tally = tally.above

    def _check(self) -> None:
        most = self.limits.max_requests
        if most and self.requests >= most:
            who = ", ".join(f"{agent} {requests}" for agent, (requests, _) in self.spent.items())
            raise Stop(
                "max_turns", f"limits.max_requests ({most}) of {self.agent} reached: {who} requests"
            )
        most = self.limits.max_total_tokens
        if most and self.tokens >= most:
            who = ", ".join(f"{agent} {tokens}" for agent, (_, tokens) in self.spent.items())
            raise Stop(
                "max_tokens",
                f"limits.max_total_tokens ({most}) of {self.agent} reached: {who} tokens",
            )
