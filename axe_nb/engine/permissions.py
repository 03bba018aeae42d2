"""What a tool may do in a run: the mode, the `[permissions]`, and those of every run above.

Source: D-19, D-47, D-48; seed 003 §8 (O-19, O-25, O-32, O-35, O-36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.tables import MODES, Mode
from axe_nb.toolbox import REGISTRY
from axe_nb.tools.tool import Tool

Verdict = Literal["deny", "ask", "allow"]
VERDICTS = ("deny", "ask", "allow")
"""Strictest first."""

Choice = Literal["yes", "no", "always", "edit", "stop", "text"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked: whether a call may run, or what a model wants to know."""

    run: str
    """Place of the run that asks."""
    agent: str
    tool: str
    arguments: Mapping[str, Any]
    detail: str = ""
    """What the call would change, as a difference; or the model's question."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the person said."""

    choice: Choice
    text: str = ""
    """Of `text`: the answer to a model's question. Of `no`: why, if they said."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of `edit`: the arguments to run instead."""


AskPerson: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision]]
"""Asks the person at the notebook or terminal. Cassettes record and replay it (D-48)."""


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """What one run may do, and why not; never more than the run above it (D-19)."""

    agent: Agent
    """In whose file the run's `[permissions]` stand; a copy's in its caller's."""
    mode: Mode
    above: PermissionPolicy | None = None
    mode_of: Agent | None = None
    """In whose file the `mode` stands that makes this one so strict; None = in the agent's."""
    by_call: bool = False
    """Whether it is no file, but the call that started the run."""

    @classmethod
    def below(
        cls,
        parent: PermissionPolicy,
        agent: Agent,
        wish: Mode | None = None,
        *,
        is_copy: bool = False,
    ) -> PermissionPolicy:
        """The policy of a child: the parent's mode, or its own or `wish` if stricter (D-47)."""
        inherits = parent.agent.sub_agents_config.inherit_mode and agent.mode != "plan"
        own = _stricter(parent.mode, parent.mode if inherits else agent.mode)
        mode = _stricter(own, wish or own)
        owner = parent.agent if is_copy else agent
        mode_of = (parent.mode_of or parent.agent) if mode == parent.mode else owner
        return cls(owner, mode, parent, mode_of, by_call=mode != own)

    def decide(self, tool: Tool) -> tuple[Verdict, str]:
        """The decision for a tool, and for a denial the reason: whose key to change."""
        if self.above is None:
            return self._own(tool)
        if tool.denied_below:
            return "deny", tool.denied_below
        decision, why = self.above.decide(tool)
        if decision == "deny":
            return decision, why
        own, reason = self._own(tool)
        if decision == "ask" or (own == "ask" and self.above.mode != "auto"):
            if own != "deny" and self.may_ask:
                return "ask", ""
            asker = self.above if decision == "ask" else self
            return "deny", f"sub-agents cannot ask; set {asker.keys(tool)}"
        return ("allow", "") if own == "ask" else (own, reason)

    @property
    def may_ask(self) -> bool:
        """Whether the person may be asked, which every agent above has to allow (D-56)."""
        if self.above is None:
            return True
        return self.above.agent.sub_agents_config.ask == "person" and self.above.may_ask

    def offers(self, tool: Tool) -> bool:
        """Whether the model is told of the tool; in plan mode, only of what it may use."""
        if tool.denied_below and self.above is not None:
            return False
        return self.mode != "plan" or self.decide(tool)[0] == "allow"

    def keys(self, tool: Tool) -> str:
        """What to change, and where, for the tool to be allowed without a question."""
        mode, allow = 'mode = "auto"', f'permissions.{tool.name} = "allow"'
        there, here = _file(self.mode_of or self.agent), _file(self.agent)
        if there == here:
            return f"{mode} or {allow} in {here}"
        return f"{mode} in {there} or {allow} in {here}"

    def _own(self, tool: Tool) -> tuple[Verdict, str]:
        if self.mode == "plan" and not (tool.effect == "read" or tool.in_plan):
            return "deny", f"it is not allowed in plan mode; {self._way_out()}"
        key, written = self._written(tool)
        if written == "deny":
            key = f"permissions.{key}"
            return "deny", f'{key} is "deny" in {_file(self.agent)}; set it to "allow" or "ask"'
        if written:
            return written, ""
        return ("ask" if self.mode == "ask" and tool.effect == "write" else "allow"), ""

    def _written(self, tool: Tool) -> tuple[str, Verdict | None]:
        """What `[permissions]` says of the tool, and by which key: its name, else the strictest."""
        rules: Mapping[str, Any] = self.agent.permissions
        keys = [key for key in rules if tool.name in REGISTRY.expand(key)]
        if tool.name in rules or not keys:
            return tool.name, rules.get(tool.name)
        key = min(keys, key=lambda key: VERDICTS.index(rules[key]))
        return key, rules[key]

    def _way_out(self) -> str:
        if self.by_call:
            return "the call that started the sub-agent asked for it"
        return f'set mode = "auto" in {_file(self.mode_of or self.agent)}'


def _stricter(one: Mode, other: Mode) -> Mode:
    return min(one, other, key=MODES.index)


def _file(agent: Agent) -> str:
    return f"{agent.name}.toml"
