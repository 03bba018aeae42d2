"""What a tool may do in a run: the mode, the `[permissions]`, and those of every run above.

Source: D-19, D-47, D-48; seed 003 §8 (O-19, O-25, O-32, O-35, O-36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from axe_nb.agent import MODES, Agent, Mode
from axe_nb.tool import Tool

Decision = Literal["allow", "ask", "deny"]

IN_PLAN = frozenset({"call_agent", "subagent"})
"""Delegation tools that a run in plan mode may use; its children are in plan mode too."""

Choice = Literal["yes", "no", "always", "edit", "stop", "text"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: whether a call may run, or what a model wants to know."""

    run: str
    """Place of the run that asks."""
    agent: str
    tool: str
    arguments: Mapping[str, Any]
    detail: str = ""
    """What the call would change, as a difference; or the model's question."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person said."""

    choice: Choice
    text: str = ""
    """Of `text`: the answer to a model's question. Of `no`: why, if they said."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of `edit`: the arguments to run instead."""


Consult: TypeAlias = Callable[[Question], Awaitable[Answer]]
"""Asks the person at the notebook or terminal. Cassettes record and replay it (D-48)."""


@dataclass(frozen=True, slots=True)
class Permit:
    """What one run may do, and why not; never more than the run above it (D-19)."""

    agent: Agent
    """Whose `mode` and `[permissions]` these are."""
    mode: Mode
    above: Permit | None = None

    @classmethod
    def below(cls, parent: Permit, agent: Agent, mode: Mode | None = None) -> Permit:
        """The permit of a child: the parent's mode, or its own where that is stricter (D-47)."""
        inherits = parent.agent.sub_agents_config.inherit_mode
        wished = [mode, parent.mode if inherits and agent.mode != "plan" else agent.mode]
        strictest = min(MODES.index(m) for m in (*wished, parent.mode) if m is not None)
        return cls(agent, _mode(strictest), parent)

    def decide(self, tool: Tool) -> tuple[Decision, str]:
        """The decision for a tool, and for a denial the reason: whose key to change."""
        own, reason = self._own(tool)
        if self.above is None:
            return own, reason
        decision, why = self.above.decide(tool)
        if decision == "deny":
            return decision, why
        if decision == "ask" or (own == "ask" and self.above.mode != "auto"):
            asker = self.above if decision == "ask" else self
            return "deny", f"sub-agents cannot ask; set {_keys(tool, asker.agent)}"
        return ("allow", "") if own == "ask" else (own, reason)

    def offers(self, tool: Tool) -> bool:
        """Whether the model is told of the tool: in plan mode, only of what it may use."""
        return self.mode != "plan" or self.decide(tool)[0] == "allow"

    def _own(self, tool: Tool) -> tuple[Decision, str]:
        written = self.agent.permissions.get(tool.name)
        if self.mode == "plan" and not (tool.effect == "read" or tool.name in IN_PLAN):
            return "deny", f"it is not allowed in plan mode; set {_keys(tool, self._strictest())}"
        if written == "deny":
            key = f"permissions.{tool.name}"
            return "deny", f'{key} is "deny" in {_file(self.agent)}; set it to "allow" or "ask"'
        if written:
            return ("allow" if written == "allow" else "ask"), ""
        if self.mode == "ask" and tool.effect == "write":
            return "ask", ""
        return "allow", ""

    def _strictest(self) -> Agent:
        """The nearest agent above whose mode brought this one about."""
        if self.above is not None and self.above.mode == self.mode:
            return self.above._strictest()
        return self.agent


def nobody(tool: Tool, agent: Agent) -> str:
    """Why a call that needs a yes is denied where nobody can give it."""
    return f"it needs a yes, and nobody can be asked here; set {_keys(tool, agent)}"


def _mode(index: int) -> Mode:
    return ("plan", "ask", "auto")[index]  # type: ignore[return-value]  # literals, by position


def _keys(tool: Tool, agent: Agent) -> str:
    return f'mode = "auto" or permissions.{tool.name} = "allow" in {_file(agent)}'


def _file(agent: Agent) -> str:
    return f"{agent.name}.toml"
