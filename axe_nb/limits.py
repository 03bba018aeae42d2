"""Run limits and usage accounting. A reached limit ends the run with a status.

Source: D-2, D-10, D-18, D-35, D-51, D-64, A-8.3.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from axe_nb.agents.config import format_path_or_name
from axe_nb.agents.tables import TreeLimits
from axe_nb.errors import ConfigError
from axe_nb.results import Status
from axe_nb.text import format_dollars

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
        turns = min(self.turns, MAX_TURNS)
        tool_calls = _pick_lowest(self.tool_calls, above.tool_calls)
        tokens = _pick_lowest(self.tokens, above.tokens)
        if (turns, tool_calls, tokens) == (self.turns, self.tool_calls, self.tokens):
            return self
        return Limits(turns, tool_calls, tokens, self.seconds)


def _pick_lowest(a: int | None, b: int | None) -> int | None:
    return min((cap for cap in (a, b) if cap is not None), default=None)


class RunStopped(Exception):
    """Ends a run with a status other than `completed`; never leaves `Run.execute`."""

    def __init__(self, status: Status, error: str, cap: str = "") -> None:
        super().__init__(error)
        self.status: Status = status
        self.cap = cap
        """The cap of the tree that was reached, in words; empty if it was none."""


@dataclass(slots=True)
class Spent:
    """The share of one agent in the usage of a tree."""

    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0


@dataclass(slots=True)
class UsageMeter:
    """Usage of a run and its descendants, checked against the caps of its `[limits]`."""

    agent: str
    limits: TreeLimits
    above: UsageMeter | None = None
    """The parent's meter, which includes the usage of its children."""
    path: str = ""
    """Path of the agent's file; empty if it has none."""
    is_expected: bool = False
    """True for a child that has not sent its first request yet."""
    expected: int = 0
    """Number of such runs below."""
    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unpriced: str = ""
    """Agent that received a reply of unknown price; empty = none did."""
    spent: dict[str, Spent] = field(default_factory=dict)
    """Agent → its share, in order of first request."""

    @property
    def caps_cost(self) -> bool:
        """True if `max_cost` of this run or of one above it holds."""
        return any(meter.limits.max_cost for meter in self._walk_up())

    def check(self, *, is_child: bool = False) -> None:
        """Checks that one more request may be sent, or one more child be started.

        Raises:
            RunStopped: a cap of this run or of one above it has been reached; or the requests left
                are those of children that have already been started.
        """
        for meter in self._walk_up():
            meter._check(meter.expected if is_child else 0)

    def has_cap(self, cap: str) -> bool:
        """True if that cap, in words, applies to this run."""
        return any(cap == words for meter in self._walk_up() for words in meter._list_caps())

    def child(self, agent: str, limits: TreeLimits, path: str = "") -> UsageMeter:
        """The meter of a child, which will send at least one request."""
        for meter in self._walk_up():
            meter.expected += 1
        return UsageMeter(agent, limits, self, path, is_expected=True)

    def settle(self) -> None:
        """Counts the run no longer as one whose first request is to come."""
        if self.is_expected and self.above is not None:
            self.is_expected = False
            for meter in self.above._walk_up():
                meter.expected -= 1

    def request(self, agent: str) -> None:
        """Counts a request that is about to be sent."""
        self.settle()
        for meter in self._walk_up():
            meter.requests += 1
            meter.spent.setdefault(agent, Spent()).requests += 1

    def charge(self, agent: str, tokens: int, dollars: float | None = None) -> None:
        """Counts a response.

        Args:
            agent: the one that received it.
            tokens: its tokens.
            dollars: its price; None = unknown.
        """
        for meter in self._walk_up():
            meter.tokens += tokens
            meter.dollars += dollars or 0.0
            meter.spent[agent].tokens += tokens
            meter.spent[agent].dollars += dollars or 0.0
            if dollars is None:
                meter.unpriced = agent

    def cap_reply(self) -> tuple[int | None, str]:
        """The maximum calls of one reply, None = no maximum; and the message for the others."""
        caps = [(m.limits.max_calls_per_reply, m) for m in self._walk_up()]
        most, meter = min(caps, key=lambda cap: cap[0] or sys.maxsize)
        if not most:
            return None, ""
        return most, meter._format_key("max_calls_per_reply", most) + meter._format_file()

    def _walk_up(self) -> Iterator[UsageMeter]:
        meter: UsageMeter | None = self
        while meter is not None:
            yield meter
            meter = meter.above

    def _check(self, expected: int = 0) -> None:
        most = self.limits.max_requests
        if most and self.requests + expected >= most:
            raise self._make_stop("error", "max_requests", most, "requests")
        most = self.limits.max_total_tokens
        if most and self.tokens >= most:
            raise self._make_stop("max_tokens", "max_total_tokens", most, "tokens")
        dollars = self.limits.max_cost
        if dollars and self.dollars >= dollars:
            raise self._make_stop("error", "max_cost", format_dollars(dollars), "dollars")
        if dollars and self.unpriced:
            problem = f"the price of a reply to {self.unpriced} is unknown"
            raise RunStopped(
                "error", f"limits.max_cost of {self.agent} cannot be enforced: {problem}"
            )

    def describe_overshoots(self) -> Iterator[str]:
        """Yields a line for each cap of this run that its last replies passed."""
        tokens, dollars = self.limits.max_total_tokens, self.limits.max_cost
        if tokens and self.tokens > tokens:
            yield self._describe_overshoot("max_total_tokens", tokens, f"{self.tokens} tokens")
        if dollars and self.dollars > dollars:
            cost = format_dollars(self.dollars)
            yield self._describe_overshoot("max_cost", format_dollars(dollars), cost)

    def _describe_overshoot(self, key: str, most: int | str, used: str) -> str:
        late = "what a request takes is known only when it is answered"
        return f"limits.{key} ({most}) of {self.agent} exceeded: {used}; {late}"

    def _list_caps(self) -> Iterator[str]:
        for key in ("max_requests", "max_total_tokens"):
            yield self._format_key(key, getattr(self.limits, key))
        yield self._format_key("max_cost", format_dollars(self.limits.max_cost))

    def _make_stop(self, status: Status, key: str, most: int | str, unit: str) -> RunStopped:
        """Returns the error for a reached cap, with the usage of each agent."""
        spent = sorted(((getattr(s, unit), agent) for agent, s in self.spent.items()), reverse=True)
        shown = format_dollars if unit == "dollars" else str
        who = [f"{agent} {shown(amount)}" for amount, agent in spent[:MAX_NAMED]]
        if len(spent) > MAX_NAMED:
            who.append(f"others {shown(sum(amount for amount, _ in spent[MAX_NAMED:]))}")
        named = "" if unit == "dollars" else f" {unit}"
        cap = self._format_key(key, most)
        return RunStopped(status, f"{cap}: {', '.join(who)}{named}{self._format_file()}", cap)

    def _format_key(self, key: str, most: int | str) -> str:
        return f"limits.{key} ({most}) of {self.agent} reached"

    def _format_file(self) -> str:
        return f"; change it in {format_path_or_name(Path(self.path))}" if self.path else ""


