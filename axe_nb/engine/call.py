"""One tool call: its function, in a task of its own, and the children that it starts.

A tool cannot block its run: when cancelled, it gets a short grace period and is then abandoned. No
child outlives the call that started it. Our own delegation tools end when they are cancelled, and
so do their children: they need no other task than that of the call.

A tool may ignore its context; code that it calls, even in a thread that inherits its context
variables, still belongs to the call: `axe_nb.run` there starts a child.
Source: D-1, D-5, D-8, D-57, D-58, D-59, A-11.*.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from axe_nb.agents.names import parse_model
from axe_nb.agents.workdir import check_confined, confine
from axe_nb.engine.meter import SlotPool
from axe_nb.engine.plan import Plan, make_plan
from axe_nb.engine.replay import LAST, CallOrder, order_child
from axe_nb.engine.scope import Env
from axe_nb.errors import AxeError, ConfigError
from axe_nb.events import Emit, events_of
from axe_nb.messages import ToolCall
from axe_nb.results import RunResult, RunStopped, Status
from axe_nb.text import quote
from axe_nb.tools.tool import Guard, Job, Tool, ToolContext, ToolError, ToolOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A tool call in progress."""

    context: ToolContext
    env: Env
    """Dependencies of its run."""
    start: Callable[[Job, Env], Coroutine[Any, Any, RunResult]]
    """(job, dependencies of the child and its descendants) → the child's result; may be awaited on
    any event loop."""


_caller: ContextVar[Caller | None] = ContextVar("axe_nb_caller")
"""Unset = no code of a run; None = code of a run, such as its model, but of none of its tools."""


def _leave_run() -> None:
    global _caller
    _caller = ContextVar("axe_nb_caller")


if hasattr(os, "register_at_fork"):  # in a forked process, nothing carries out the run any more
    os.register_at_fork(after_in_child=_leave_run)


def is_inside() -> bool:
    """True if the current code was called by a run, from one of its tools or models."""
    return _caller.get(...) is not ...


def calling() -> Caller | None:
    """The tool call that the current code belongs to; None outside of tools."""
    return _caller.get(None)


def refuse_in_tool(name: str) -> None:
    """Refuses a function whose runs would be no part of the tree of a tool that calls it.

    Raises:
        AxeError: a tool calls it.
    """
    if calling() is not None:
        raise AxeError(
            f"axe_nb.{name} was called inside a tool",
            hint="use `await ctx.delegate(…)` or `await axe_nb.arun(…)`, which the run's views "
            "show",
        )


class InsideRun:
    """Context manager for code of a run; hides the calls of enclosing runs."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _caller.set(None)

    def __exit__(self, *_: object) -> None:
        _caller.reset(self._before)


TASK = "axe_nb "
"""Prefix of the name of a tool's task, before the names of tool and agent."""

GRACE = 0.1
"""Seconds that a cancelled tool has to finish on its own."""

LOOK_EVERY = 1.0
"""Seconds after which a thread that waits for a child looks whether there still is a loop."""

ENDED = "this call has ended and can no longer start a sub-agent"

KEY = re.compile(r"[A-Za-z0-9_]{1,40}")
"""A key that a tool may give a child; run ids use dots, dashes and slashes themselves."""

_left_behind: set[asyncio.Task[Any]] = set()
"""Tools that ignored cancellation; the event loop itself holds only weak references to tasks."""


