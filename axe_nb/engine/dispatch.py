"""Tool calls: those of a reply are run beside one another, with exactly one result each.

A call passes through links, each with one concern, `run(call)` → the output: `Dispatch` tells the
views and turns failures into results, `Authorizer` asks policy, guard and person, `ToolRun` runs
the tool. `replays.py` has the links that may answer first.
Source: A-8.2, A-11.*, D-3, D-5, D-7, D-19, D-35, D-48, D-50, D-51, D-83.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from axe_nb.conversion.json_schema import clean_schema
from axe_nb.conversion.jsonable import copy_json
from axe_nb.delegation.spawn_agent import delegate
from axe_nb.engine.call import CallChildren, CallLink, Children, PendingCall, run_call
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.engine.plan import Plan
from axe_nb.engine.scope import RunScope
from axe_nb.errors import ConfigError, words
from axe_nb.events import ToolFinished, ToolStarted
from axe_nb.messages import ToolCall, ToolResult, dump
from axe_nb.results import RunResult, RunStopped
from axe_nb.text import cut_bytes, quote
from axe_nb.threads import in_thread, without_group
from axe_nb.tools.output import limit_output, output_of
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
)

MAX_EDIT = 4096
"""Bytes shown to the model of arguments that the person edited."""

USED_UP = "the budget of tool calls is used up"

LATER = "make the other calls in later replies"
"""Ends of the reasons why a call of a reply was not made."""


def is_refused(result: ToolResult) -> bool:
    """True if a call was one too many: it was not made, and so has no number."""
    return result.is_error and result.content.endswith((USED_UP, LATER))


class TopLink(Protocol):
    """A link whose outcome goes to the model."""

    async def run(self, call: PendingCall) -> ToolResult:
        """Returns the result of the call.

        Raises:
            RunStopped: the tree has been stopped.
        """


class Dispatch:
    """The tool calls of one run, and what they share."""

    def __init__(self, plan: Plan, children: Children) -> None:
        self.scope = plan.scope
        self.toolset = plan.toolset
        self.workdir = plan.briefing.workdir
        self.children = children
        self.pictures = plan.make_room()
        """The room for pictures in the run's conversation."""
        self.file_log = FileLog(kept=plan.scope.env.kept)
        self.count = 0
        """Number of calls executed so far."""
        self.tool_run = ToolRun(self)
        self.authorizer = Authorizer(plan.scope, self.workdir, self.tool_run)
        self.next: CallLink = self.authorizer
        self.top: TopLink = self
        self._cap = plan.scope.meter.cap_reply()

    def describe_denials(self) -> list[str]:
        """Returns a warning for each tool that was denied as no one could be asked."""
        return [f"{name} was denied: {why}" for name, why in self.authorizer.unasked.items()]

    async def permit_server_tool(self, tool: Tool) -> str:
        """Returns why a tool of the model's server must not be offered; empty if it may be.

        Raises:
            RunStopped: the person stopped the run.
        """
        try:
            await self.authorizer.authorize(tool, {})
        except PermissionDenied as denied:
            self.authorizer.unasked.pop(tool.name, None)
            return str(denied)
        return ""

    async def run_all(
        self, turn: int, calls: tuple[ToolCall, ...], results: list[ToolResult | None]
    ) -> None:
        """Runs the calls and stores each result in `results`, also when cancelled midway.

        Raises:
            RunStopped: there were more calls than the run may make; the others were answered.
        """
        clock, most = self.scope.clock, self.scope.limits.tool_calls
        left = None if most is None else most - self.count
        allowed = self._refuse_calls(calls, results, left)
        self.scope.begin_calls(turn, calls)
        first, ahead = self.count + 1, clock.ahead
        parallel = self.scope.agent.sub_agents_config.parallel and len(allowed) > 1

        async def run(index: int) -> None:
            call = allowed[index]
            results[index] = await self.top.run(
                PendingCall(
                    call=call, number=first + index, turn=turn, index=index, count=len(calls),
                    ahead=ahead if parallel else clock.ahead, arguments=call.arguments,
                )
            )  # fmt: skip

        if parallel:
            with without_group():
                async with asyncio.TaskGroup() as group:
                    for index in range(len(allowed)):
                        group.create_task(run(index))
        else:
            for index in range(len(allowed)):
                await run(index)
        clock.forward(clock.ahead)
        if left is not None and len(calls) > left:
            raise RunStopped("max_tool_calls", f"agent exceeded its budget of {most} tool calls")

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

    async def run(self, call: PendingCall) -> ToolResult:
        """See `TopLink`; a failure becomes an error result (A-13.1), a stop is raised."""
        scope, asked = self.scope, call.call
        scope.clock.check()  # the timer does not fire before all calls have begun
        scope.env.halt.check()
        began, started = scope.seconds, time.monotonic()
        self.count += 1
        scope.env.emit(ToolStarted(scope.id, asked))
        tool = self.toolset.find(asked.name)
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
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        try:
            output = await self.next.run(call)
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
            edited = cut_bytes(dump(dict(call.edited)).decode(), MAX_EDIT, "…")
            content += f"\n(The user changed the arguments of this call to {edited})"
        note = " · ".join(filter(None, (call.note, output.note)))
        return ToolResult(
            call.call.id, content, output.is_error, call.call.name, note, is_denied=is_denied,
            pictures=output.pictures, edited=call.edited, is_skipped=call.is_skipped,
        )  # fmt: skip


