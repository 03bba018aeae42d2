"""Runs the tool calls of a response, usually concurrently, and collects a result for each call.

A call passes through a chain of handlers (`RunCall`): `Authorizer` checks permissions and asks the
user, `Dispatch.run_tool` runs the tool, and the handlers of `interceptors.py` may answer first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from axe_nb.delegation.spawn_agent import delegate
from axe_nb.engine.call import CallChildren, RunCall, StartChild, run_call
from axe_nb.engine.person import ApprovalRequest
from axe_nb.engine.plan import PictureRoom, Plan
from axe_nb.engine.replay import PendingCall
from axe_nb.engine.scope import RunScope
from axe_nb.errors import words
from axe_nb.events import ToolFinished, ToolStarted
from axe_nb.messages import ToolCall, ToolResult, dump
from axe_nb.results import RunResult, RunStopped
from axe_nb.text import cut_bytes, quote
from axe_nb.threads import in_thread, rare_full_collections, without_group
from axe_nb.tools.tool import (
    CallSite,
    FileLog,
    Guard,
    Job,
    PermissionDenied,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    cut_output,
    fault_text,
    output_of,
)

ALLOWED = {"yes": "allowed by you", "always": "always allowed by you"}
DENIED = "denied by you"
USED_UP = "the budget of tool calls is used up"
LATER = "make the other calls in later replies"


def is_refused(result: ToolResult) -> bool:
    """True if a call exceeded a limit, and was therefore neither made nor counted."""
    return result.is_error and result.content.endswith((USED_UP, LATER))


class Authorizer:
    """Authorizes the tool calls of a run. Asks the user if necessary, one question at a time."""

    def __init__(self, scope: RunScope, workdir: Path, next: RunCall) -> None:
        self.next, self._scope, self._workdir = next, scope, workdir
        self._covered: set[tuple[str, str]] = set()
        """(tool, description of the calls) pairs that the user always allows."""
        self.unasked: dict[str, str] = {}
        """Tool → reason for a denial, if it happened only because no one could be prompted."""
        self._guard_lock = asyncio.Lock()
        self._prompt_lock = asyncio.Lock()

    async def run(self, call: PendingCall) -> ToolOutput:
        call.arguments = _copy(call.arguments)  # the conversation keeps the original
        await self.authorize(call)
        return await self.next(call)

    async def authorize(self, call: PendingCall) -> None:
        """Checks that a call is permitted, and asks the user if necessary.

        Raises PermissionDenied if the call is not permitted, ToolError if the tool's guard rejects
        the arguments, and RunStopped if the user stops the tree of runs.
        """
        verdict, reason = self._scope.policy.decide(call.tool)
        if verdict == "deny" and call.tool.effect != "network":  # no host is known yet
            raise _make_denial(call.tool, reason)
        async with self._guard_lock:  # so that questions keep the order of the calls
            call.guard = await self._find_needs(call)
        if self._needs_approval(call):
            async with self._prompt_lock:
                if self._needs_approval(call):  # the previous answer may cover it
                    await self._ask_approval(call)

    async def find_refused(self, tools: Iterable[Tool]) -> dict[str, str]:
        """Authorizes server tools. Returns the reasons for denials, keyed by tool name."""
        refused = {}
        for tool in tools:
            call = PendingCall(ToolCall("", tool.name, {}))
            call.tool = tool
            try:
                await self.authorize(call)
            except PermissionDenied as denied:
                self.unasked.pop(tool.name, None)
                refused[tool.name] = str(denied)
        return refused

    def allows_host(self, tool: Tool, host: str) -> bool:
        """True if a tool may contact a host without further approval by the user (D-50)."""
        verdict, _ = self._scope.policy.decide(tool, Guard(host=host))
        return verdict == "allow" or (verdict == "ask" and self._is_allowed(host))

    def _is_allowed(self, host: str) -> bool:
        return host in {*self._scope.env.hosts, *self._scope.env.recorded_hosts}

    async def ask_question(self, call: PendingCall, question: str) -> str:
        """Asks the user a question from the model, and returns the answer."""
        scope = self._scope
        request = ApprovalRequest(scope.id, scope.name, "", {}, question, call_id=call.call.id)
        return (await scope.ask(request, call=call)).text

    async def _find_needs(self, call: PendingCall) -> Guard:
        scope, find, guard = self._scope, call.tool.guard, None
        if find is not None:  # a guard reads files
            sources = frozenset(scope.env.sources)
            site = CallSite(agents=scope.policy.agents, workdir=self._workdir, sources=sources)
            guard = await in_thread(find, call.arguments, site)
        return guard or Guard(covers="this tool")

    def _needs_approval(self, call: PendingCall) -> bool:
        policy, tool, guard = self._scope.policy, call.tool, call.guard
        verdict, reason = policy.decide(tool, guard)
        if verdict == "ask" and self._is_covered(call):
            return False
        if verdict == "ask" and not self._scope.env.has_person:
            need = f"connecting to {guard.host} needs approval" if guard.host else ""
            need = guard.reason if guard.floor == "ask" else need or "it needs approval"
            step = policy.next_step(tool, guard)
            verdict, reason = "deny", f"{need}, and no one can be prompted here; {step}"
            self.unasked[tool.name] = reason
        if verdict == "deny":
            raise _make_denial(tool, reason)
        return verdict == "ask"

    def _is_covered(self, call: PendingCall) -> bool:
        guard = call.guard
        is_known_host = guard.host and guard.floor == "allow" and self._is_allowed(guard.host)
        return bool(is_known_host) or (call.tool.name, guard.covers) in self._covered

    async def _ask_approval(self, call: PendingCall) -> None:
        scope, tool, guard, preview = self._scope, call.tool, call.guard, call.tool.preview
        # a preview reads files
        detail = await in_thread(preview, call.arguments, self._workdir) if preview else ""
        told = (guard.reason if guard.floor == "ask" else "", guard.note)
        request = ApprovalRequest(
            scope.id, scope.name, tool.name, call.arguments, detail,
            whole=tool.shown_whole, always=guard.covers, reason="\n".join(filter(None, told)),
            host=guard.host, workdir=str(self._workdir), call_id=call.call.id,
            schema=tool.spec.input_schema(),
        )  # fmt: skip
        answer = await scope.ask(request, lambda: self._is_covered(call), call)
        if answer.choice == "edit":
            call.edited, call.arguments = answer.arguments, _copy(answer.arguments)
            call.guard = await self._find_needs(call)
            is_other = call.guard.floor == "ask" and call.guard.reason != guard.reason
            if self._needs_approval(call) and is_other:
                await self._ask_approval(call)
                call.note = ""
                return
        elif answer.choice in ALLOWED:
            call.note = ALLOWED[answer.choice]
        else:
            why = f": {answer.text}" if answer.text else ""
            raise PermissionDenied(f"permission denied for {tool.name} by the user{why}", DENIED)
        guard = call.guard
        if guard.host and answer.is_recorded:
            scope.env.recorded_hosts.add(guard.host)
        elif guard.host:
            scope.env.hosts[guard.host] = None
        if answer.choice == "always" and guard.covers:
            self._covered.add((tool.name, guard.covers))


def _make_denial(tool: Tool, reason: str) -> PermissionDenied:
    return PermissionDenied(f"permission denied for {tool.name}: {reason}")


def _copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Deep-copies arguments without recursion, because a model may nest their values deeply."""
    copied = dict(arguments)
    left: list[Any] = [copied]
    while left:
        holder = left.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, dict | list):
                holder[key] = item.copy()
                left.append(holder[key])
    return copied


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
        output = await self.pictures.admit_output(output)
        is_report = call.tool.effect == "delegate"  # which has a limit of its own (D-6)
        content = output.content if is_report else cut_output(output.content)
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