@dataclass(slots=True, kw_only=True, eq=False)
class PendingCall:
    """A call of a run on its way through the links, which complete it."""

    call: ToolCall
    number: int
    """Among all calls of the run, from 1 (D-59)."""
    turn: int
    """The turn that made it."""
    index: int
    """Position in its turn, from 0."""
    count: int
    """Number of calls of the turn."""
    ahead: float
    """Virtual seconds already elapsed."""
    arguments: Mapping[str, Any]
    """Those to run with."""
    tool: Tool = field(init=False)
    slot: AsyncExitStack = field(init=False)
    """Its slot of the calls in progress, closed when it starts a child: that may need one too."""
    keys: set[str] = field(default_factory=set)
    """Keys of its children."""
    guard: Guard = field(default_factory=Guard)
    """The needs of the call with these arguments."""
    is_edited: bool = False
    """True if the person has changed the arguments."""
    edited: Mapping[str, Any] | None = None
    """The arguments that ran instead of the model's; None = its own, or it was not authorised."""
    note: str = ""
    """The person's yes, for people."""
    is_skipped: bool = False
    has_begun: bool = False
    """True once its tool is run."""

    def take_key(self, given: str | int | None) -> str:
        """Reserves the key of a child."""
        if given is None:
            given = next(free for free in count(len(self.keys)) if f"{free}" not in self.keys)
        if isinstance(given, str) and not KEY.fullmatch(given):
            raise ToolError(f"{quote(given)} is not a valid key: use letters, digits and _")
        if not isinstance(given, str) and (type(given) is not int or not 0 <= given < LAST):
            expected = f"a key must be a string or an integer from 0 to {LAST - 1}"
            raise ToolError(f"{expected}; got one of type {type(given).__name__}")
        key = f"{given}"
        if key in self.keys:
            raise ToolError(f"this call already has a sub-agent with the key {quote(key)}")
        self.keys.add(key)
        return key


class CallLink(Protocol):
    """One concern of a call; asks the next link."""

    async def run(self, call: PendingCall) -> ToolOutput:
        """Returns the output of the call.

        Raises:
            Exception: whatever the tool raises; a failure is an error result for the model.
            RunStopped: the tree has been stopped.
        """


class Child(Protocol):
    """A started run."""

    result: RunResult | None

    async def execute(self) -> RunResult:
        """As `Run.execute`."""

    def break_off(self, status: Status, error: str, emit: Emit) -> RunResult:
        """As `Run.break_off`."""


class Children:
    """The children of one run: loaded, started one level deeper, and kept in call order."""

    def __init__(self, plan: Plan, begin: Callable[[Plan], Child]) -> None:
        """Creates an empty collection."""
        self._scope = plan.scope
        self._workdir = plan.briefing.workdir
        self._begin = begin
        self._runs: dict[CallOrder, Child | RunResult] = {}
        """The children; a result is that of a run that a fork has taken from the one it forks."""
        self._slots = SlotPool(plan.agent.sub_agents_config.max_concurrent)

    async def start(self, call: PendingCall, job: Job, env: Env | None = None) -> RunResult:
        """Runs a child to its end.

        Raises:
            ConfigError: the child cannot be started.
            ToolError: the key is invalid, or another child of the call already uses it; or the tree
                may not send another request.
        """
        env = env or self._scope.env
        key = call.take_key(job.key)
        id = f"{self._scope.id}.{call.number}" + ("" if key == "0" else f"-{key}")
        async with self._slots.take():
            try:
                self._scope.admit(f"{id}/0")
            except RunStopped as stop:
                raise ToolError(f"not run: {stop}") from None
            return await self._run(call, job, env, id)

    async def _run(self, call: PendingCall, job: Job, env: Env, id: str) -> RunResult:
        try:
            found = env.agents.load(job.agent) if isinstance(job.agent, str) else job.agent
        except ConfigError as error:
            name = quote(f"{job.agent}")
            raise ConfigError(f"failed to load agent {name}: {error}") from None
        agent, job = env.adapt(id, env.as_child(found), job)
        agent = confine(agent, self._workdir, env.workdir, env.defined)
        try:
            parse_model(agent.model)
        except ConfigError as error:
            name = quote(agent.name)
            raise ConfigError(f"invalid model for agent {name}: {error}") from None
        scope = self._scope.child(agent, job, env, id=id, call_id=call.call.id, ahead=call.ahead)
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
            call.ahead = max(call.ahead, scope.clock.ahead)
            self._scope.clock.ahead = max(self._scope.clock.ahead, call.ahead)

    def adopt(self, child: RunResult, depth: int) -> None:
        """Takes a child of the run that this one forks, as it is, with all below it."""
        self._runs[order_child(child.id)] = child
        for event in events_of(child, self._scope.id, depth):
            self._scope.env.emit(event)

    def results(self) -> tuple[RunResult, ...]:
        """Results of the children that have ended, in call order."""
        ended = (run if isinstance(run, RunResult) else run.result for run in self._list_runs())
        return tuple(result for result in ended if result is not None)

    def break_off(self, status: Status, error: str, emit: Emit) -> tuple[RunResult, ...]:
        """Results of all children, ending the unfinished ones; may be called from any thread."""
        return tuple(
            run if isinstance(run, RunResult) else run.result or run.break_off(status, error, emit)
            for run in self._list_runs()
        )

    def _list_runs(self) -> list[Child | RunResult]:
        runs = self._runs.copy()  # at once: this may be another thread
        return [runs[order] for order in sorted(runs)]


