"""One tool call under way: its function in a task of its own, and the children that it starts.

A tool cannot hold up its run: cancelled, it gets a short grace and is then left behind. No child
outlives the call that started it.
Source: D-8, D-57, D-58.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from axe_nb.engine.nesting import enter_call
from axe_nb.events import RunResult
from axe_nb.tools.tool import Job, ToolContext, ToolError, fault_text

TASK = "axe_nb "
"""Begins the name of a tool's task."""

GRACE = 0.1
"""Seconds that a cancelled tool gets to end by itself."""

StartChild: TypeAlias = Callable[[Job], Awaitable[RunResult]]

_left_behind: set[asyncio.Task[_Outcome]] = set()
"""Tools that ignored being cancelled; the event loop itself holds tasks only weakly."""


@dataclass(slots=True)
class CallChildren:
    """The children that one call has started."""

    start_child: StartChild
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _tasks: set[asyncio.Task[RunResult]] = field(default_factory=set)
    _has_ended: bool = False

    async def start(self, job: Job) -> RunResult:
        """Runs a child to its end, on the event loop of its call whatever loop it is asked on.

        Raises:
            ToolError: the call is over.
            ConfigError: the child cannot begin.
        """
        if self._has_ended or self._loop.is_closed():
            raise ToolError("this call has ended, so it cannot start a sub-agent any more")
        if asyncio.get_running_loop() is not self._loop:
            there = asyncio.run_coroutine_threadsafe(self.start(job), self._loop)
            return await asyncio.wrap_future(there)
        task = asyncio.create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return await task

    async def _run(self, job: Job) -> RunResult:
        return await self.start_child(job)

    def _note_end(self, task: asyncio.Task[RunResult]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left who asks for it

    async def end(self) -> None:
        """Cancels the children that still run, and waits for their results."""
        self._has_ended = True
        for task in self._tasks:
            task.cancel()
        await _ended(set(self._tasks))


@dataclass(slots=True)
class _Outcome:
    """The end of a tool's function: its answer, or what it raised."""

    answer: object = None
    error: BaseException | None = None


def blocking_call(loop: asyncio.AbstractEventLoop) -> str:
    """The call that keeps an event loop from answering, for people; empty = it is none of ours."""
    task = asyncio.current_task(loop)
    name = task.get_name() if task is not None else ""
    return name.removeprefix(TASK) if name.startswith(TASK) else ""


async def run_call(
    work: Callable[[ToolContext], Awaitable[object]],
    context: ToolContext,
    children: CallChildren,
    name: str,
) -> object:
    """The tool's answer.

    Args:
        work: the tool's function.
        context: its only argument.
        children: those that the context starts.
        name: of the call, for people.

    Raises:
        asyncio.CancelledError: the call was cancelled; a tool that ignores it is left behind.
        BaseException: whatever else the tool raised.
    """
    task = asyncio.create_task(_outcome(work, context), name=TASK + name)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        try:
            await children.end()
            await asyncio.wait({task}, timeout=GRACE)
        finally:
            _leave_behind(task)
        raise
    await children.end()
    outcome = task.result()
    if outcome.error is not None:
        raise outcome.error
    return outcome.answer


async def _outcome(
    work: Callable[[ToolContext], Awaitable[object]], context: ToolContext
) -> _Outcome:
    """What the function comes to; an exception of any class would else stop the event loop."""
    enter_call(context)
    try:
        return _Outcome(await work(context))
    except GeneratorExit as error:  # as it is, it would end the run too
        return _Outcome(error=ToolError(fault_text(error)))
    except BaseException as error:
        return _Outcome(error=error)


async def _ended(tasks: set[asyncio.Task[RunResult]]) -> None:
    """Waits for all of them, also if it is cancelled meanwhile; that is raised afterwards."""
    stop: asyncio.CancelledError | None = None
    while pending := {task for task in tasks if not task.done()}:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as cancelled:
            stop = cancelled
    if stop is not None:
        raise stop


def _leave_behind(task: asyncio.Task[_Outcome]) -> None:
    """Lets a tool that ignores being cancelled go on, with nobody waiting for it."""
    if not task.done():
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)