class SlotPool:
    """A semaphore with so many slots, 0 = unlimited; each takes one of those above too."""

    def __init__(self, most: int, above: SlotPool | None = None) -> None:
        """Creates it; all slots are free."""
        self._slots = asyncio.Semaphore(most or sys.maxsize)
        self._above = above

    async def acquire(self) -> None:
        """Takes a slot; waits for one if there is none."""
        await self._slots.acquire()
        if self._above is not None:
            try:
                await self._above.acquire()
            except asyncio.CancelledError:
                self._slots.release()
                raise

    def release(self) -> None:
        """Gives a slot back, to the first that waits."""
        self._slots.release()
        if self._above is not None:
            self._above.release()

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class InFlight:
    """Slots for what may be in progress at once in a tree, and below a run with a lower limit.

    No slot is held while another of its kind is waited for: a request waits for nothing, and a
    call gives its slot back when it starts a child.
    """

    most: int
    """0 = no limit."""
    requests: SlotPool
    calls: SlotPool

    @classmethod
    def of(cls, most: int) -> InFlight:
        """The slots of a root."""
        return cls(most, SlotPool(most), SlotPool(most))

    def below(self, most: int) -> InFlight:
        """The slots of a child with this limit of its own: its parent's, unless it is lower."""
        if not most or 0 < self.most <= most:
            return self
        return InFlight(most, SlotPool(most, self.requests), SlotPool(most, self.calls))
