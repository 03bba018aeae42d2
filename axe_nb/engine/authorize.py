"""Authorization of calls: the policy of the run, the guard of the tool, and the person's answer.

Source: D-19, D-48, D-50, D-83.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from axe_nb.engine.ask_person import ask_person, has_person
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.engine.scope import RunScope
from axe_nb.engine.stepping import find_schema
from axe_nb.threads import in_thread
from axe_nb.tools.tool import CallSite, Guard, PermissionDenied, Tool

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
    """Authorizes the calls of one run, and asks its questions one at a time."""

    def __init__(self, scope: RunScope, workdir: Path) -> None:
        self._scope = scope
        self._workdir = workdir
        self._covered: set[tuple[str, str]] = set()
        self.unasked: dict[str, str] = {}
        """Tool → why its calls were denied, of those that a person could have allowed."""
        self._guard_lock = asyncio.Lock()
        self._prompt_lock = asyncio.Lock()

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
        async with self._prompt_lock:
            return (await ask_person(scope, request)).text

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
        if verdict == "ask" and not has_person(self._scope):
            step = policy.next_step(tool, guard)
            verdict, reason = "deny", f"{_describe(guard)}, and no one can be prompted here; {step}"
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
        # a preview reads files
        detail = await in_thread(tool.preview, arguments, self._workdir) if tool.preview else ""
        told = (guard.reason if guard.floor == "ask" else "", guard.note)
        request = ApprovalRequest(
            self._scope.id, self._scope.name, tool.name, arguments, detail,
            whole=tool.shown_whole, always=guard.covers, reason="\n".join(filter(None, told)),
            host=guard.host, workdir=str(self._workdir), call_id=call_id, schema=find_schema(tool),
        )  # fmt: skip
        answer = await ask_person(self._scope, request, lambda: self._is_covered(tool, guard))
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


def _make_denial(tool: Tool, reason: str) -> PermissionDenied:
    return PermissionDenied(f"permission denied for {tool.name}: {reason}")


def _describe(guard: Guard) -> str:
    """The reason that a call needs approval, as a clause."""
    if guard.floor == "ask":
        return guard.reason
    return f"connecting to {guard.host} needs approval" if guard.host else "it needs approval"
