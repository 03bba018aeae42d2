"""The children of one run: found, begun one level deeper, and kept in the order of their calls.

Source: D-1, D-5, D-57, D-59; seed 000 §3.11 (A-11.*), §3.13.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import count
from typing import Protocol, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.names import parse_model
from axe_nb.engine.plan import Plan, make_plan
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ConfigError
from axe_nb.events import Emit, RunResult, Status
from axe_nb.messages import ToolCall
from axe_nb.text import quote
from axe_nb.tools.tool import Job, ToolError

KEY = re.compile(r"[A-Za-z0-9_]{1,40}")
"""What a tool may tell its children apart by: a place has dots, dashes and slashes of its own."""

LAST = 1_000_000
"""Children that a tool names come after those that it numbers, in the order of their names."""


Order: TypeAlias = "tuple[int, int, str]"
"""(number of the call, position among its children, name): what results are sorted by."""


class Child(Protocol):
    """A run that has begun."""

    plan: Plan
    result: RunResult | None

    async def execute(self) -> RunResult:
        """As `Run.execute`."""

    def break_off(self, status: Status, error: str, emit: Emit) -> RunResult:
        """As `Run.break_off`."""


class Children:
    """Starts the children of one run."""

    def __init__(self, scope: RunScope, begin: Callable[[Plan], Child]) -> None:
        """Has none yet.

        Args:
            scope: the parent's.
            begin: makes a run of a plan, which tells the views that it begins.
        """
        self._scope = scope
        self._begin = begin
        self._runs: dict[Order, Child] = {}
        """(number of the call, place among its children, key) → child."""
        self._keys: dict[int, set[str]] = {}
        """Number of a call → keys of its children so far."""
        self._ahead: dict[int, float] = {}
        """Number of a call → virtual seconds when its last child ended."""
        cap = scope.agent.sub_agents_config.max_concurrent
        self._slots: AbstractAsyncContextManager[object] = (
            asyncio.Semaphore(cap) if cap else nullcontext()
        )

    async def start(self, call: ToolCall, number: int, ahead: float, job: Job) -> RunResult:
        """Runs a child to its end.

        Raises:
            ConfigError: it cannot begin.
            ToolError: another child of the call has its key.
        """
        key, order = self._key(number, job.key)
        try:
            return await self._start(call, number, ahead, job, key, order)
        except ConfigError:
            self._release(number, order)
            raise

    async def _start(
        self, call: ToolCall, number: int, ahead: float, job: Job, key: str, order: Order
    ) -> RunResult:
        agent = self._named(job.agent) if isinstance(job.agent, str) else job.agent
        agent = self._scope.env.as_child(agent)
        try:
            parse_model(agent.model)
        except ConfigError as error:
            name = quote(agent.name)
            raise ConfigError(f"invalid model for agent {name}: {error}") from None
        async with self._slots:
            ahead = max(ahead, self._ahead.get(number, ahead))
            scope = self._scope.child(agent, job, call=call, key=key, ahead=ahead)
            child = self._begin(await make_plan(scope, job))
            self._runs[order] = child
            try:
                return await child.execute()
            finally:
                after = scope.clock.ahead
                self._ahead[number] = max(after, self._ahead.get(number, ahead))
                self._scope.clock.ahead = max(self._scope.clock.ahead, after)

    def results(self) -> tuple[RunResult, ...]:
        """The results of those that have ended, in the order of their calls."""
        return tuple(run.result for run in self.runs if run.result)

    def break_off(self, status: Status, error: str, emit: Emit) -> tuple[RunResult, ...]:
        """The results of all, also of those that have not ended; may be called in any thread."""
        return tuple(run.result or run.break_off(status, error, emit) for run in self.runs)

    @property
    def runs(self) -> list[Child]:
        """Those that have begun, in the order of their calls; may be asked from any thread."""
        runs = self._runs.copy()
        return [runs[order] for order in sorted(runs)]

    def _key(self, number: int, given: str | int | None) -> tuple[str, Order]:
        """A child's part of its place (D-59), and what its results are sorted by.

        Raises:
            ToolError: the key is none, or taken.
        """
        taken = self._keys.setdefault(number, set())
        if given is None:
            given = next(free for free in count(len(taken)) if f"{free}" not in taken)
        if isinstance(given, str) and not KEY.fullmatch(given):
            raise ToolError(f"{quote(given)} is not a valid key: use letters, digits and _")
        if not isinstance(given, str) and (type(given) is not int or not 0 <= given < LAST):
            wanted = "a key is a text, or a position from 0"
            raise ToolError(f"{wanted}; this one is of type {type(given).__name__}")
        own = f"{given}"
        if own in taken:
            raise ToolError(f"this call has a sub-agent with the key {quote(own)} already")
        taken.add(own)
        order = (number, given, "") if isinstance(given, int) else (number, LAST, given)
        return (f"{number}-{own}" if own != "0" else f"{number}"), order

    def _release(self, number: int, order: Order) -> None:
        """Frees the key of a child that could not begin."""
        if order not in self._runs:
            _, position, name = order
            self._keys[number].discard(name or f"{position}")

    def _named(self, name: str) -> Agent:
        try:
            return self._scope.env.load_agent(name)
        except ConfigError as error:
            raise ConfigError(f"failed to load agent {quote(name)}: {error}") from None
