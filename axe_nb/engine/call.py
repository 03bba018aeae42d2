"""Runs a tool call in its own task, together with the child runs that the tool starts.

A tool that ignores cancellation is abandoned after a short grace period. No child outlives the call
that started it. A context variable, which tasks and threads of `in_thread` inherit, holds the
current call, so that `axe_nb.run` in a tool starts a child run (D-57).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeAlias

from axe_nb.engine.replay import PendingCall
from axe_nb.engine.scope import Env
from axe_nb.errors import AxeError
from axe_nb.results import RunResult
from axe_nb.text import quote
from axe_nb.tools.tool import Job, Tool, ToolContext, ToolError, ToolOutput

_caller: ContextVar[ToolContext | None] = ContextVar("axe_nb_caller")
"""Context of the current tool call; None outside of tools, and unset outside of runs."""


def is_inside() -> bool:
    """True if the current code is called by a run, for example as part of a tool."""
    return _caller.get(...) is not ...


def calling() -> ToolContext | None:
    """Returns the context of the current tool call, or None outside of tools."""
    return _caller.get(None)


def refuse_in_tool(name: str) -> None:
    """Raises AxeError if the current code runs inside a tool.

    `name` is the function of `axe_nb` that was called; its runs would not belong to the tool's run
    tree.
    """
    if calling() is not None:
        step = "use `await ctx.delegate(…)` or `await axe_nb.arun(…)`, which the run's views show"
        raise AxeError(f"axe_nb.{name} was called inside a tool", hint=step)


@contextmanager
def inside_run(caller: ToolContext | None = None) -> Iterator[None]:
    """Marks the block as part of a run, or as part of a tool call if `caller` is its context."""
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)


TASK = "axe_nb: "

_left_behind: set[asyncio.Task[Any]] = set()
"""Tasks of tools that ignored cancellation; without this set they could be garbage-collected."""

RunCall: TypeAlias = Callable[[PendingCall], Awaitable[ToolOutput]]
"""Function that returns the output of a tool call; handlers of this type form a chain.

Raises the tool's own exceptions, which become error results, and RunStopped if the tree is stopped.
"""

StartChild: TypeAlias = Callable[..., Coroutine[Any, Any, RunResult]]
"""Function, called as `start(call, job, env=None)`, that runs a child and returns its result.

`env` defaults to the caller's. Raises ConfigError if the child cannot be started, and ToolError if
its key is invalid or taken, or if a cap of the tree forbids another child.
"""


def take_key(call: PendingCall, given: str | int | None) -> str:
    """Reserves and returns a child's key in its call (D-59), by default the next free number.

    Raises ToolError if the key is invalid or taken.
    """
    if given is None:
        given = next(free for free in count(len(call.keys)) if f"{free}" not in call.keys)
    key = f"{given}"
    if not re.fullmatch(r"[A-Za-z0-9_]{1,40}", key):  # ids use dots, dashes and slashes
        raise ToolError(f"{quote(key)} is not a valid key: use letters, digits and _")
    if key in call.keys:
        raise ToolError(f"this call already has a sub-agent with the key {quote(key)}")
    call.keys.add(key)
    return key


ENDED = "this call has ended and can no longer start a sub-agent"


class CallChildren:
    """Child runs of a tool call; any thread may start a child until the call has ended."""

    def __init__(self, call: PendingCall, start_child: StartChild) -> None:
        self._call, self._start_child = call, start_child
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._tasks = set[asyncio.Task[RunResult]]()
        self._has_ended = False

    async def start(self, job: Job, env: Env | None = None) -> RunResult:
        """Runs a child to completion on the event loop of the call, and returns its result.

        Raises ToolError if the call has ended or this process is a fork, and the errors of
        `StartChild`.
        """
        if self._has_ended or self._loop.is_closed():
            raise ToolError(ENDED)
        if os.getpid() != self._process:
            raise ToolError("a forked process cannot start a sub-agent of this call; use a thread")
        if asyncio.get_running_loop() is not self._loop:
            return await self._start_from_elsewhere(job, env)
        await self._call.slot.aclose()
        task = asyncio.create_task(self._start_child(self._call, job, env))
        self._tasks.add(task)
        # retrieves the exception, in case no one awaits the task
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await task

    async def _start_from_elsewhere(self, job: Job, env: Env | None) -> RunResult:
        work = self.start(job, env)
        try:
            waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except RuntimeError:  # the loop of the call may be closed at any time
            work.close()
            raise ToolError(ENDED) from None
        try:
            while not (await asyncio.wait({waiting}, timeout=1.0))[0]:
                if self._loop.is_closed():
                    work.close()
                    raise ToolError(ENDED)
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        return waiting.result()

    async def end(self) -> None:
        """Cancels the running children and waits for them to end, even if the wait is cancelled."""
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
    """Returns a label for the tool call that an event loop is executing; empty if there is none."""
    task = asyncio.current_task(loop)
    name = task.get_name() if task else ""
    return name.removeprefix(TASK) if name.startswith(TASK) else ""


async def run_call(tool: Tool, context: ToolContext, children: CallChildren) -> object:
    """Runs a tool and returns its value. If cancelled, abandons a tool that does not stop."""

    async def work() -> tuple[object, BaseException | None]:
        try:
            with inside_run(context):
                return await tool.fn(context, context.call.arguments), None
        except BaseException as error:  # could otherwise stop the event loop
            return None, error

    name = f"{TASK}tool {quote(context.call.name)} of agent {quote(context.agent.name)}"
    task = asyncio.create_task(work(), name=name)
    try:
        await asyncio.wait({task})  # awaiting the task itself would cancel it
    except asyncio.CancelledError:
        task.cancel()
        try:
            await children.end()
            await asyncio.wait({task}, timeout=0.1)  # time to finish on its own
        finally:
            if not task.done():  # it ignores the cancellation
                _left_behind.add(task)
                task.add_done_callback(_left_behind.discard)
        raise
    await children.end()
    answer, fault = task.result()
    if fault is not None:
        raise fault
    return answer
