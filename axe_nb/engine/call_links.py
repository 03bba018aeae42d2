"""The links between a model's call and its tool, each with one concern: `run(call)` → the output.

`Told` tells the views and turns failures into results, `Authorised` asks policy, guard and person,
`ToolRun` runs the tool. `replays.py` and `stepping.py` have those that may answer first.
Source: A-11.*, D-3, D-7, D-48.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from axe_nb.conversion.jsonable import copy_json
from axe_nb.delegation.ctx_delegate import delegate
from axe_nb.engine.ask_person import has_person
from axe_nb.engine.authorize import Authorizer
from axe_nb.engine.call import CallChildren, CallLink, PendingCall, run_call
from axe_nb.engine.children import Children
from axe_nb.engine.pictures import PictureRoom
from axe_nb.engine.scope import RunScope
from axe_nb.engine.toolset import Toolset
from axe_nb.errors import words
from axe_nb.events import ToolFinished, ToolStarted
from axe_nb.limits import RunStopped
from axe_nb.messages import ToolCall, ToolResult, dump
from axe_nb.results import RunResult
from axe_nb.text import cut_bytes, quote
from axe_nb.tools.output import limit_output, output_of
from axe_nb.tools.tool import (
    FileLog,
    Job,
    PermissionDenied,
    ToolContext,
    ToolError,
    ToolOutput,
    fault_text,
)

MAX_EDIT = 4096
"""Bytes shown to the model of arguments that the person edited."""


@dataclass(slots=True, kw_only=True, eq=False)
class RunCalls:
    """The calls of one run, and what they share."""

    scope: RunScope
    toolset: Toolset
    workdir: Path
    children: Children
    pictures: PictureRoom
    """The room for pictures in the run's conversation."""
    file_log: FileLog
    authorizer: Authorizer
    count: int = 0
    """Number of calls executed so far."""


class TopLink(Protocol):
    """A link whose outcome goes to the model."""

    async def run(self, call: PendingCall) -> ToolResult:
        """Returns the result of the call.

        Raises:
            RunStopped: the tree has been stopped.
        """


@dataclass(slots=True)
class Told:
    """Tells the views of a call; a failure becomes an error result (A-13.1), a stop is raised."""

    made: RunCalls
    next: CallLink

    async def run(self, call: PendingCall) -> ToolResult:
        """See `TopLink`."""
        scope, asked = self.made.scope, call.call
        scope.clock.check()  # the timer does not fire before all calls have begun
        scope.env.halt.check()
        began, started = scope.seconds, time.monotonic()
        self.made.count += 1
        scope.env.emit(ToolStarted(scope.id, asked))
        tool = self.made.toolset.find(asked.name)
        if tool is None:
            content = f"Unknown tool: {quote(asked.name)}"
            result = ToolResult(asked.id, content, is_error=True, name=asked.name)
        else:
            call.tool, has_ended = tool, False
            try:
                result = await self._answer(call)
                has_ended = True
            finally:
                if has_ended or call.has_begun:  # else it was cut while it was asked for
                    scope.note("tool", began, call=asked.id)
        scope.env.emit(ToolFinished(scope.id, result, time.monotonic() - started))
        if scope.env.halt.stop is not None:  # below this call; it is the end of all
            scope.env.halt.check()
        return result

    async def _answer(self, call: PendingCall) -> ToolResult:
        is_denied = False
        cancelled_before = _count_cancellations()
        try:
            output = await self.next.run(call)
        except RunStopped:
            raise
        except BaseException as error:
            if _count_cancellations() > cancelled_before and not isinstance(error, ToolError):
                raise
            output = describe_failure(error)
            is_denied = isinstance(error, PermissionDenied)
        output = await self.made.pictures.admit_output(limit_output(call.tool, output))
        content = output.content
        if call.edited is not None:
            edited = cut_bytes(dump(dict(call.edited)).decode(), MAX_EDIT, "…")
            content += f"\n(The user changed the arguments of this call to {edited})"
        note = " · ".join(filter(None, (call.note, output.note)))
        return ToolResult(
            call.call.id, content, output.is_error, call.call.name, note, is_denied=is_denied,
            pictures=output.pictures, edited=call.edited, is_skipped=call.is_skipped,
        )  # fmt: skip


def _count_cancellations() -> int:
    """Number of requests to cancel the current task; a tool may raise CancelledError by itself."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def describe_failure(error: BaseException) -> ToolOutput:
    """Returns the exception of a tool, which is the user's code, as a result for the model."""
    if isinstance(error, ToolError):
        return ToolOutput(f"Error: {words(error)}", is_error=True, note=error.note)
    return ToolOutput(f"Error: {fault_text(error)}", is_error=True)


@dataclass(slots=True)
class Authorised:
    """Makes sure that a call may run: by policy, guard and person."""

    made: RunCalls
    next: CallLink

    async def run(self, call: PendingCall) -> ToolOutput:
        """See `CallLink`."""
        arguments = copy_json(call.arguments)  # history keeps its own
        permit = await self.made.authorizer.authorize(call.tool, arguments, call.call.id)
        call.arguments, call.guard, call.note = permit.arguments, permit.guard, permit.note
        if call.is_edited or permit.is_edited:
            call.edited = copy_json(permit.arguments)
        return await self.next.run(call)


@dataclass(slots=True)
class ToolRun:
    """Runs the tool of a call, and the children that it starts."""

    made: RunCalls

    async def run(self, call: PendingCall) -> ToolOutput:
        """See `CallLink`."""
        call.has_begun = True
        start, tool = self.made.children.start, call.tool
        children = CallChildren(call, start)
        if tool.effect == "delegate":  # one of ours, which ends when it is cancelled
            context = self._make_context(call, children.start_here)
            return output_of(await tool.fn(context, call.arguments))
        context = self._make_context(call, children.start)
        return output_of(await run_call(tool, context, children, self.made.scope.env))

    def _make_context(
        self, call: PendingCall, start: Callable[[Job], Awaitable[RunResult]]
    ) -> ToolContext:
        made, scope, asked = self.made, self.made.scope, call.call
        can_ask = scope.depth == 0 and has_person(scope)
        return ToolContext(
            call=ToolCall(asked.id, asked.name, call.arguments, asked.raw, traits=asked.traits),
            agent=scope.agent,
            depth=scope.depth,
            max_depth=scope.depth_limit.of(call.tool),
            workdir=made.workdir,
            file_log=made.file_log,
            start=start,
            tools=made.toolset.names,
            ask=partial(made.authorizer.ask_question, asked.id) if can_ask else None,
            limits=scope.limits,
            delegation=delegate,
            guard=call.guard,
            allows_host=partial(made.authorizer.allows_host, call.tool),
            sources=frozenset(scope.env.sources),
            above=scope.policy.agents[1:],
        )