def describe_failure(error: BaseException) -> ToolOutput:
    """Returns the exception of a tool, which is the user's code, as a result for the model."""
    if isinstance(error, ToolError):
        return ToolOutput(f"Error: {words(error)}", is_error=True, note=error.note)
    return ToolOutput(f"Error: {fault_text(error)}", is_error=True)


NO_NEEDS = Guard(covers="this tool")
"""The needs of the calls of a tool without a guard."""

ALLOWED = {"yes": "allowed by the user", "always": "always allowed by the user"}
DENIED = "denied by the user"
"""Notes of calls that the person was asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Permission for one call."""

    arguments: Mapping[str, Any]
    """The arguments to run with."""
    guard: Guard
    """The needs of the call with these arguments."""
    is_edited: bool = False
    """True if the person changed the arguments."""
    note: str = ""
    """The person's yes, as a note of the call."""


class Authorizer:
    """Makes sure that the calls of a run may run: by policy, guard and person."""

    def __init__(self, scope: RunScope, workdir: Path, next: CallLink) -> None:
        self.next = next
        self._scope = scope
        self._workdir = workdir
        self._covered: set[tuple[str, str]] = set()
        """(tool, later calls) that the person always allows."""
        self.unasked: dict[str, str] = {}
        """Tool → why its calls were denied, of those that a person could have allowed."""
        self._guard_lock = asyncio.Lock()
        self._prompt_lock = asyncio.Lock()

    async def run(self, call: PendingCall) -> ToolOutput:
        """See `CallLink`."""
        arguments = copy_json(call.arguments)  # history keeps its own
        permit = await self.authorize(call.tool, arguments, call.call.id)
        call.arguments, call.guard, call.note = permit.arguments, permit.guard, permit.note
        if call.is_edited or permit.is_edited:
            call.edited = copy_json(permit.arguments)
        return await self.next.run(call)

    async def authorize(
        self, tool: Tool, arguments: Mapping[str, Any], call_id: str = ""
    ) -> Permit:
        """Returns the permission for a call.

        Raises:
            PermissionDenied: the call is denied; the message names the key to change.
            ToolError: its guard rejects the arguments.
            RunStopped: the person stopped the run.
        """
        verdict, reason = self._scope.policy.decide(tool)
        if verdict == "deny" and tool.effect != "network":  # no host is known yet
            raise _make_denial(tool, reason)
        async with self._guard_lock:  # so that questions keep the order of the calls
            guard = await self._find_needs(tool, arguments)
        if self._needs_approval(tool, guard):
            async with self._prompt_lock:
                if self._needs_approval(tool, guard):  # else: covered by the previous answer
                    return await self._ask_approval(tool, arguments, guard, call_id)
        return Permit(arguments=arguments, guard=guard)

    def allows_host(self, tool: Tool, host: str) -> bool:
        """True if a call may reach a host without asking (D-50)."""
        verdict, _ = self._scope.policy.decide(tool, Guard(host=host))
        return verdict == "allow" or (verdict == "ask" and self._is_allowed(host))

    def _is_allowed(self, host: str) -> bool:
        """True if an answer has allowed a host, in this session or in a recording of this tree."""
        env = self._scope.env
        return host in env.hosts or host in env.recorded_hosts

    async def ask_question(self, call_id: str, question: str) -> str:
        """Returns the person's answer to a question of the model, asked by a call."""
        scope = self._scope
        request = ApprovalRequest(scope.id, scope.name, "", {}, question, call_id=call_id)
        return (await scope.ask(request)).text

    async def _find_needs(self, tool: Tool, arguments: Mapping[str, Any]) -> Guard:
        if tool.guard is None:
            return NO_NEEDS
        site = CallSite(
            agents=self._scope.policy.agents,
            workdir=self._workdir,
            sources=frozenset(self._scope.env.sources),
        )
        return await in_thread(tool.guard, arguments, site) or NO_NEEDS  # it may look at files

    def _needs_approval(self, tool: Tool, guard: Guard) -> bool:
        """True if the person has to be asked for a call."""
        policy = self._scope.policy
        verdict, reason = policy.decide(tool, guard)
        if verdict == "ask" and self._is_covered(tool, guard):
            return False
        if verdict == "ask" and not self._scope.env.has_person:
            step = policy.next_step(tool, guard)
            need = f"connecting to {guard.host} needs approval" if guard.host else ""
            need = guard.reason if guard.floor == "ask" else need or "it needs approval"
            verdict, reason = "deny", f"{need}, and no one can be prompted here; {step}"
            self.unasked[tool.name] = reason
        if verdict == "deny":
            raise _make_denial(tool, reason)
        return verdict == "ask"

    def _is_covered(self, tool: Tool, guard: Guard) -> bool:
        """True if an earlier answer holds for the call too."""
        is_known_host = guard.host and guard.floor == "allow" and self._is_allowed(guard.host)
        return bool(is_known_host) or (tool.name, guard.covers) in self._covered

    async def _ask_approval(
        self, tool: Tool, arguments: Mapping[str, Any], guard: Guard, call_id: str
    ) -> Permit:
        """Asks the person for approval; they may edit the arguments."""
        scope = self._scope
        # a preview reads files
        detail = await in_thread(tool.preview, arguments, self._workdir) if tool.preview else ""
        told = (guard.reason if guard.floor == "ask" else "", guard.note)
        request = ApprovalRequest(
            scope.id, scope.name, tool.name, arguments, detail,
            whole=tool.shown_whole, always=guard.covers, reason="\n".join(filter(None, told)),
            host=guard.host, workdir=str(self._workdir), call_id=call_id, schema=find_schema(tool),
        )  # fmt: skip
        answer = await scope.ask(request, lambda: self._is_covered(tool, guard))
        if answer.choice == "edit":
            return await self._check_edited(tool, answer, guard, call_id)
        if answer.choice not in ALLOWED:
            why = f": {answer.text}" if answer.text else ""
            raise PermissionDenied(f"permission denied for {tool.name} by the user{why}", DENIED)
        self._remember(tool, guard, answer)
        return Permit(arguments=arguments, guard=guard, note=ALLOWED[answer.choice])

    async def _check_edited(
        self, tool: Tool, answer: Decision, asked: Guard, call_id: str
    ) -> Permit:
        """Permits the call as the person typed it, unless it now needs another approval."""
        guard = await self._find_needs(tool, answer.arguments)
        is_other = guard.floor == "ask" and guard.reason != asked.reason
        if self._needs_approval(tool, guard) and is_other:
            permit = await self._ask_approval(tool, answer.arguments, guard, call_id)
        else:
            permit = Permit(arguments=answer.arguments, guard=guard)
            self._remember(tool, guard, answer)
        return replace(permit, is_edited=True, note="")

    def _remember(self, tool: Tool, guard: Guard, answer: Decision) -> None:
        env = self._scope.env
        if guard.host and answer.is_recorded:
            env.recorded_hosts.add(guard.host)
        elif guard.host:
            env.hosts[guard.host] = None
        if answer.choice == "always" and guard.covers:
            self._covered.add((tool.name, guard.covers))


