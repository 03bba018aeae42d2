"""Tool dispatch: finds, authorises and runs a model's calls, with exactly one result each.

Source: seed 000 §3.8 (A-8.2), §3.11 (A-11.*), §3.13; D-3, D-5, D-7, D-35.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from axe_nb.delegation.ctx_delegate import delegate
from axe_nb.engine.authorize import Authorizer, Permit
from axe_nb.engine.call import CallChildren, CallSlot, run_call
from axe_nb.engine.plan import Plan
from axe_nb.engine.scope import Env
from axe_nb.errors import words
from axe_nb.events import RunResult, ToolFinished, ToolStarted
from axe_nb.limits import RunStopped
from axe_nb.messages import ToolCall, ToolResult, dump
from axe_nb.text import cut_bytes, quote
from axe_nb.tools.jsonable import copy_json
from axe_nb.tools.output import limit_output, output_of
from axe_nb.tools.tool import (
    FileLog,
    Guard,
    Job,
    PermissionDenied,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    fault_text,
)

MAX_EDIT = 4096
"""Bytes shown to the model of arguments that the person edited."""

StartChild: TypeAlias = Callable[[ToolCall, int, float, Job, Env | None], Awaitable[RunResult]]
"""(call, its number in the run, virtual seconds so far, job, env) → the child's result."""


