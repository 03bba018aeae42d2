"""Tool calls: the calls of a reply run concurrently, each with exactly one result.

A call passes through links, each with one concern (`RunCall`): `Authorizer` asks policy, guard and
person, `Dispatch.run_tool` runs the tool; `Run` adds those that may answer first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from axe_nb.conversion.json_schema import clean_schema
from axe_nb.delegation.spawn_agent import delegate
from axe_nb.engine.call import CallChildren, PendingCall, RunCall, StartChild, run_call
from axe_nb.engine.person import ApprovalRequest
from axe_nb.engine.plan import Plan
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ConfigError, words
from axe_nb.events import ToolFinished, ToolStarted
from axe_nb.messages import ToolCall, ToolResult, dump
from axe_nb.results import RunResult, RunStopped
from axe_nb.text import cut_bytes, quote
from axe_nb.threads import in_thread, without_group
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
    fault_text,
    limit_output,
    output_of,
)

USED_UP = "the budget of tool calls is used up"

LATER = "make the other calls in later replies"
"""End of the reason that a call of a reply was not made."""


def is_refused(result: ToolResult) -> bool:
    """True if a call exceeded the limit: it was not made, and has no number."""
    return result.is_error and result.content.endswith((USED_UP, LATER))


ALLOWED = {"yes": "allowed by the user", "always": "always allowed by the user"}
DENIED = "denied by the user"
"""Notes on calls that the person was asked to approve."""


class Authorizer:
    """Authorizes the calls of a run, and asks the person one question at a time."""

    def __init__(self, scope: RunScope, workdir: Path, next: RunCall) -> None:
        self.next = next
        self._scope = scope
        self._workdir = workdir
        self._covered: set[tuple[str, str]] = set()
        """(tool, later calls) that the person always allows."""
        self.unasked: dict[str, str] = {}
        """Tool → the reason its calls were denied, if a person could have allowed them."""
        self._guard_lock = asyncio.Lock()
        self._prompt_lock = asyncio.Lock()

    async def run(self, call: PendingCall) -> ToolOutput:
        call.arguments = _copy(call.arguments)  # history keeps its own
        await self.authorize(call)
        if call.is_edited:
            call.edited = _copy(call.arguments)
        return await self.next(call)

    async def authorize(self, call: PendingCall) -> None:
        """Permits a call, whose arguments the person may change.

        Raises PermissionDenied if it is denied, ToolError if its guard rejects the arguments, and
        RunStopped if the person stopped the run.
        """
        verdict, reason = self._scope.policy.decide(call.tool)
        if verdict == "deny" and call.tool.effect != "network":  # no host is known yet
            raise _make_denial(call.tool, reason)
        async with self._guard_lock:  # so that questions keep the order of the calls
            call.guard = await self._find_needs(call)
        if self._needs_approval(call):
            async with self._prompt_lock:
                if self._needs_approval(call):  # else: covered by the previous answer
                    await self._ask_approval(call)

    async def find_refusal(self, tool: Tool) -> str:
        """Returns why a tool of the model's server must not be offered; empty if it may be."""
        call = PendingCall(ToolCall("", tool.name, {}))
        call.tool = tool
        try:
            await self.authorize(call)
        except PermissionDenied as denied:
            self.unasked.pop(tool.name, None)
            return str(denied)
        return ""

    def allows_host(self, tool: Tool, host: str) -> bool:
        """True if a call may reach a host without asking (D-50)."""
        verdict, _ = self._scope.policy.decide(tool, Guard(host=host))
        return verdict == "allow" or (verdict == "ask" and self._is_allowed(host))

    def _is_allowed(self, host: str) -> bool:
        env = self._scope.env
        return host in env.hosts or host in env.recorded_hosts

    async def ask_question(self, call_id: str, question: str) -> str:
        """Returns the person's answer to a question that the model asked by a call."""
        scope = self._scope
        request = ApprovalRequest(scope.id, scope.name, "", {}, question, call_id=call_id)
        return (await scope.ask(request)).text

    async def _find_needs(self, call: PendingCall) -> Guard:
        scope, guard = self._scope, None
        if call.tool.guard is not None:  # it reads files
            sources = frozenset(scope.env.sources)
            site = CallSite(agents=scope.policy.agents, workdir=self._workdir, sources=sources)
            guard = await in_thread(call.tool.guard, call.arguments, site)
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
        """True if an earlier answer holds for the call too."""
        guard = call.guard
        is_known_host = guard.host and guard.floor == "allow" and self._is_allowed(guard.host)
        return bool(is_known_host) or (call.tool.name, guard.covers) in self._covered

    async def _ask_approval(self, call: PendingCall) -> None:
        """Asks the person for approval; they may edit the arguments."""
        scope, tool, guard, preview = self._scope, call.tool, call.guard, call.tool.preview
        # a preview reads files
        detail = await in_thread(preview, call.arguments, self._workdir) if preview else ""
        told = (guard.reason if guard.floor == "ask" else "", guard.note)
        request = ApprovalRequest(
            scope.id, scope.name, tool.name, call.arguments, detail,
            whole=tool.shown_whole, always=guard.covers, reason="\n".join(filter(None, told)),
            host=guard.host, workdir=str(self._workdir), call_id=call.call.id,
            schema=find_schema(tool),
        )  # fmt: skip
        answer = await scope.ask(request, lambda: self._is_covered(call))
        if answer.choice == "edit":
            call.arguments, call.is_edited = answer.arguments, True
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
        env, guard = scope.env, call.guard
        if guard.host and answer.is_recorded:
            env.recorded_hosts.add(guard.host)
        elif guard.host:
            env.hosts[guard.host] = None
        if answer.choice == "always" and guard.covers:
            self._covered.add((tool.name, guard.covers))


