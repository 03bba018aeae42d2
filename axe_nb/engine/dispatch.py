"""Tool dispatch: finds, authorises and runs a model's calls, with exactly one result each.

Source: seed 000 §3.8 (A-8.2), §3.11 (A-11.*), §3.13; D-3, D-5, D-7, D-35.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from axe_nb.conversion.jsonable import copy_json
from axe_nb.delegation.ctx_delegate import delegate
from axe_nb.engine.ask_person import find_person
from axe_nb.engine.authorize import Authorizer, Permit
from axe_nb.engine.call import CallChildren, CallSlot, PendingCall, run_call
from axe_nb.engine.children import Children
from axe_nb.engine.origin import KeptCall
from axe_nb.engine.plan import Plan
from axe_nb.engine.stepping import CallStep, step_call
from axe_nb.errors import words
from axe_nb.events import ToolFinished, ToolStarted
from axe_nb.limits import RunStopped
from axe_nb.messages import Message, ToolCall, ToolResult, dump
from axe_nb.results import RunResult
from axe_nb.text import cut_bytes, quote
from axe_nb.threads import STRETCH, without_group
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

USED_UP = "the budget of tool calls is used up"

LATER = "make the other calls in later replies"
"""Ends of the reasons why a call of a reply was not made."""


def is_refused(result: ToolResult) -> bool:
    """True if a call was one too many: it was not made, and so has no number."""
    return result.is_error and result.content.endswith((USED_UP, LATER))


class Dispatch:
    """Executes the tool calls of one run."""

    def __init__(self, plan: Plan, children: Children) -> None:
        self._scope = plan.scope
        self._toolset = plan.toolset
        self._workdir = plan.briefing.workdir
        self._children = children
        self._authorizer = Authorizer(plan.scope, self._workdir)
        self._cap = plan.scope.meter.cap_reply()
        self.pictures = plan.make_room()
        """The room for pictures in the run's conversation."""
        self.calls = 0
        self._begun = set[int]()
        """Number of calls executed so far."""
        self.file_log = FileLog(kept=plan.scope.env.kept)

    def describe_denials(self) -> list[str]:
        """Returns a warning for each tool that was denied as no one could be asked."""
        return [f"{name} was denied: {why}" for name, why in self._authorizer.unasked.items()]

    async def permit_server_tool(self, tool: Tool) -> str:
        """Returns why a tool of the model's server must not be offered; empty if it may be.

        Raises:
            RunStopped: the person stopped the run.
        """
        try:
            await self._authorizer.authorize(tool, {})
        except PermissionDenied as denied:
            self._authorizer.unasked.pop(tool.name, None)
            return str(denied)
        return ""

    async def run_all(
        self,
        calls: tuple[ToolCall, ...],
        results: list[ToolResult | None],
        most: int | None,
        kept: Sequence[KeptCall | None] = (),
        *,
        turn: int,
    ) -> None:
        """Runs the calls and stores each result in `results`, also when cancelled midway.

        Args:
            calls: the calls of one response, in order.
            results: a list as long as `calls`.
            most: the number of calls that may be run; the others get an error result (D-35).
            kept: for each call its outcome in the run that this one forks; None = it is run.
            turn: number of the turn.
        """
        clock = self._scope.clock
        allowed = self._refuse_calls(calls, results, most)
        self._scope.begin_calls(turn, calls)
        first, ahead = self.calls, clock.ahead
        parallel = self._scope.agent.sub_agents_config.parallel and len(allowed) > 1

        async def run(index: int, slot: CallSlot) -> None:
            if index < len(kept) and (had := kept[index]) is not None:
                results[index] = self._keep_call(allowed[index], had)
                return
            results[index] = await self._run_call(
                PendingCall(
                    call=allowed[index],
                    number=first + index + 1,
                    turn=turn,
                    ahead=ahead if parallel else clock.ahead,
                    slot=slot,
                )
            )

        slots = self._scope.in_flight.calls
        if parallel:
            with without_group():
                async with asyncio.TaskGroup() as group:
                    for index in range(len(allowed)):
                        if index % STRETCH == STRETCH - 1:
                            await asyncio.sleep(0)  # to those that have begun, and the timer
                            clock.check()
                        slot = await CallSlot.take(slots)
                        group.create_task(run(index, slot)).add_done_callback(slot.release)
        else:
            for index in range(len(allowed)):
                slot = await CallSlot.take(slots)
                try:
                    await run(index, slot)
                finally:
                    slot.release()
        clock.forward(clock.ahead)

    def _refuse_calls(
        self, calls: tuple[ToolCall, ...], results: list[ToolResult | None], most: int | None
    ) -> tuple[ToolCall, ...]:
        """Returns the calls to run, after storing an error result for each of the others."""
        why = USED_UP
        cap, reached = self._cap
        if cap is not None and (most is None or cap < most):
            most, why = cap, f"{reached}; {LATER}"
        if most is None or len(calls) <= most:
            return calls
        text = f"Error: not run: {why}"
        results[most:] = [
            ToolResult(call.id, text, is_error=True, name=call.name) for call in calls[most:]
        ]
        return calls[:most]

    async def _run_call(self, pending: PendingCall) -> ToolResult:
        """Runs a call. A failure becomes an error result (A-13.1); only a stop is raised."""
        self._scope.clock.check()  # the timer does not fire before all calls have begun
        self._scope.env.halt.check()
        began, started = self._scope.seconds, time.monotonic()
        emit, run, call = self._scope.env.emit, self._scope.id, pending.call
        self.calls += 1
        emit(ToolStarted(run, call))
        tool = self._toolset.find(call.name)
        if tool is None:
            content = f"Unknown tool: {quote(call.name)}"
            result = ToolResult(call.id, content, is_error=True, name=call.name)
        else:
            ended = False
            try:
                result = await self._authorize_and_run(tool, pending)
                ended = True
            finally:
                if ended or pending.number in self._begun:  # else it was cut while it was asked for
                    self._scope.note("tool", began, call=call.id)
        emit(ToolFinished(run, result, time.monotonic() - started))
        if self._scope.env.halt.stop is not None:  # below this call; it is the end of all
            self._scope.env.halt.check()
        return result

    def _keep_call(self, call: ToolCall, kept: KeptCall) -> ToolResult:
        """Takes the outcome of a call from the run that this one forks, with its children."""
        emit, run = self._scope.env.emit, self._scope.id
        self.calls += 1
        emit(ToolStarted(run, call))
        for child in kept.children:
            self._children.adopt(child, self._scope.depth + 1)
        self.file_log.files_read.update(dict.fromkeys(kept.files_read))
        self.file_log.files_modified.update(dict.fromkeys(kept.files_modified))
        self.pictures.use([Message("tool", tool_results=(kept.result,))])
        emit(ToolFinished(run, kept.result, 0.0))
        return kept.result

    async def _authorize_and_run(self, tool: Tool, pending: PendingCall) -> ToolResult:
        call, edited, is_denied, is_skipped = pending.call, None, False, False
        decided = ""
        cancelled_before = _count_cancellations()
        try:
            step = await self._step(tool, pending)
            is_skipped, output = step.is_skipped, step.output
            if output is None:
                arguments = copy_json(step.arguments)  # history keeps its own
                permit = await self._authorizer.authorize(tool, arguments, call.id)
                is_edited, decided = step.is_edited or permit.is_edited, permit.note
                edited = copy_json(permit.arguments) if is_edited else None
                output = await self._run_recorded(tool, pending, permit)
        except RunStopped:
            raise
        except BaseException as error:
            if _count_cancellations() > cancelled_before and not isinstance(error, ToolError):
                raise
            output = _describe_failure(error)
            is_denied = isinstance(error, PermissionDenied)
        output = await self.pictures.admit_output(limit_output(tool, output))
        content = output.content if edited is None else f"{output.content}\n{_format_edit(edited)}"
        note = " · ".join(filter(None, (decided, output.note)))
        return ToolResult(
            call.id, content, output.is_error, call.name, note,
            is_denied=is_denied, pictures=output.pictures, edited=edited, is_skipped=is_skipped,
        )  # fmt: skip

    async def _step(self, tool: Tool, pending: PendingCall) -> CallStep:
        """Pauses before a call, if the tree is stepped through."""
        call = pending.call
        if self._scope.env.stepper is None:
            return CallStep(arguments=call.arguments)
        return await step_call(self._scope, tool, call, pending.number, pending.turn)

    async def _run_recorded(self, tool: Tool, pending: PendingCall, permit: Permit) -> ToolOutput:
        """Runs a tool, or returns its recorded output if it is one that is recorded."""
        tape = self._scope.env.tape
        if tape is None or not tool.record:
            return output_of(await self._run_tool(tool, pending, permit))
        place = (self._scope.id, pending.number, tool.name, permit.arguments)
        output = tape.find_output(*place)
        if output is None:
            try:
                output = output_of(await self._run_tool(tool, pending, permit))
            except RunStopped:
                raise
            except Exception as error:
                tape.keep_output(*place, _describe_failure(error))
                raise
        tape.keep_output(*place, output)
        return output

    async def _run_tool(self, tool: Tool, pending: PendingCall, permit: Permit) -> object:
        asked = pending.call
        self._begun.add(pending.number)
        call = ToolCall(asked.id, asked.name, permit.arguments, asked.raw, traits=asked.traits)
        children = CallChildren(pending, self._children.start)
        if tool.effect == "delegate":  # one of ours, which ends when it is cancelled
            context = self._make_context(tool, call, children.start_here, permit.guard)
            return await tool.fn(context, permit.arguments)
        context = self._make_context(tool, call, children.start, permit.guard)
        return await run_call(tool, context, children, self._scope.env)

    def _make_context(
        self,
        tool: Tool,
        call: ToolCall,
        start: Callable[[Job], Awaitable[RunResult]],
        guard: Guard,
    ) -> ToolContext:
        scope = self._scope
        can_ask = find_person(scope) is not None and scope.depth == 0
        return ToolContext(
            call=call,
            agent=scope.agent,
            depth=scope.depth,
            max_depth=scope.depth_limit.of(tool),
            workdir=self._workdir,
            file_log=self.file_log,
            start=start,
            tools=self._toolset.names,
            ask=partial(self._authorizer.ask_question, call.id) if can_ask else None,
            limits=scope.limits,
            delegation=delegate,
            guard=guard,
            allows_host=partial(self._authorizer.allows_host, tool),
            sources=frozenset(scope.env.sources),
            above=scope.policy.agents[1:],
        )


def _count_cancellations() -> int:
    """Number of requests to cancel the current task; a tool may raise CancelledError by itself."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _describe_failure(error: BaseException) -> ToolOutput:
    """Returns the exception of a tool, which is the user's code, as a result for the model."""
    if isinstance(error, ToolError):
        return ToolOutput(f"Error: {words(error)}", is_error=True, note=error.note)
    return ToolOutput(f"Error: {fault_text(error)}", is_error=True)


def _format_edit(arguments: Mapping[str, Any]) -> str:
    """Tells the model the arguments that ran instead of its own."""
    shown = cut_bytes(dump(dict(arguments)).decode(), MAX_EDIT, "…")
    return f"(The user changed the arguments of this call to {shown})"