class Dispatch:
    """Executes the tool calls of one run."""

    def __init__(self, plan: Plan, start_child: StartChild) -> None:
        self._scope = plan.scope
        self._toolset = plan.toolset
        self._workdir = plan.briefing.workdir
        self._start_child = start_child
        self._authorizer = Authorizer(plan.scope, plan.briefing.workdir)
        self._cap = plan.scope.meter.cap_reply()
        self.calls = 0
        """Number of calls executed so far."""
        self.file_log = FileLog()

    async def run_all(
        self, calls: tuple[ToolCall, ...], results: list[ToolResult | None], most: int | None
    ) -> None:
        """Runs the calls and stores each result in `results`, also when cancelled midway.

        Args:
            calls: the calls of one response, in order.
            results: a list as long as `calls`.
            most: the number of calls that may be run; the others get an error result (D-35).
        """
        clock = self._scope.clock
        allowed = self._refuse_calls(calls, results, most)
        first, ahead = self.calls, clock.ahead
        parallel = self._scope.agent.sub_agents_config.parallel and len(allowed) > 1

        async def one(index: int, slot: CallSlot) -> None:
            at = ahead if parallel else clock.ahead
            results[index] = await self._run_call(allowed[index], first + index + 1, at, slot)

        slots = self._scope.in_flight.calls
        if parallel:
            try:
                async with asyncio.TaskGroup() as group:
                    for index in range(len(allowed)):
                        slot = await CallSlot.take(slots)
                        group.create_task(one(index, slot)).add_done_callback(slot.release)
            except BaseExceptionGroup as stops:  # a call raises nothing but RunStopped
                raise stops.exceptions[0] from None
        else:
            for index in range(len(allowed)):
                slot = await CallSlot.take(slots)
                try:
                    await one(index, slot)
                finally:
                    slot.release()
        clock.forward(clock.ahead)

    def _refuse_calls(
        self, calls: tuple[ToolCall, ...], results: list[ToolResult | None], most: int | None
    ) -> tuple[ToolCall, ...]:
        """Returns the calls to run, after storing an error result for each of the others."""
        why = "the budget of tool calls is used up"
        cap, reached = self._cap
        if cap is not None and (most is None or cap < most):
            most, why = cap, f"{reached}; make the other calls in later replies"
        if most is None or len(calls) <= most:
            return calls
        text = f"Error: not run: {why}"
        results[most:] = [
            ToolResult(call.id, text, is_error=True, name=call.name) for call in calls[most:]
        ]
        return calls[:most]

    async def _run_call(
        self, call: ToolCall, number: int, ahead: float, slot: CallSlot
    ) -> ToolResult:
        """Runs a call. A failure becomes an error result (A-13.1); only a stop is raised."""
        self._scope.clock.check()  # the timer does not fire before all calls have begun
        if self._scope.env.halt.is_set:
            raise RunStopped("cancelled", "cancelled")
        started = time.monotonic()
        emit, run = self._scope.env.emit, self._scope.id
        self.calls += 1
        emit(ToolStarted(run, call))
        tool = self._toolset.find(call.name)
        if tool is None:
            content = f"Unknown tool: {quote(call.name)}"
            result = ToolResult(call.id, content, is_error=True, name=call.name)
        else:
            result = await self._authorize_and_run(tool, call, number, ahead, slot)
        emit(ToolFinished(run, result, time.monotonic() - started))
        return result

    async def _authorize_and_run(
        self, tool: Tool, call: ToolCall, number: int, ahead: float, slot: CallSlot
    ) -> ToolResult:
        edited: Mapping[str, Any] | None = None

        async def work() -> object:
            nonlocal edited
            arguments = copy_json(call.arguments)  # history keeps its own
            permit = await self._authorizer.authorize(tool, arguments)
            edited = copy_json(permit.arguments) if permit.is_edited else None
            return await self._run_tool(tool, call, number, ahead, permit, slot)

        output, is_denied = await _catch_failure(work)
        output = limit_output(tool, output)
        content = output.content if edited is None else f"{output.content}\n{_format_edit(edited)}"
        return ToolResult(
            call.id,
            content,
            output.is_error,
            call.name,
            output.note,
            is_denied=is_denied,
            edited=edited,
        )

    async def _run_tool(
        self,
        tool: Tool,
        call: ToolCall,
        number: int,
        ahead: float,
        permit: Permit,
        slot: CallSlot,
    ) -> object:
        arguments = permit.arguments
        call = replace(call, arguments=arguments)
        children = CallChildren(partial(self._start_child, call, number, ahead), slot)
        return await run_call(
            lambda context: tool.fn(context, arguments),
            self._make_context(tool, call, children, permit.guard),
            children,
            self._scope.env,
            f"tool {quote(tool.name)} of agent {quote(self._scope.agent.name)}",
        )

    def _make_context(
        self, tool: Tool, call: ToolCall, children: CallChildren, guard: Guard | None
    ) -> ToolContext:
        scope = self._scope
        can_ask = scope.env.ask_person is not None and scope.depth == 0
        return ToolContext(
            call=call,
            agent=scope.agent,
            depth=scope.depth,
            max_depth=scope.depth_limit.of(tool),
            workdir=self._workdir,
            file_log=self.file_log,
            start=children.start,
            tools=self._toolset.names,
            ask=self._authorizer.ask_question if can_ask else None,
            limits=scope.limits,
            delegation=delegate,
            guard=guard,
            allows_host=partial(self._authorizer.allows_host, tool),
            sources=frozenset(scope.env.sources),
            above=scope.policy.agents[1:],
        )


async def _catch_failure(work: Callable[[], Awaitable[object]]) -> tuple[ToolOutput, bool]:
    """The output of a call, also if it fails, and if it failed because it was not permitted.

    Raises:
        RunStopped: the run ends.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        return output_of(await work()), False
    except RunStopped:
        raise
    except ToolError as error:
        is_denied = isinstance(error, PermissionDenied)
        return ToolOutput(f"Error: {words(error)}", is_error=True, note=error.note), is_denied
    except BaseException as error:
        if task.cancelling() > before:
            raise
        # a tool is the user's code: its exceptions are reported to the model
        return ToolOutput(f"Error: {fault_text(error)}", is_error=True), False


def _format_edit(arguments: Mapping[str, Any]) -> str:
    """Tells the model the arguments that ran instead of its own."""
    shown = cut_bytes(dump(dict(arguments)).decode(), MAX_EDIT, "…")
    return f"(The user changed the arguments of this call to {shown})"