class Dispatch:
    def __init__(self, plan: Plan, start_child: StartChild) -> None:
        self.scope = plan.scope
        self.workdir = plan.briefing.workdir
        self.pictures = plan.make_room()
        self.file_log = FileLog(kept=plan.scope.env.kept)
        self.count = 0
        self.authorizer = Authorizer(plan.scope, self.workdir, self.run_tool)
        self.answer: RunCall = self.authorizer.run
        """The first link of a call."""
        self.make: Callable[[PendingCall], Awaitable[ToolResult]] = self.run
        """Makes a call, or takes its result from elsewhere."""
        self._toolset = plan.toolset
        self._start_child = start_child

    def close(self) -> None:
        """Drops the links; as they refer to each other, only the garbage collector would."""
        del self.answer, self.make, self._start_child, self.authorizer.next

    async def run_all(
        self, turn: int, calls: Sequence[ToolCall], results: list[ToolResult | None]
    ) -> None:
        """Runs the calls and stores each result in `results`, also when cancelled midway.

        Raises RunStopped if there were more than the run may make; the others are answered.
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
        scope.begin_calls(turn, calls)
        first, ahead = self.count + 1, clock.ahead
        parallel = scope.agent.sub_agents_config.parallel and most > 1

        async def run(index: int) -> None:
            number, elapsed = first + index, ahead if parallel else clock.ahead
            call = PendingCall(calls[index], number, turn, index, len(calls), elapsed)
            results[index] = await self.make(call)

        if parallel:
            with without_group():
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
        """Returns the result of a call, or an error result if it fails (A-13.1); emits events."""
        scope, asked = self.scope, call.call
        scope.clock.check()  # the timer does not fire before all calls have begun
        scope.env.halt.check()
        began, started = scope.seconds, time.monotonic()
        self.count += 1
        scope.env.emit(ToolStarted(scope.id, asked))
        tool = self._toolset.find(asked.name)
        if tool is None:
            result = _make_error(asked, f"Unknown tool: {quote(asked.name)}")
        else:
            call.tool, has_ended = tool, False
            try:
                result = await self._find_result(call)
                has_ended = True
            finally:
                if has_ended or call.has_begun:  # else it was cut while it was asked for
                    scope.note("tool", began, call=asked.id)
        scope.env.emit(ToolFinished(scope.id, result, time.monotonic() - started))
        if scope.env.halt.stop is not None:  # below this call; it is the end of all
            scope.env.halt.check()
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
        """Runs the tool of a call, and the children that it starts: the last link."""
        scope, tool = self.scope, call.tool
        call.has_begun = True
        if tool.effect == "delegate":  # one of ours, which ends when it is cancelled

            async def start(job: Job) -> RunResult:
                return await self._start_child(call, job, scope.env)

            return output_of(await tool.fn(self._make_context(call, start), call.arguments))
        async with AsyncExitStack() as call.slot:
            await call.slot.enter_async_context(scope.in_flight.calls.take())
            children = CallChildren(call, scope.env, self._start_child)
            context = self._make_context(call, children.start)
            return output_of(await run_call(tool, context, children, scope.env))

    def _make_context(
        self, call: PendingCall, start: Callable[[Job], Awaitable[RunResult]]
    ) -> ToolContext:
        scope, asked, authorizer = self.scope, call.call, self.authorizer
        can_ask = scope.depth == 0 and scope.env.has_person
        return ToolContext(
            call=ToolCall(asked.id, asked.name, call.arguments, asked.raw, traits=asked.traits),
            agent=scope.agent, depth=scope.depth, max_depth=scope.depth_limit.of(call.tool),
            workdir=self.workdir, file_log=self.file_log, start=start,
            tools=tuple(self._toolset.tools),
            ask=partial(authorizer.ask_question, asked.id) if can_ask else None,
            limits=scope.limits, delegation=delegate, guard=call.guard,
            allows_host=partial(authorizer.allows_host, call.tool),
            sources=frozenset(scope.env.sources), above=scope.policy.agents[1:],
        )  # fmt: skip


def _make_error(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, text, is_error=True, name=call.name)


def describe_failure(error: BaseException) -> ToolOutput:
    """Returns the exception of a tool, which is the user's code, as a result for the model."""
    if isinstance(error, ToolError):
        return ToolOutput(f"Error: {words(error)}", is_error=True, note=error.note)
    return ToolOutput(f"Error: {fault_text(error)}", is_error=True)


def find_schema(tool: Tool) -> Mapping[str, Any]:
    """Returns the JSON Schema of a tool's arguments; empty if they cannot be checked by it."""
    with suppress(ConfigError):
        return clean_schema(tool.spec.input_schema(), tool.name)
    return {}


def _make_denial(tool: Tool, reason: str) -> PermissionDenied:
    return PermissionDenied(f"permission denied for {tool.name}: {reason}")


def _copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copies JSON values deeply without recursion, as a model may nest them without end."""
    copied = dict(arguments)
    left: list[Any] = [copied]
    while left:
        holder = left.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, dict | list):
                holder[key] = item.copy()
                left.append(holder[key])
    return copied
