"""Limits of a tree of runs: deadlines, the caps of `[limits]`, the session's budget, and slots.

Virtual delays of script models count towards a deadline; time spent waiting for the user does not.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import tomllib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import TreeLimits
from axe_nb.agents.user_config import format_path_or_name
from axe_nb.messages import Message, ToolSpec, Usage, dump
from axe_nb.results import RunStopped, Status
from axe_nb.text import count_bytes, format_dollars, format_seconds

MAX_NAMED = 5  # maximum agents in the message that a cap is reached, in order of usage


class TimeIsUp(TimeoutError):
    """Raised by a run's clock after the deadline."""


class Clock:
    """Measures a run's time, and enforces a deadline for the run and all runs below it."""

    def __init__(
        self, seconds: float | None, above: Clock | None = None, ahead: float = 0.0, run: str = "0"
    ) -> None:
        """Starts the clock; must be called in the run's own task.

        `seconds` is the run's own timeout, or None. An earlier deadline of `above` applies too.
        `ahead` is the virtual time in seconds that the parent run has used.
        """
        self._loop = asyncio.get_running_loop()
        self.run, self.ahead = run, ahead
        """Id of the run, and virtual seconds that script models have taken so far."""
        self.started = self.now()
        self._above = above.deadline if above else None
        """Clock of a run above, whose deadline also applies; None if there is none."""
        self.at, self.setting = math.inf, 0.0
        """Time of the clock's own deadline, and the timeout in seconds that set it."""
        self._timer: asyncio.Timeout | None = None
        self._timer_ahead = ahead
        """Value of `ahead` for which the timer is set."""
        self.pauses, self._paused_at = 0, 0.0
        """Number of open questions to the user; the clock stands still while there are any."""
        if seconds is not None and (not self._above or self.started + seconds <= self._above.at):
            self.at, self.setting = self.started + seconds, seconds
            self._timer = asyncio.timeout_at(self.at - ahead)

    @property
    def timeout(self) -> AbstractAsyncContextManager[object]:
        """Context manager that raises TimeoutError when the run's own timeout expires."""
        return self._timer or nullcontext()

    @property
    def deadline(self) -> Clock | None:
        """The clock whose deadline applies, this clock or a clock above; None if there is none."""
        return self if self._timer else self._above

    def tell_timeout(self) -> str:
        """Returns the error message for a run that exceeded its timeout (D-10)."""
        return f"timeout after {format_seconds(self.deadline.setting)}s" if self.deadline else ""

    def now(self) -> float:
        return self._loop.time() + self.ahead

    @property
    def elapsed(self) -> float:
        return self.now() - self.started

    @property
    def is_late(self) -> bool:
        """True if the deadline has passed, or if its timer has fired, perhaps a tick early."""
        timer = self.deadline._timer if self.deadline else None
        return timer is not None and (timer.expired() or self.left == 0.0)

    @property
    def left(self) -> float | None:
        """Seconds until the deadline; None if there is no deadline or the clock is paused."""
        if self.deadline is None or self.deadline.pauses:
            return None
        return max(0.0, self.deadline.at - self.now())

    def overdue(self, now: float) -> float:
        """Returns the seconds from the deadline to `now` (monotonic), at least 0. Thread-safe."""
        deadline = self.deadline
        if deadline is None or deadline.pauses:
            return 0.0
        return max(0.0, now + self.ahead - deadline.at)

    def check(self) -> None:
        """Raises TimeIsUp if the deadline has passed, even if the timer had no chance to fire."""
        if self.is_late:
            raise TimeIsUp

    def forward(self, ahead: float) -> None:
        """Advances the virtual time to `ahead`. Raises TimeIsUp if the deadline comes first."""
        before, deadline = self.ahead, self.deadline
        self.ahead = max(before, ahead)
        if deadline is None:
            return
        if self.is_late:
            self.ahead = max(before, self.ahead - (self.now() - deadline.at))
            raise TimeIsUp
        if deadline is self and self._timer_ahead != self.ahead:
            self._timer_ahead = self.ahead
            self._set_timer()

    def expire(self) -> None:
        """Makes the run time out now."""
        if self._timer and not self._timer.expired():
            self._timer.reschedule(self._loop.time())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspends the deadlines of this clock and those above while the block asks the user."""
        stopped, now = list[Clock](), self._loop.time
        clock = self.deadline
        while clock is not None:
            stopped.append(clock)
            clock = clock._above
        for clock in stopped:
            clock.pauses += 1
            if clock.pauses == 1:
                clock._paused_at = now()
                clock._set_timer()
        try:
            yield
        finally:
            for clock in stopped:
                clock.pauses -= 1
                if not clock.pauses:
                    clock.at += now() - clock._paused_at
                    clock._set_timer()

    def _set_timer(self) -> None:
        if self._timer and not self._timer.expired():
            self._timer.reschedule(None if self.pauses else self.at - self._timer_ahead)


@dataclass(slots=True)
class Spent:
    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0


CAPS = {"max_requests": "requests", "max_total_tokens": "tokens", "max_cost": "dollars"}
"""Maps keys of `[limits]` to the fields of `Spent` that they cap."""


@dataclass(slots=True)
class UsageMeter:
    """Usage of a run and its descendants, checked against the caps in the agent's `[limits]`."""

    agent: str
    limits: TreeLimits
    above: UsageMeter | None = None
    """Meter of the parent run, which includes the usage of its children; None for a root."""
    source: Agent | None = None
    """The agent with the limits; None for a map."""
    is_counted: bool = False
    """True for a child until its first request, which its start has counted for the runs above."""
    total: Spent = field(default_factory=Spent)
    unpriced: str = ""
    """Name of an agent that received a response of unknown price; empty if there is none."""
    spent: dict[str, Spent] = field(default_factory=dict)
    """Usage keyed by agent name, in order of first request."""

    @property
    def caps_cost(self) -> bool:
        return any(meter.limits.max_cost for meter in self._walk_up())

    def check(self) -> None:
        """Raises RunStopped if a cap of this run or one above forbids another request or child."""
        for meter in self._walk_up():
            for key, unit in CAPS.items():
                most, spent = getattr(meter.limits, key), getattr(meter.total, unit)
                if most and spent >= most and not (self.is_counted and unit == "requests"):
                    raise meter._make_stop(key, unit)
            if meter.limits.max_cost and meter.unpriced:
                problem = f"the price of a response to {meter.unpriced} is unknown"
                why = f"limits.max_cost of {meter.agent} cannot be enforced: {problem}"
                raise RunStopped("error", why)

    def child(self, agent: str, limits: TreeLimits, source: Agent) -> UsageMeter:
        _count(self._walk_up(), agent)
        return UsageMeter(agent, limits, self, source, is_counted=True)

    def has_cap(self, cap: str) -> bool:
        """True if `cap` is the error message for a cap of this run or of a run above it."""
        return any(cap == meter._format_cap(key) for meter in self._walk_up() for key in CAPS)

    def request(self, agent: str) -> None:
        _count([self] if self.is_counted else self._walk_up(), agent)
        self.is_counted = False

    def charge(self, agent: str, tokens: int, dollars: float | None = None) -> None:
        """Adds the tokens and price of a response; `dollars` is None if the price is unknown."""
        for meter in self._walk_up():
            for spent in (meter.total, meter.spent[agent]):
                spent.tokens += tokens
                spent.dollars += dollars or 0.0
            if dollars is None:
                meter.unpriced = agent

    def cap_reply(self) -> tuple[int | None, str]:
        """Returns the cap on tool calls per response and its error message, or None and ""."""
        caps = [(m.limits.max_calls_per_reply, m) for m in self._walk_up()]
        most, meter = min(caps, key=lambda cap: cap[0] or sys.maxsize)
        key = "max_calls_per_reply"
        return (most, meter._format_cap(key) + meter._format_file(key)) if most else (None, "")

    def _walk_up(self) -> Iterator[UsageMeter]:
        meter: UsageMeter | None = self
        while meter is not None:
            yield meter
            meter = meter.above

    def describe_overshoots(self) -> Iterator[str]:
        for key, unit in CAPS.items():
            most, spent = getattr(self.limits, key), getattr(self.total, unit)
            if most and spent > most:
                cap = self._format_cap(key, "exceeded")
                amount = format_dollars(spent) if unit == "dollars" else f"{spent} {unit}"
                yield f"{cap}: {amount}; the usage of a request is known only after its response"

    def _make_stop(self, key: str, unit: str) -> RunStopped:
        spent = sorted(((getattr(s, unit), agent) for agent, s in self.spent.items()), reverse=True)
        shown, named = (format_dollars, "") if unit == "dollars" else (str, f" {unit}")
        who = [f"{agent} {shown(amount)}" for amount, agent in spent[:MAX_NAMED]]
        if len(spent) > MAX_NAMED:
            who.append(f"others {shown(sum(amount for amount, _ in spent[MAX_NAMED:]))}")
        status: Status = "max_tokens" if unit == "tokens" else "error"
        cap = self._format_cap(key)
        return RunStopped(status, f"{cap}: {', '.join(who)}{named}{self._format_file(key)}", cap)

    def _format_cap(self, key: str, what: str = "reached") -> str:
        return f"limits.{key} ({self.show_cap(key)}) of {self.agent} {what}"

    def show_cap(self, key: str) -> str:
        most = getattr(self.limits, key)
        return format_dollars(most) if key == "max_cost" else str(most)

    def _format_file(self, key: str) -> str:
        """Names the agent's file, unless the limit was set in Python."""
        if self.source is None or not self.source.path:
            return ""
        written = tomllib.loads(self.source.text).get("limits", {})
        if written.get(key, getattr(TreeLimits(), key)) != getattr(self.limits, key):
            return ""
        return f"; change it in {format_path_or_name(Path(self.source.path))}"


