"""What a run may use, and how reaching it ends the run: with a status, not an error.

Source: D-2, D-10, D-18, D-35; seed 000 §3.8 (A-8.3); product.md `[limits]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from axe_nb.agents.tables import TreeLimits
from axe_nb.errors import ConfigError
from axe_nb.events import Status

MAX_TURNS = 50
"""Turns of any run; a safety valve, not a setting (A-8.3, A-N2)."""

MAX_NAMED = 5
"""Agents that a reached cap of a tree names, those who spent most."""


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

    def __post_init__(self) -> None:
        for cap, name in (
            (self.tool_calls, "maxToolCalls must be positive"),
            (self.tokens, "maxTokens must be positive"),
            (self.seconds, "the timeout must be positive"),
            (self.turns, "max_turns must be greater than 0"),
        ):
            if cap is not None and not cap > 0:
                raise ConfigError(name)

    def within(self, above: Limits) -> Limits:
        """These limits for a child of a run that has `above`: calls and tokens no laxer (O-9).

        Turns are each run's own (X-18), up to the 50 of all; time is bounded by the deadline above.
        """
        return replace(
            self,
            turns=min(self.turns, MAX_TURNS),
            tool_calls=_least(self.tool_calls, above.tool_calls),
            tokens=_least(self.tokens, above.tokens),
        )


def _least(a: int | None, b: int | None) -> int | None:
    return min((cap for cap in (a, b) if cap is not None), default=None)


class RunStopped(Exception):
    """Ends a run with another status than `completed`; never leaves `Run.execute`."""

    def __init__(self, status: Status, error: str) -> None:
        super().__init__(error)
        self.status: Status = status


@dataclass(slots=True)
class UsageMeter:
    """What a run and everything below it has spent, against the caps of its `[limits]`."""

    agent: str
    limits: TreeLimits
    above: UsageMeter | None = None
    """The parent's; what a child spends counts there too."""
    requests: int = 0
    tokens: int = 0
    spent: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Agent → (requests, tokens), in order of first request."""

    def check(self) -> None:
        """Settles that one more request may be sent.

        Raises:
            RunStopped: a cap of this run or of one above it has been reached.
        """
        for meter in self._chain():
            meter._check()

    def request(self, agent: str) -> None:
        """Counts a request that is about to be sent.

        Raises:
            RunStopped: a cap of this run or of one above it has been reached.
        """
        self.check()
        for meter in self._chain():
            meter.requests += 1
            requests, tokens = meter.spent.get(agent, (0, 0))
            meter.spent[agent] = requests + 1, tokens

    def charge(self, agent: str, tokens: int) -> None:
        """Counts the tokens of a response."""
        for meter in self._chain():
            meter.tokens += tokens
            requests, so_far = meter.spent[agent]
            meter.spent[agent] = requests, so_far + tokens

    def _chain(self) -> Iterator[UsageMeter]:
        meter: UsageMeter | None = self
        while meter is not None:
            yield meter
            meter = meter.above

    def _check(self) -> None:
        most = self.limits.max_requests
        if most and self.requests >= most:
            raise RunStopped("max_turns", self._reached("max_requests", most, "requests", 0))
        most = self.limits.max_total_tokens
        if most and self.tokens >= most:
            raise RunStopped("max_tokens", self._reached("max_total_tokens", most, "tokens", 1))

    def _reached(self, key: str, most: int, unit: str, column: int) -> str:
        """Which cap it was, and who spent how much of it."""
        spent = sorted(((s[column], agent) for agent, s in self.spent.items()), reverse=True)
        who = [f"{agent} {amount}" for amount, agent in spent[:MAX_NAMED]]
        if len(spent) > MAX_NAMED:
            who.append(f"others {sum(amount for amount, _ in spent[MAX_NAMED:])}")
        return f"limits.{key} ({most}) of {self.agent} reached: {', '.join(who)} {unit}"
