"""Run limits and usage accounting. A reached limit ends the run with a status.

Source: D-2, D-10, D-18, D-35; seed 000 §3.8 (A-8.3); product.md `[limits]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from axe_nb.agents.tables import TreeLimits
from axe_nb.errors import ConfigError
from axe_nb.events import Status

MAX_TURNS = 50
"""Maximum turns of any run; a safety limit, not a setting (A-8.3, A-N2)."""

MAX_NAMED = 5
"""Maximum agents named when a cap of a tree is reached; those with the highest usage."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run; None = no limit."""

    turns: int = MAX_TURNS
    """Maximum requests."""
    tool_calls: int | None = None
    """Maximum executed tool calls."""
    tokens: int | None = None
    """Size of its context: input and output tokens of its latest response (D-18)."""
    seconds: float | None = None
    """Timeout; never more than the parent's remaining time (D-10)."""

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
        """Caps calls and tokens at the limits `above`, those of the parent run (O-9).

        Turns are counted per run (X-18), up to 50; time is bounded by the parent's deadline.
        """
        return replace(
            self,
            turns=min(self.turns, MAX_TURNS),
            tool_calls=_pick_lowest(self.tool_calls, above.tool_calls),
            tokens=_pick_lowest(self.tokens, above.tokens),
        )


def _pick_lowest(a: int | None, b: int | None) -> int | None:
    return min((cap for cap in (a, b) if cap is not None), default=None)


class RunStopped(Exception):
    """Ends a run with a status other than `completed`; never leaves `Run.execute`."""

    def __init__(self, status: Status, error: str) -> None:
        super().__init__(error)
        self.status: Status = status


@dataclass(slots=True)
class UsageMeter:
    """Usage of a run and its descendants, checked against the caps of its `[limits]`."""

    agent: str
    limits: TreeLimits
    above: UsageMeter | None = None
    """The parent's meter, which includes the usage of its children."""
    requests: int = 0
    tokens: int = 0
    spent: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Agent → (requests, tokens), in order of first request."""

    def check(self) -> None:
        """Checks that one more request may be sent.

        Raises:
            RunStopped: a cap of this run or of one above it has been reached.
        """
        for meter in self._walk_up():
            meter._check()

    def request(self, agent: str) -> None:
        """Counts a request that is about to be sent.

        Raises:
            RunStopped: a cap of this run or of one above it has been reached.
        """
        self.check()
        for meter in self._walk_up():
            meter.requests += 1
            requests, tokens = meter.spent.get(agent, (0, 0))
            meter.spent[agent] = requests + 1, tokens

    def charge(self, agent: str, tokens: int) -> None:
        """Counts the tokens of a response."""
        for meter in self._walk_up():
            meter.tokens += tokens
            requests, so_far = meter.spent[agent]
            meter.spent[agent] = requests, so_far + tokens

    def _walk_up(self) -> Iterator[UsageMeter]:
        meter: UsageMeter | None = self
        while meter is not None:
            yield meter
            meter = meter.above

    def _check(self) -> None:
        most = self.limits.max_requests
        if most and self.requests >= most:
            raise RunStopped("max_turns", self._format_cap("max_requests", most, "requests", 0))
        most = self.limits.max_total_tokens
        if most and self.tokens >= most:
            raise RunStopped("max_tokens", self._format_cap("max_total_tokens", most, "tokens", 1))

    def _format_cap(self, key: str, most: int, unit: str, column: int) -> str:
        """The message for a reached cap, with the usage of each agent."""
        spent = sorted(((s[column], agent) for agent, s in self.spent.items()), reverse=True)
        who = [f"{agent} {amount}" for amount, agent in spent[:MAX_NAMED]]
        if len(spent) > MAX_NAMED:
            who.append(f"others {sum(amount for amount, _ in spent[MAX_NAMED:])}")
        return f"limits.{key} ({most}) of {self.agent} reached: {', '.join(who)} {unit}"
