"""Authorization of tool calls by permissions, guards and the user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from axe_nb.engine.call import RunCall
from axe_nb.engine.person import ApprovalRequest
from axe_nb.engine.replay import PendingCall
from axe_nb.engine.scope import RunScope
from axe_nb.messages import ToolCall
from axe_nb.threads import in_thread
from axe_nb.tools.tool import CallSite, Guard, PermissionDenied, Tool, ToolOutput

ALLOWED = {"yes": "allowed by you", "always": "always allowed by you"}
DENIED = "denied by the user"


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
