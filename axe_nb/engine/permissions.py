"""Permissions of tools in a run: its mode and `[permissions]`, and those of every run above.

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
    """A question for the user: approval of a call, or a model's own question."""

    run: str
    """Id of the run that asks."""
    agent: str
    tool: str
    arguments: Mapping[str, Any]
    detail: str = ""
    """A diff of the changes that the call would make, or the model's question."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's answer."""

    choice: Choice
    text: str = ""
    """For `text`: the answer to a model's question. For `no`: the reason, if given."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """For `edit`: the arguments to run instead."""


AskPerson: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision]]
"""Asks the user at the notebook or terminal. Cassettes record and replay the answers (D-48)."""


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """Permissions of one run, with reasons for denials; never laxer than the parent's (D-19)."""

    agent: Agent
    """The agent whose file holds the run's `[permissions]`; for a copy, the caller."""
    mode: Mode
    above: PermissionPolicy | None = None
    mode_of: Agent | None = None
    """The agent whose file holds the `mode` that applies; None = `agent`."""
    by_call: bool = False
    """True if the mode was set by the call that started the run, not by a file."""

    @classmethod
    def below(
        cls,
        parent: PermissionPolicy,
        agent: Agent,
        wish: Mode | None = None,
        *,
        is_copy: bool = False,
    ) -> PermissionPolicy:
        """The policy of a child: the strictest of the parent's mode, its own and `wish` (D-47)."""
        inherits = parent.agent.sub_agents_config.inherit_mode and agent.mode != "plan"
        own = _pick_stricter(parent.mode, parent.mode if inherits else agent.mode)
        mode = _pick_stricter(own, wish or own)
        owner = parent.agent if is_copy else agent
        mode_of = (parent.mode_of or parent.agent) if mode == parent.mode else owner
        return cls(owner, mode, parent, mode_of, by_call=mode != own)

    def decide(self, tool: Tool) -> tuple[Verdict, str]:
        """The verdict for a tool and, for a denial, the reason with the key to change."""
        if self.above is None:
            return self._decide_own(tool)
        if tool.denied_below:
            return "deny", tool.denied_below
        decision, why = self.above.decide(tool)
        if decision == "deny":
            return decision, why
        own, reason = self._decide_own(tool)
        if decision == "ask" or (own == "ask" and self.above.mode != "auto"):
            if own != "deny" and self.may_ask:
                return "ask", ""
            asker = self.above if decision == "ask" else self
            return "deny", f"sub-agents cannot ask; set {asker.keys(tool)}"
        return ("allow", "") if own == "ask" else (own, reason)

    @property
    def may_ask(self) -> bool:
        """True if the user may be asked, which every agent above has to allow (D-56)."""
        if self.above is None:
            return True
        return self.above.agent.sub_agents_config.ask == "person" and self.above.may_ask

    def offers(self, tool: Tool) -> bool:
        """True if the tool is offered to the model; plan mode offers only allowed tools."""
        if tool.denied_below and self.above is not None:
            return False
        return self.mode != "plan" or self.decide(tool)[0] == "allow"

    def keys(self, tool: Tool) -> str:
        """The settings, with their file, that would allow the tool without asking."""
        mode, allow = 'mode = "auto"', f'permissions.{tool.name} = "allow"'
        there, here = _format_file(self.mode_of or self.agent), _format_file(self.agent)
        if there == here:
            return f"{mode} or {allow} in {here}"
        return f"{mode} in {there} or {allow} in {here}"

    def _decide_own(self, tool: Tool) -> tuple[Verdict, str]:
        if self.mode == "plan" and not (tool.effect == "read" or tool.in_plan):
            return "deny", f"it is not allowed in plan mode; {self._format_mode_hint()}"
        key, written = self._find_rule(tool)
        if written == "deny":
            key = f"permissions.{key}"
            file = _format_file(self.agent)
            return "deny", f'{key} is "deny" in {file}; set it to "allow" or "ask"'
        if written:
            return written, ""
        return ("ask" if self.mode == "ask" and tool.effect == "write" else "allow"), ""

    def _find_rule(self, tool: Tool) -> tuple[str, Verdict | None]:
        """The applicable key and value of `[permissions]`: by exact name, else the strictest."""
        rules: Mapping[str, Any] = self.agent.permissions
        keys = [key for key in rules if tool.name in REGISTRY.expand(key)]
        if tool.name in rules or not keys:
            return tool.name, rules.get(tool.name)
        key = min(keys, key=lambda key: VERDICTS.index(rules[key]))
        return key, rules[key]

    def _format_mode_hint(self) -> str:
        if self.by_call:
            return "the call that started the sub-agent requested this mode"
        return f'set mode = "auto" in {_format_file(self.mode_of or self.agent)}'


def _pick_stricter(one: Mode, other: Mode) -> Mode:
    return min(one, other, key=MODES.index)


def _format_file(agent: Agent) -> str:
    return f"{agent.name}.toml"
