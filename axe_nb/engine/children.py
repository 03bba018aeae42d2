"""The children of one run: loaded, started one level deeper, and kept in call order.

Source: D-1, D-5, D-57, D-59, A-11.*.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from itertools import count
from typing import Protocol

from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import check_confined, confine
from axe_nb.engine.call import PendingCall
from axe_nb.engine.place import LAST, CallOrder, order_child
from axe_nb.engine.plan import Plan, make_plan
from axe_nb.engine.scope import Env
from axe_nb.errors import ConfigError
from axe_nb.events import Emit, events_of
from axe_nb.limits import RunStopped, SlotPool
from axe_nb.results import RunResult, Status
from axe_nb.text import quote
from axe_nb.tools.tool import Job, ToolError

KEY = re.compile(r"[A-Za-z0-9_]{1,40}")
"""A key that a tool may give a child; run ids use dots, dashes and slashes themselves."""


class Child(Protocol):
    """A started run."""

    result: RunResult | None

    async def execute(self) -> RunResult:
        """As `Run.execute`."""

    def break_off(self, status: Status, error: str, emit: Emit) -> RunResult:
        """As `Run.break_off`."""


class Children:
    """Starts the children of one run."""

    def __init__(self, plan: Plan, begin: Callable[[Plan], Child]) -> None:
        """Creates an empty collection."""
        self._scope = plan.scope
        self._workdir = plan.briefing.workdir
        self._begin = begin
        self._runs: dict[CallOrder, Child | RunResult] = {}
        """The children; a result is that of a run that a fork has taken from the one it forks."""
        self._keys: dict[int, set[str]] = {}
        """Number of a call → keys already used by its children."""
        self._ahead: dict[int, float] = {}
        """Number of a call → virtual time, in seconds, at which its last child ended."""
        self._slots = SlotPool(plan.agent.sub_agents_config.max_concurrent)

    async def start(self, call: PendingCall, job: Job, env: Env | None = None) -> RunResult:
        """Runs a child to its end.

        Raises:
            ConfigError: the child cannot be started.
            ToolError: the key is invalid, or another child of the call already uses it; or the tree
                may not send another request.
        """
        key = self._take_key(call.number, job.key)
        id = f"{self._scope.id}.{call.number}" + ("" if key == "0" else f"-{key}")
        try:
            self._scope.admit(f"{id}/0")  # cheap where a model makes calls without end
            return await self._start(call, job, env or self._scope.env, id)
        except RunStopped as stop:
            raise ToolError(f"not run: {stop}") from None
        finally:
            if order_child(id) not in self._runs:  # it could not be started
                self._keys[call.number].discard(key)

    async def _start(self, call: PendingCall, job: Job, env: Env, id: str) -> RunResult:
        try:
            found = env.agents.load(job.agent) if isinstance(job.agent, str) else job.agent
        except ConfigError as error:
            name = quote(f"{job.agent}")
            raise ConfigError(f"failed to load agent {name}: {error}") from None
        agent = env.as_child(found)
        agent, job = env.adapt(id, agent, job)
        agent = confine(agent, self._workdir, env.workdir, env.defined)
        try:
            parse_model(agent.model)
        except ConfigError as error:
            name = quote(agent.name)
            raise ConfigError(f"invalid model for agent {name}: {error}") from None
        async with self._slots:
            ahead = max(call.ahead, self._ahead.get(call.number, call.ahead))
            self._scope.admit(f"{id}/0")
            scope = self._scope.child(agent, job, env, id=id, call_id=call.call.id, ahead=ahead)
            try:
                scope.clock.check()
                plan = await make_plan(scope, job)
                workdir = plan.briefing.workdir
                if workdir != self._workdir:
                    check_confined(agent, workdir, env.workdir, env.defined)
                await asyncio.sleep(0)  # all that are parallel begin before one of them ends
                child = self._runs[order_child(id)] = self._begin(plan)
                return await child.execute()
            finally:
                scope.meter.settle()
                after = scope.clock.ahead
                self._ahead[call.number] = max(after, self._ahead.get(call.number, ahead))
                self._scope.clock.ahead = max(self._scope.clock.ahead, after)

    def adopt(self, child: RunResult, depth: int) -> None:
        """Takes a child of the run that this one forks, as it is, with all below it."""
        self._runs[order_child(child.id)] = child
        for event in events_of(child, self._scope.id, depth):
            self._scope.env.emit(event)

    def results(self) -> tuple[RunResult, ...]:
        """Results of the children that have ended, in call order."""
        ended = (run if isinstance(run, RunResult) else run.result for run in self.runs)
        return tuple(result for result in ended if result is not None)

    def break_off(self, status: Status, error: str, emit: Emit) -> tuple[RunResult, ...]:
        """Results of all children, ending the unfinished ones; may be called from any thread."""
        return tuple(
            run if isinstance(run, RunResult) else run.result or run.break_off(status, error, emit)
            for run in self.runs
        )

    @property
    def runs(self) -> list[Child | RunResult]:
        """The started children, in call order; may be read from any thread."""
        runs = self._runs.copy()
        return [runs[order] for order in sorted(runs)]

    def _take_key(self, number: int, given: str | int | None) -> str:
        """Reserves the key of a child of that call."""
        taken = self._keys.setdefault(number, set())
        if given is None:
            given = next(free for free in count(len(taken)) if f"{free}" not in taken)
        if isinstance(given, str) and not KEY.fullmatch(given):
            raise ToolError(f"{quote(given)} is not a valid key: use letters, digits and _")
        if not isinstance(given, str) and (type(given) is not int or not 0 <= given < LAST):
            expected = f"a key must be a string or an integer from 0 to {LAST - 1}"
            raise ToolError(f"{expected}; got one of type {type(given).__name__}")
        key = f"{given}"
        if key in taken:
            raise ToolError(f"this call already has a sub-agent with the key {quote(key)}")
        taken.add(key)
        return key