def _count(meters: Iterable[UsageMeter], agent: str) -> None:
    for meter in meters:
        for spent in (meter.total, meter.spent.setdefault(agent, Spent())):
            spent.requests += 1


class OverBudget(RunStopped):
    """Raised to end a tree whose next request would exceed the budget of the session."""


@dataclass(slots=True)
class Budget:
    """The US dollars that the runs of a session have spent, and the amount that they may spend.

    Replayed responses cost nothing; responses of unknown price are counted only in `unpriced`.
    """

    amount: float = 0.0
    spent: float = 0.0
    held: float = 0.0
    unpriced: dict[str, int] = field(default_factory=dict)
    """Number of responses of unknown price, keyed by provider/model."""
    latest: dict[str, float] = field(default_factory=dict)
    """Cost of the latest response of known price, keyed by provider/model."""
    step: float = 0.0
    """US dollars by which an approval raises the budget; larger raises are multiples of `step`."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """Lock for changes to the amounts, because the session's runs may use several threads."""

    def set(self, amount: float) -> None:
        self.amount = self.step = amount

    def has_room(self, dollars: float) -> bool:
        fits = self.spent + self.held + dollars <= self.amount
        return fits or not self.amount or not dollars

    def try_hold(self, dollars: float) -> bool:
        """Reserves the price of a request; returns False if that would exceed the budget."""
        with self.lock:
            if self.has_room(dollars):
                self.held += dollars
                return True
        return False

    def settle(self, held: float, model: str, usage: Usage | None) -> None:
        """Replaces a reserved amount with the actual cost; `usage` is None if no response came."""
        with self.lock:
            self.held = max(0.0, self.held - held)
            if usage is None:
                return
            self.spent += usage.cost or 0.0
            self.latest[model] = usage.cost or 0.0
            if usage.cost is None and not model.startswith("script/"):
                self.unpriced[model] = self.unpriced.get(model, 0) + 1


