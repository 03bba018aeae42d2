"""One tool call: its function, in a task of its own, and the children that it starts.

A tool cannot block its run: when cancelled, it gets a short grace period and is then abandoned. No
child outlives the call that started it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, TypeAlias

from axe_nb.engine.current_call import inside_run
from axe_nb.engine.replay import PendingCall
from axe_nb.engine.scope import Env
from axe_nb.results import RunResult
from axe_nb.text import quote
from axe_nb.tools.tool import Job, Tool, ToolContext, ToolError, ToolOutput

TASK = "axe_nb: "

_left_behind: set[asyncio.Task[Any]] = set()
"""Tools that ignored cancellation; the event loop itself holds only weak references to tasks."""

RunCall: TypeAlias = Callable[[PendingCall], Awaitable[ToolOutput]]
"""One concern of a call: (call) → its output; asks the next link.

Raises whatever the tool raises, as a failure is an error result for the model; RunStopped if the
tree has been stopped.
"""

StartChild: TypeAlias = Callable[..., Coroutine[Any, Any, RunResult]]
"""(call, job, env=None) → the result of a child, whose dependencies are its caller's or `env`.

Raises ConfigError if the child cannot be started; ToolError if its key is invalid or used already,
or the tree may not send another request.
"""


def take_key(call: PendingCall, given: str | int | None) -> str:
    """Returns the key of a child among those of its call (D-59), by default the next number."""
    if given is None:
        given = next(free for free in count(len(call.keys)) if f"{free}" not in call.keys)
    key = f"{given}"
    if not re.fullmatch(r"[A-Za-z0-9_]{1,40}", key):  # ids have dots, dashes and slashes
        raise ToolError(f"{quote(key)} is not a valid key: use letters, digits and _")
    if key in call.keys:
        raise ToolError(f"this call already has a sub-agent with the key {quote(key)}")
    call.keys.add(key)
    return key


ENDED = "this call has ended and can no longer start a sub-agent"


class CallChildren:
    """The children that a tool starts; also from other threads, and never after its call."""

    def __init__(self, call: PendingCall, start_child: StartChild) -> None:
        self._call, self._start_child = call, start_child
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._tasks = set[asyncio.Task[RunResult]]()
        self._has_ended = False

    async def start(self, job: Job, env: Env | None = None) -> RunResult:
        """Runs a child to its end, always on the event loop of its call; see `StartChild`."""
        if self._has_ended or self._loop.is_closed():
            raise ToolError(ENDED)
        if os.getpid() != self._process:
            raise ToolError("a forked process can start no sub-agent of this call; use a thread")
        if asyncio.get_running_loop() is not self._loop:
            return await self._start_from_elsewhere(job, env)
        await self._call.slot.aclose()
        task = asyncio.create_task(self._start_child(self._call, job, env))
        self._tasks.add(task)
        # retrieved, in case no one awaits it any more
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
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
            while not (await asyncio.wait({waiting}, timeout=1.0))[0]:
                if self._loop.is_closed():
                    work.close()
                    raise ToolError(ENDED)
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        return waiting.result()

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
    name = task.get_name() if task else ""
    return name.removeprefix(TASK) if name.startswith(TASK) else ""


async def run_call(tool: Tool, context: ToolContext, children: CallChildren) -> object:
    """Runs a tool and returns its answer; its exceptions are passed on.

    If the call is cancelled, a tool that ignores this is abandoned.
    """

    async def work() -> tuple[object, BaseException | None]:
        try:
            with inside_run(context):
                return await tool.fn(context, context.call.arguments), None
        except BaseException as error:  # which could otherwise stop the event loop
            return None, error

    name = f"{TASK}tool {quote(context.call.name)} of agent {quote(context.agent.name)}"
    task = asyncio.create_task(work(), name=name)
    try:
        await asyncio.wait({task})  # the task itself would be cancelled, and waited for
    except asyncio.CancelledError:
        task.cancel()
        try:
            await children.end()
            await asyncio.wait({task}, timeout=0.1)  # to finish on its own
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