def find_schema(tool: Tool) -> Mapping[str, Any]:
    """Returns the JSON Schema of a tool's arguments; empty if they cannot be checked by it."""
    with suppress(ConfigError):
        return clean_schema(tool.spec.input_schema(), tool.name)
    return {}


def _make_denial(tool: Tool, reason: str) -> PermissionDenied:
    return PermissionDenied(f"permission denied for {tool.name}: {reason}")


@dataclass(slots=True)
class ToolRun:
    """Runs the tool of a call, and the children that it starts."""

    calls: Dispatch

    async def run(self, call: PendingCall) -> ToolOutput:
        """See `CallLink`."""
        call.has_begun = True
        tool, children = call.tool, self.calls.children
        if tool.effect == "delegate":  # one of ours, which ends when it is cancelled
            context = self._make_context(call, partial(children.start, call))
            return output_of(await tool.fn(context, call.arguments))
        async with AsyncExitStack() as call.slot:
            await call.slot.enter_async_context(self.calls.scope.in_flight.calls.take())
            own = CallChildren(call, children)
            context = self._make_context(call, own.start)
            return output_of(await run_call(tool, context, own, self.calls.scope.env))

    def _make_context(
        self, call: PendingCall, start: Callable[[Job], Awaitable[RunResult]]
    ) -> ToolContext:
        scope, asked, authorizer = self.calls.scope, call.call, self.calls.authorizer
        can_ask = scope.depth == 0 and scope.env.has_person
        return ToolContext(
            call=ToolCall(asked.id, asked.name, call.arguments, asked.raw, traits=asked.traits),
            agent=scope.agent,
            depth=scope.depth,
            max_depth=scope.depth_limit.of(call.tool),
            workdir=self.calls.workdir,
            file_log=self.calls.file_log,
            start=start,
            tools=tuple(self.calls.toolset.tools),
            ask=partial(authorizer.ask_question, asked.id) if can_ask else None,
            limits=scope.limits,
            delegation=delegate,
            guard=call.guard,
            allows_host=partial(authorizer.allows_host, call.tool),
            sources=frozenset(scope.env.sources),
            above=scope.policy.agents[1:],
        )
