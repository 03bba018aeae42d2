"""Authorization of calls: the policy of the run, the guard of the tool, and the person's answer.

Source: D-19, D-48, D-50, D-83; seed 000 §3.8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axe_nb.engine.ask_person import ask_person, find_person
from axe_nb.engine.questions import ApprovalRequest, AskPerson, Decision
from axe_nb.engine.scope import RunScope
from axe_nb.engine.stepping import find_schema
from axe_nb.threads import in_thread
from axe_nb.tools.tool import CallSite, Guard, PermissionDenied, Tool

WHOLE_TOOL = "this tool"
"""The calls that "always" covers for a tool without a guard."""

ALLOWED = {"yes": "allowed by the user", "always": "always allowed by the user"}

DENIED = "denied by the user"
"""Notes of calls that the person was asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Permission for one call."""

    arguments: Mapping[str, Any]
    """The arguments to run with."""
    guard: Guard | None
    """The guard's answer for these arguments."""
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

        Args:
            tool: the tool.
            arguments: those of the call.
            call_id: its id.

        Raises:
            PermissionDenied: the call is denied; the message names the key to change.
            ToolError: its guard rejects the arguments.
            RunStopped: the person stopped the run.
        """
        if tool.guard is None and not self._needs_approval(tool, None):
            return Permit(arguments=arguments, guard=None)
        verdict, reason = self._scope.policy.decide(tool)
        if verdict == "deny" and tool.effect != "network":  # no host is known yet
            raise PermissionDenied(f"permission denied for {tool.name}: {reason}")
        async with self._guard_lock:  # so that questions keep the order of the calls
            guard = await self._ask_guard(tool, arguments)
        if self._needs_approval(tool, guard):
            async with self._prompt_lock:
                if self._needs_approval(tool, guard):  # else: covered by the previous answer
                    return await self._ask_approval(tool, arguments, guard, call_id)
        return Permit(arguments=arguments, guard=guard)

    @property
    def person(self) -> AskPerson | None:
        """The one who answers questions, or the recorded answers of one; None = there is none."""
        return find_person(self._scope)

    def allows_host(self, tool: Tool, host: str) -> bool:
        """True if a call may reach a host without asking (D-50)."""
        verdict, _ = self._scope.policy.decide(tool, Guard(host=host))
        return verdict == "allow" or (verdict == "ask" and self._is_allowed(host))

    def _is_allowed(self, host: str) -> bool:
        """True if an answer has allowed a host, in this session or in a recording of this tree."""
        env = self._scope.env
        return host in env.hosts or bool(env.tape and host in env.tape.hosts)

    async def ask_question(self, call_id: str, question: str) -> str:
        """Returns the person's answer to a question of the model, asked by a call."""
        async with self._prompt_lock:
            request = ApprovalRequest(
                self._scope.id, self._scope.name, "", {}, question, call_id=call_id
            )
            return (await ask_person(self._scope, request)).text

    async def _ask_guard(self, tool: Tool, arguments: Mapping[str, Any]) -> Guard | None:
        if tool.guard is None:
            return None
        site = CallSite(
            agents=self._scope.policy.agents,
            workdir=self._workdir,
            sources=frozenset(self._scope.env.sources),
        )
        return await in_thread(tool.guard, arguments, site)  # it may look at files

    def _needs_approval(self, tool: Tool, guard: Guard | None) -> bool:
        """True if the person has to be asked for a call.

        Raises:
            PermissionDenied: the call is denied.
        """
        policy = self._scope.policy
        verdict, reason = policy.decide(tool, guard)
        if verdict == "ask" and self._is_covered(tool, guard):
            return False
        if verdict == "ask" and self.person is None:
            verdict = "deny"
            reason = (
                f"{_need(guard)}, and no one can be prompted here; {policy.next_step(tool, guard)}"
            )
            self.unasked[tool.name] = reason
        if verdict == "deny":
            raise PermissionDenied(f"permission denied for {tool.name}: {reason}")
        return verdict == "ask"

    def _is_covered(self, tool: Tool, guard: Guard | None) -> bool:
        """True if an earlier answer holds for the call too."""
        if guard and guard.host and guard.floor == "allow" and self._is_allowed(guard.host):
            return True
        return (tool.name, _covers(guard)) in self._covered

    async def _ask_approval(
        self, tool: Tool, arguments: Mapping[str, Any], guard: Guard | None, call_id: str
    ) -> Permit:
        """Asks the person for approval; they may edit the arguments.

        Raises:
            PermissionDenied: the person denied the call, or edited it to one that is denied.
            RunStopped: the person stopped the run.
        """
        request = await self._make_request(tool, arguments, guard, call_id)
        answer = await ask_person(self._scope, request)
        match answer.choice:
            case "yes" | "always":
                self._remember(tool, guard, answer)
                return Permit(arguments=arguments, guard=guard, note=ALLOWED[answer.choice])
            case "edit":
                return await self._check_edited(tool, answer, guard, call_id)
            case _:
                why = f": {answer.text}" if answer.text else ""
                raise PermissionDenied(
                    f"permission denied for {tool.name} by the user{why}", DENIED
                )

    async def _check_edited(
        self, tool: Tool, answer: Decision, asked: Guard | None, call_id: str
    ) -> Permit:
        """Permits the call as the person typed it, unless it now needs another approval."""
        arguments = answer.arguments
        guard = await self._ask_guard(tool, arguments)
        verdict, reason = self._scope.policy.decide(tool, guard)
        if verdict == "deny":
            raise PermissionDenied(f"permission denied for {tool.name}: {reason}")
        permit = Permit(arguments=arguments, guard=guard)
        if guard and guard.floor == "ask" and guard.reason != (asked.reason if asked else ""):
            permit = await self._ask_approval(tool, arguments, guard, call_id)
        else:
            self._remember(tool, guard, answer)
        return Permit(arguments=permit.arguments, guard=permit.guard, is_edited=True)

    def _remember(self, tool: Tool, guard: Guard | None, answer: Decision) -> None:
        env = self._scope.env
        if guard and guard.host and answer.is_recorded and env.tape:
            env.tape.hosts.add(guard.host)
        elif guard and guard.host:
            env.hosts[guard.host] = None
        if answer.choice == "always" and _covers(guard):
            self._covered.add((tool.name, _covers(guard)))

    async def _make_request(
        self, tool: Tool, arguments: Mapping[str, Any], guard: Guard | None, call_id: str
    ) -> ApprovalRequest:
        detail = ""
        if tool.preview:  # it reads files
            detail = await in_thread(tool.preview, arguments, self._workdir)
        told = [guard.reason if guard.floor == "ask" else "", guard.note] if guard else []
        return ApprovalRequest(
            self._scope.id,
            self._scope.name,
            tool.name,
            arguments,
            detail,
            whole=tool.shown_whole,
            always=_covers(guard),
            reason="\n".join(filter(None, told)),
            host=guard.host if guard else "",
            workdir=str(self._workdir),
            call_id=call_id,
            schema=find_schema(tool),
        )


def _covers(guard: Guard | None) -> str:
    """The later calls that "always" covers; empty = none."""
    return WHOLE_TOOL if guard is None else guard.covers


def _need(guard: Guard | None) -> str:
    """The reason that a call needs approval, as a clause."""
    if guard and guard.floor == "ask":
        return guard.reason
    return (
        f"connecting to {guard.host} needs approval"
        if guard and guard.host
        else "it needs approval"
    )