class CallChildren:
    """The children started by one call."""

    def __init__(self, call: PendingCall, children: Children) -> None:
        self._call = call
        self._children = children
        self._loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Task[RunResult]]()
        self._has_ended = False

    async def start(self, job: Job, env: Env | None = None) -> RunResult:
        """Runs a child to its end, always on the event loop of its call.

        Args:
            job: the child's task and limits.
            env: dependencies of the child and its descendants; None = those of the call's run.

        Raises:
            ToolError: the call has ended.
            ConfigError: the child cannot be started.
        """
        if self._has_ended or self._loop.is_closed():
            raise ToolError(ENDED)
        if asyncio.get_running_loop() is not self._loop:
            return await self._start_from_elsewhere(job, env)
        await self._call.slot.aclose()
        task = asyncio.create_task(self._children.start(self._call, job, env))
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return await task

    async def _start_from_elsewhere(self, job: Job, env: Env | None) -> RunResult:
        """Like `start`, on the event loop of another thread.

        The caller may close the loop of the call meanwhile, with all that was to run on it.
        """
        work = self.start(job, env)
        try:
            waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except RuntimeError:
            work.close()
            raise ToolError(ENDED) from None
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK_EVERY))[0]:
                if self._loop.is_closed():
                    work.close()
                    raise ToolError(ENDED)
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        return waiting.result()

    def _note_end(self, task: asyncio.Task[RunResult]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, in case no one awaits it any more

    async def end(self) -> None:
        """Cancels the children that are still running, and waits for them even if cancelled."""
        self._has_ended = True
        stop: asyncio.CancelledError | None = None
        for task in self._tasks:
            task.cancel()
        while pending := [task for task in self._tasks if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError as cancelled:
                stop = cancelled
        if stop is not None:
            raise stop


def blocking_call(loop: asyncio.AbstractEventLoop) -> str:
    """The tool call that blocks an event loop, for display; empty if it is not a tool call."""
    task = asyncio.current_task(loop)
    name = task.get_name() if task is not None else ""
    if not name.startswith(TASK):
        return ""
    tool, _, agent = name.removeprefix(TASK).partition("\n")
    return f"tool {quote(tool)} of agent {quote(agent)}"


async def run_call(tool: Tool, context: ToolContext, children: CallChildren, env: Env) -> object:
    """Runs a tool's function and returns its answer.

    Raises:
        asyncio.CancelledError: the call was cancelled; a tool that ignores this is abandoned.
        BaseException: any other exception raised by the tool.
    """

    async def work() -> tuple[object, BaseException | None]:
        _caller.set(Caller(context=context, env=env, start=children.start))
        try:
            return await tool.fn(context, context.call.arguments), None
        except BaseException as error:  # which could otherwise stop the event loop
            return None, error

    name = f"{TASK}{context.call.name}\n{context.agent.name}"
    task = asyncio.create_task(work(), name=name)
    try:
        await asyncio.wait({task})  # awaiting the task itself would cancel it, and wait for it
    except asyncio.CancelledError:
        task.cancel()
        try:
            await children.end()
            await asyncio.wait({task}, timeout=GRACE)
        finally:
            if not task.done():  # it ignores the cancellation, and goes on alone
                _left_behind.add(task)
                task.add_done_callback(_left_behind.discard)
        raise
    await children.end()
    answer, fault = task.result()
    if fault is not None:
        raise fault
    return answer