class SlotPool:
    """A pool of `most` slots (unlimited if 0). Taking a slot also takes one in the parent pool."""

    def __init__(self, most: int, above: SlotPool | None = None) -> None:
        self._slots = asyncio.Semaphore(most) if most else nullcontext()
        self._above = above

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Waits until a slot is free, and holds the slot during the block."""
        async with self._slots, self._above.take() if self._above else nullcontext():
            yield


class InFlight:
    """Slots for concurrent requests and tool calls in a tree, or in a subtree with a lower limit.

    Deadlocks cannot occur, because a request starts nothing that needs a slot, and a call releases
    its slot when it starts a child.
    """

    def __init__(self, most: int, above: InFlight | None = None) -> None:
        self.most = most
        self.requests: SlotPool = SlotPool(most, above.requests if above else None)
        self.calls: SlotPool = SlotPool(most, above.calls if above else None)

    def below(self, most: int) -> InFlight:
        """Returns a child's slots: this object, or a new object if the child's limit is lower."""
        return self if not most or 0 < self.most <= most else InFlight(most, self)


def estimate_tokens(system: str, tools: Iterable[ToolSpec], messages: Iterable[Message]) -> int:
    """Estimates a request's tokens: one per four bytes of UTF-8 text, plus pictures (D-18)."""
    texts, pictures = [system], 0
    for tool in tools:
        texts += tool.name, tool.description, dump(tool.input_schema()).decode()
    for message in messages:
        texts += message.content, *(result.content for result in message.tool_results)
        for call in message.tool_calls:
            texts += call.name, call.raw or dump(dict(call.arguments)).decode()
        pictures += sum(one.tokens for one in message.all_pictures())
    return sum(map(count_bytes, texts)) // 4 + pictures
