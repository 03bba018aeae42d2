"""Runs the tool calls of a response, usually concurrently, and collects a result for each call.

A call passes through a chain of handlers (`RunCall`): `Authorizer` checks permissions and asks the
user, `Dispatch.run_tool` runs the tool, and the handlers of `interceptors.py` may answer first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from axe_nb.delegation.spawn_agent import delegate
from axe_nb.engine.authorize import Authorizer
from axe_nb.engine.call import CallChildren, RunCall, StartChild, run_call
from axe_nb.engine.plan import PictureRoom, Plan
from axe_nb.engine.replay import PendingCall
from axe_nb.errors import words
from axe_nb.events import ToolFinished, ToolStarted
from axe_nb.messages import ToolCall, ToolResult, dump
from axe_nb.results import RunResult, RunStopped
from axe_nb.text import cut_bytes, quote
from axe_nb.threads import rare_full_collections, without_group
from axe_nb.tools.tool import (
    FileLog,
    Job,
    PermissionDenied,
    ToolContext,
    ToolError,
    ToolOutput,
    fault_text,
    limit_output,
    output_of,
)

USED_UP = "the budget of tool calls is used up"
LATER = "make the other calls in later replies"


def is_refused(result: ToolResult) -> bool:
    """True if a call exceeded a limit, and was therefore neither made nor counted."""
    return result.is_error and result.content.endswith((USED_UP, LATER))


class Dispatch:
    def __init__(self, plan: Plan, start_child: StartChild) -> None:
        self.scope = plan.scope
        self.workdir = plan.briefing.workdir
        self.pictures = PictureRoom(plan.agent.limits.max_picture_bytes, plan.provider.name)
        self.file_log = FileLog(kept=plan.scope.env.kept)
        self.count = 0
        self.authorizer = Authorizer(plan.scope, self.workdir, self.run_tool)
        self.answer: RunCall = self.authorizer.run
        """First handler in the chain of a call."""
        self.make: Callable[[PendingCall], Awaitable[ToolResult]] = self.run
        """Function that makes a call, or takes its result from a forked run."""
        self._toolset = plan.toolset
        self._start_child = start_child

    def close(self) -> None:
        """Deletes the chain of handlers, because its reference cycles would keep memory in use."""
        del self.answer, self.make, self._start_child, self.authorizer.next

    async def run_all(
        self, turn: int, calls: Sequence[ToolCall], results: list[ToolResult | None]
    ) -> None:
        """Runs the tool calls of a turn, and stores each result in `results` when its call ends.

        If the calls exceed the run's limit, the allowed calls run, and then RunStopped is raised.
        """
        scope, clock, limit = self.scope, self.scope.clock, self.scope.limits.tool_calls
        most, (cap, reached), why = len(calls), scope.meter.cap_reply(), ""
        if cap is not None and cap < most:
            most, why = cap, f"{reached}; {LATER}"
        is_over = limit is not None and self.count + len(calls) > limit
        if limit is not None and limit - self.count <= most and is_over:
            most, why = limit - self.count, USED_UP
        for index, call in enumerate(calls[most:], most):
            results[index] = _make_error(call, f"Error: not run: {why}")
        first, ahead = self.count + 1, clock.ahead
        parallel = scope.agent.sub_agents_config.parallel and most > 1

        async def run(index: int) -> None:
            elapsed = ahead if parallel else clock.ahead
            place = scope.id, first + index, turn, index, len(calls), elapsed
            results[index] = await self.make(PendingCall(calls[index], *place))
            scope.env.halt.check()

        if parallel:
            with without_group(), rare_full_collections() if most >= 100 else nullcontext():
                async with asyncio.TaskGroup() as group:
                    for index in range(most):
                        group.create_task(run(index))
        else:
            for index in range(most):
                await run(index)
        clock.forward(clock.ahead)
        if is_over:
            raise RunStopped("max_tool_calls", f"agent exceeded its budget of {limit} tool calls")

    async def run(self, call: PendingCall) -> ToolResult:
        """Makes a call and emits events before and after. Returns its result or error (A-13.1)."""
        scope, asked = self.scope, call.call
        scope.clock.check()  # the timer does not fire before all calls have begun
        scope.env.halt.check()
        began, started, has_ended = scope.seconds, time.monotonic(), False
        self.count += 1
        scope.env.emit(ToolStarted(scope.id, asked))
        if tool := self._toolset.find(asked.name):
            call.tool = tool
            try:
                result = await self._find_result(call)
                has_ended = True
            finally:
                if has_ended or call.has_begun:  # otherwise it was stopped during approval
                    scope.note("tool", began, call=call)
        else:
            result = _make_error(asked, f"Unknown tool: {quote(asked.name)}")
        scope.env.emit(ToolFinished(scope.id, result, time.monotonic() - started))
        scope.env.halt.check()  # a child of this call may have stopped the tree
        return result

    async def _find_result(self, call: PendingCall) -> ToolResult:
        is_denied = False
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        try:
            output = await self.answer(call)
        except RunStopped:
            raise
        except BaseException as error:  # a tool may raise CancelledError by itself
            if task.cancelling() > cancelled_before and not isinstance(error, ToolError):
                raise
            output = describe_failure(error)
            is_denied = isinstance(error, PermissionDenied)
        output = await self.pictures.admit_output(limit_output(call.tool, output))
        content = output.content
        if call.edited is not None:
            edited = cut_bytes(dump(dict(call.edited)).decode(), 4096, "…")
            content += f"\n(The user changed the arguments of this call to {edited})"
        note = " · ".join(filter(None, (call.note, output.note)))
        return ToolResult(
            call.call.id, content, output.is_error, call.call.name, note, is_denied=is_denied,
            pictures=output.pictures, edited=call.edited, is_skipped=call.is_skipped,
        )  # fmt: skip

    async def run_tool(self, call: PendingCall) -> ToolOutput:
        """Runs a call's tool, which may start children. This is the last handler in the chain."""
        scope, tool = self.scope, call.tool
        call.has_begun = True
        if tool.effect == "delegate":  # a built-in tool, which ends when it is cancelled
            context = self._make_context(call, partial(self._start_child, call))
            return output_of(await tool.fn(context, call.arguments))
        async with AsyncExitStack() as call.slot:
            await call.slot.enter_async_context(scope.in_flight.calls.take())
            children = CallChildren(call, self._start_child)

            async def nest(request: Any) -> RunResult:
                assert scope.env.nest is not None, "the session that started the run sets it"
                return await children.start(*scope.env.nest(request, scope.env))

            context = replace(self._make_context(call, children.start), nest=nest)
            return output_of(await run_call(tool, context, children))

    def _make_context(
        self, call: PendingCall, start: Callable[[Job], Awaitable[RunResult]]
    ) -> ToolContext:
        scope, asked, authorizer = self.scope, call.call, self.authorizer
        can_ask = scope.depth == 0 and scope.env.has_person
        return ToolContext(
            call=ToolCall(asked.id, asked.name, call.arguments, asked.raw, traits=asked.traits),
            agent=scope.agent, depth=scope.depth, max_depth=scope.max_depth(call.tool),
            workdir=self.workdir, file_log=self.file_log, start=start,
            tools=tuple(self._toolset.tools),
            ask=partial(authorizer.ask_question, call) if can_ask else None,
            limits=scope.limits, delegation=delegate, guard=call.guard,
            allows_host=partial(authorizer.allows_host, call.tool),
            sources=frozenset(scope.env.sources), above=scope.policy.agents[1:],
        )  # fmt: skip


def _make_error(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, text, is_error=True, name=call.name)


def describe_failure(error: BaseException) -> ToolOutput:
    """Converts an exception raised by a tool to an error output for the model."""
    if isinstance(error, ToolError):
        return ToolOutput(f"Error: {words(error)}", is_error=True, note=error.note)
    return ToolOutput(f"Error: {fault_text(error)}", is_error=True)
