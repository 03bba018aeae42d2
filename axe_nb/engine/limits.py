"""Limits on a tree of runs: deadlines, the caps of `[limits]`, a session's budget, and slots.

The time of a run includes the virtual time of script models; it stands still while the person is
asked.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from axe_nb.agents.agent_tables import TreeLimits
from axe_nb.agents.user_config import format_path_or_name
from axe_nb.messages import Message, ToolSpec, Usage, dump
from axe_nb.results import RunStopped, Status
from axe_nb.text import count_bytes, format_dollars, format_seconds

MAX_NAMED = 5
"""Maximum agents named when a cap of a tree is reached; those with the highest usage."""


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
        if not self.timeout.expired():
            self.timeout.reschedule(0.0)

    def reschedule(self, ahead: float) -> None:
        """Resets the timer, with `ahead` virtual seconds elapsed."""
        self.ahead = ahead
        if not self.pauses and not self.timeout.expired():
            self.timeout.reschedule(self.at - ahead)


class Clock:
    def __init__(
        self,
        seconds: float | None,
        above: Deadline | None = None,
        ahead: float = 0.0,
        run: str = "0",
    ) -> None:
        """Starts the clock, in the task that runs the run.

        `seconds` is the run's own timeout, None = it only has the deadline `above`, which caps it;
        `ahead` are virtual seconds already elapsed for the parent.
        """
        self._loop = asyncio.get_running_loop()
        self.ahead = ahead
        """Virtual seconds taken so far by script models on the virtual clock."""
        self.started = self.now()
        self.deadline = above
        self.timeout: AbstractAsyncContextManager[object] = nullcontext()
        """Timeout context for the run; raises TimeoutError when its own time is up."""
        if seconds is not None and (above is None or self.started + seconds <= above.at):
            at = self.started + seconds
            self.timeout = timeout = asyncio.timeout_at(at - ahead)
            self.deadline = Deadline(at, seconds, timeout, run, above, ahead)

    def now(self) -> float:
        return self._loop.time() + self.ahead

    @property
    def elapsed(self) -> float:
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
        """Raises TimeIsUp, for work that never awaits."""
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
        if self.deadline is not None:
            self.deadline.pause()
        try:
            yield
        finally:
            if self.deadline is not None:
                self.deadline.resume()


@dataclass(slots=True)
class Spent:
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
    """Number of such runs below, counted so that a model cannot start children without end."""
    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unpriced: str = ""
    """Agent that received a reply of unknown price; empty = none did."""
    spent: dict[str, Spent] = field(default_factory=dict)
    """Agent → its share, in order of first request."""

    @property
    def caps_cost(self) -> bool:
        return any(meter.limits.max_cost for meter in self._walk_up())

    def check(self, *, is_child: bool = False) -> None:
        """Checks that one more request may be sent, or one more child be started.

        Raises RunStopped if a cap of this run or of one above it has been reached, or the requests
        left are those of children that have already been started.
        """
        for meter in self._walk_up():
            caps, expected = meter.limits, meter.expected if is_child else 0
            if caps.max_requests and meter.requests + expected >= caps.max_requests:
                raise meter._make_stop("error", "max_requests", caps.max_requests, "requests")
            if caps.max_total_tokens and meter.tokens >= caps.max_total_tokens:
                most = caps.max_total_tokens
                raise meter._make_stop("max_tokens", "max_total_tokens", most, "tokens")
            if caps.max_cost and meter.dollars >= caps.max_cost:
                cost = format_dollars(caps.max_cost)
                raise meter._make_stop("error", "max_cost", cost, "dollars")
            if caps.max_cost and meter.unpriced:
                problem = f"the price of a reply to {meter.unpriced} is unknown"
                why = f"limits.max_cost of {meter.agent} cannot be enforced: {problem}"
                raise RunStopped("error", why)

    def child(self, agent: str, limits: TreeLimits, path: str = "") -> UsageMeter:
        for meter in self._walk_up():
            meter.expected += 1
        return UsageMeter(agent, limits, self, path, is_expected=True)

    def settle(self) -> None:
        """Stops counting the run as one that has yet to send its first request."""
        if self.is_expected and self.above is not None:
            self.is_expected = False
            for meter in self.above._walk_up():
                meter.expected -= 1

    def has_cap(self, cap: str) -> bool:
        """True if that cap, in words, applies to this run."""
        return any(
            cap == meter._format_key(key, format_dollars(most) if key == "max_cost" else most)
            for meter in self._walk_up()
            for key in ("max_requests", "max_total_tokens", "max_cost")
            for most in [getattr(meter.limits, key)]
        )

    def request(self, agent: str) -> None:
        self.settle()
        for meter in self._walk_up():
            meter.requests += 1
            meter.spent.setdefault(agent, Spent()).requests += 1

    def charge(self, agent: str, tokens: int, dollars: float | None = None) -> None:
        """Counts a response and its price; None = unknown."""
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

    def describe_overshoots(self) -> Iterator[str]:
        """Yields a line for each cap of this run that its last replies passed."""
        tokens, dollars = self.limits.max_total_tokens, self.limits.max_cost
        late = "what a request takes is known only when it is answered"
        if tokens and self.tokens > tokens:
            cap = f"limits.max_total_tokens ({tokens}) of {self.agent} exceeded"
            yield f"{cap}: {self.tokens} tokens; {late}"
        if dollars and self.dollars > dollars:
            cap = f"limits.max_cost ({format_dollars(dollars)}) of {self.agent} exceeded"
            yield f"{cap}: {format_dollars(self.dollars)}; {late}"

    def _make_stop(self, status: Status, key: str, most: int | str, unit: str) -> RunStopped:
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


class OverBudget(RunStopped):
    """Ends a tree whose next request would exceed the budget of the session."""


@dataclass(slots=True)
class Budget:
    """The spending of a session's runs since it began, and the most that they may spend in all.

    Recorded replies spend nothing. A reply of unknown price cannot be counted.
    """

    amount: float = 0.0
    spent: float = 0.0
    held: float = 0.0
    unpriced: dict[str, int] = field(default_factory=dict)
    """provider/model → number of replies whose price is unknown."""
    step: float = 0.0
    """US dollars that each approval adds to the amount."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """Held while counts change: the loops of several threads may run a session's runs."""

    def set(self, amount: float) -> None:
        self.amount = self.step = amount

    def has_room(self, dollars: float) -> bool:
        return not self.amount or self.spent + self.held + dollars <= self.amount

    def try_hold(self, dollars: float) -> bool:
        """Holds the price of a request; returns False if the budget would be exceeded."""
        with self.lock:
            if self.has_room(dollars):
                self.held += dollars
                return True
        return False

    def settle(self, held: float, model: str, usage: Usage | None) -> None:
        """Replaces the amount held for a request by its price; None = it was not answered."""
        with self.lock:
            self.held = max(0.0, self.held - held)
            if usage is None:
                return
            self.spent += usage.cost or 0.0
            if usage.cost is None and not model.startswith("script/"):
                self.unpriced[model] = self.unpriced.get(model, 0) + 1

    def describe_end(self, dollars: float) -> str:
        about = f" and {format_dollars(self.held)} in progress" if self.held else ""
        return (
            f"the budget of this session ({format_dollars(self.amount)}) would be exceeded: "
            f"{format_dollars(self.spent)} spent{about}, this request about "
            f"{format_dollars(dollars)} or more"
        )

    def find_next(self, dollars: float) -> float:
        """Returns the budget to offer the person, large enough for a request of that price."""
        missing = max(0.0, self.spent + self.held + dollars - self.amount)
        return self.amount + missing - missing % self.step + self.step


