"""Execution of one tool call: its function, in a task of its own, and the children it starts.

A tool cannot block its run: when cancelled, it gets a short grace period and is then abandoned. No
child outlives the call that started it. Our own delegation tools end when they are cancelled, and
so do their children: they need no other task than that of the call.

A tool may ignore its context; code that it calls, even in a thread that inherits its context
variables, still belongs to the call: `axe_nb.run` there starts a child.
Source: D-8, D-57, D-58.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from axe_nb.engine.scope import Env
from axe_nb.errors import AxeError
from axe_nb.limits import SlotPool
from axe_nb.messages import ToolCall
from axe_nb.results import RunResult
from axe_nb.text import quote
from axe_nb.tools.tool import Guard, Job, Tool, ToolContext, ToolError, ToolOutput

StartBelow: TypeAlias = Callable[[Job, Env], Coroutine[Any, Any, RunResult]]
"""(job, dependencies of the child and its descendants) → the child's result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A tool call in progress."""

    context: ToolContext
    env: Env
    """Dependencies of its run."""
    start: StartBelow
    """Runs a child; may be awaited on any event loop."""


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


def enter_call(caller: Caller) -> None:
    """Marks the rest of the current task as part of a tool call."""
    _caller.set(caller)


TASK = "axe_nb "
"""Prefix of the name of a tool's task, before the names of tool and agent."""

GRACE = 0.1
"""Seconds that a cancelled tool has to finish on its own."""

LOOK_EVERY = 1.0
"""Seconds after which a thread that waits for a child looks whether there still is a loop."""

ENDED = "this call has ended and can no longer start a sub-agent"

_left_behind: set[asyncio.Task[None]] = set()
"""Tools that ignored cancellation; the event loop itself holds only weak references to tasks."""


class CallSlot:
    """The slot of one call in progress, given back once: at its end or when it starts a child."""

    def __init__(self, slots: SlotPool) -> None:
        """Creates the slot, which `slots` has given."""
        self._slots: SlotPool | None = slots

    def release(self, _: object = None) -> None:
        """Gives the slot back, if it is still held."""
        if self._slots is not None:
            self._slots.release()
            self._slots = None


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
    slot: CallSlot
    """Its own: children that need one must not wait for it."""
    arguments: Mapping[str, Any]
    """Those to run with."""
    tool: Tool = field(init=False)
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


class CallLink(Protocol):
    """One concern of a call; asks the next link."""

    async def run(self, call: PendingCall) -> ToolOutput:
        """Returns the output of the call.

        Raises:
            Exception: whatever the tool raises; a failure is an error result for the model.
            RunStopped: the tree has been stopped.
        """


StartChild: TypeAlias = Callable[[PendingCall, Job, Env | None], Coroutine[Any, Any, RunResult]]
"""(call, job, dependencies of the child; None = those of its run) → the child's result."""


class CallChildren:
    """The children started by one call."""

    def __init__(self, call: PendingCall, start_child: StartChild) -> None:
        self._call = call
        self._start_child = start_child
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
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
        if os.getpid() != self._process:
            raise ToolError("a forked process can start no sub-agent of this call; use a thread")
        if asyncio.get_running_loop() is not self._loop:
            return await self._start_from_elsewhere(job, env)
        self._call.slot.release()
        task = asyncio.create_task(self._start_child(self._call, job, env))
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

    def start_here(self, job: Job) -> Coroutine[Any, Any, RunResult]:
        """Runs a child to its end in the task of its call, for a tool that only awaits it."""
        self._call.slot.release()
        return self._start_child(self._call, job, None)

    def _note_end(self, task: asyncio.Task[RunResult]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, in case no one awaits it any more

    async def end(self) -> None:
        """Cancels the children that are still running, and waits for them even if cancelled."""
        self._has_ended = True
        stop: asyncio.CancelledError | None = None
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        while pending := {task for task in tasks if not task.done()}:
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
    ended: asyncio.Future[tuple[object, BaseException | None]]
    ended = asyncio.get_running_loop().create_future()

    async def work() -> None:
        enter_call(Caller(context=context, env=env, start=children.start))
        answer: object = None
        fault: BaseException | None = None
        try:
            answer = await tool.fn(context, context.call.arguments)
        except BaseException as error:  # which could otherwise stop the event loop
            fault = error
        if not ended.done():
            ended.set_result((answer, fault))

    name = f"{TASK}{context.call.name}\n{context.agent.name}"
    task = asyncio.create_task(work(), name=name)
    try:
        answer, fault = await ended  # the task itself would be cancelled, and waited for
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
    if fault is not None:
        raise fault
    return answer