class SlotPool:
    """A limited number of slots, 0 = no limit; each also takes a slot of the pool above."""

    def __init__(self, most: int, above: SlotPool | None = None) -> None:
        self._slots = asyncio.Semaphore(most) if most else nullcontext()
        self._above = above

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Takes a slot for the block; waits for one if there is none."""
        async with self._slots, self._above.take() if self._above else nullcontext():
            yield


class InFlight:
    """Slots for the requests and calls in progress of a tree, or below a run with a lower limit.

    No slot is held while another of its kind is waited for: a request waits for nothing, and a
    call gives its slot back when it starts a child.
    """

    def __init__(self, most: int, above: InFlight | None = None) -> None:
        self.most = most
        self.requests: SlotPool = SlotPool(most, above.requests if above else None)
        self.calls: SlotPool = SlotPool(most, above.calls if above else None)

    def below(self, most: int) -> InFlight:
        """The slots of a child with this limit of its own: its parent's, unless it is lower."""
        return self if not most or 0 < self.most <= most else InFlight(most, self)


def estimate_tokens(system: str, tools: Iterable[ToolSpec], messages: Iterable[Message]) -> int:
    """Estimates the tokens of an exchange: a quarter of the UTF-8 bytes of what was said (D-18).

    Pictures count as the tokens that they cost.
    """
    texts, pictures = [system], 0
    for tool in tools:
        texts += tool.name, tool.description, dump(tool.input_schema()).decode()
    for message in messages:
        texts += message.content, *(result.content for result in message.tool_results)
        for call in message.tool_calls:
            texts += call.name, call.raw or dump(dict(call.arguments)).decode()
        pictures += sum(one.tokens for one in message.all_pictures())
    return sum(map(count_bytes, texts)) // 4 + pictures
