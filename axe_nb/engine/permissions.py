"""Tool permissions of a run, from the modes and `[permissions]` of the run and its ancestors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import MODES, Mode
from axe_nb.agents.names import ANY, is_allowed
from axe_nb.agents.trust import COMMANDS, NEXT_STEP
from axe_nb.engine.toolbox import REGISTRY
from axe_nb.text import printable, quote
from axe_nb.tools.tool import VERDICTS, Effect, Guard, Tool, Verdict

OF_MODE: Mapping[Mode, Mapping[Effect, Verdict]] = {
    "plan": {
        "read": "allow", "user": "deny", "network": "ask", "write": "deny", "delegate": "deny",
    },
    "ask": {
        "read": "allow", "user": "allow", "network": "ask", "write": "ask", "delegate": "allow",
    },
    "auto": {
        "read": "allow", "user": "allow", "network": "allow", "write": "allow", "delegate": "allow",
    },
}  # fmt: skip
"""Verdict for a tool without an entry in `[permissions]`, keyed by mode and effect (D-19).

Plan mode also allows tools with `in_plan`. Hosts in `allowed_hosts` need no approval (D-50)."""


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """Decides whether a run may use a tool; never laxer than the parent run's policy (D-19)."""

    agent: Agent
    """Agent whose `[permissions]` apply: the run's agent or, if that is a copy, the original."""
    mode: Mode
    above: PermissionPolicy | None = None
    mode_by: Literal["call", "option"] | None = None
    """Source of `mode`: the call that started the run, or an option such as `--mode`. None if the
    mode is inherited or comes from the agent's file."""

    def child(
        self, agent: Agent, wish: Mode | None = None, *, is_copy: bool = False
    ) -> PermissionPolicy:
        """Creates a child's policy, with the strictest of this run's mode, `agent.mode` and `wish`.

        If this run's agent sets `inherit_mode`, `agent.mode` counts only if it is `plan` or the
        child's agent is untrusted.
        """
        is_stricter = agent.mode == "plan" or agent.is_restricted
        inherits = self.agent.sub_agents_config.inherit_mode and not is_stricter
        own = self.mode if inherits else min(self.mode, agent.mode, key=MODES.index)
        mode = min(own, wish or own, key=MODES.index)
        owner = self.agent if is_copy else agent
        return PermissionPolicy(owner, mode, self, None if mode == own else "call")

    def decide(self, tool: Tool, guard: Guard | None = None) -> tuple[Verdict, str]:
        """Returns the verdict on a tool, or on a call with a guard, and the reason for a denial."""
        guard = guard or Guard()
        verdict, reason = self._decide_tool(tool, guard.host)
        if verdict == "deny" or guard.floor == "allow":
            return verdict, reason
        if guard.floor == "deny":
            return "deny", guard.reason
        if self.may_ask:
            return "ask", ""
        return "deny", f"{guard.reason}; sub-agents cannot ask; {self.next_step(tool, guard)}"

    def _decide_tool(self, tool: Tool, host: str) -> tuple[Verdict, str]:
        """Returns the strictest verdict of this run and those above, and the reason for a denial.

        If the parent's mode is auto, it usually approves what this run would ask for (D-47).
        Otherwise `ask` becomes a denial if the run may not ask the user (D-56). An untrusted agent
        has no commands and no MCP servers, and cannot allow its children to use them (D-81).
        """
        own, own_reason = self._decide_own(tool, host)
        if own == "allow" and _lacks(self.agent, tool):
            own = "ask"
        if self.above is None:
            return own, own_reason
        if tool.denied_below:
            return "deny", tool.denied_below
        above, reason = self.above._decide_tool(tool, host)
        # a parent in mode auto approves what its children would ask for (D-47), except network
        # access in plan mode (D-50), and except calls of untrusted agents (D-81)
        asks = self.agent.is_restricted or (tool.effect == "network" and self.mode == "plan")
        if own == "ask" and self.above.mode == "auto" and not asks:
            own = "allow"
        verdict = min(above, own, key=VERDICTS.index)
        if verdict == "ask" and not self.may_ask:
            asker = self.above if above == "ask" else self
            lacking = [agent for agent in self.agents if _lacks(agent, tool)]
            files = " and ".join(dict.fromkeys(map(_format_file, self._list_askers(tool, host))))
            step = _ask_trust(lacking[0]) if lacking else asker._tell_keys(tool, host, files)
            return "deny", f"sub-agents cannot ask; {step}"
        return verdict, reason if above == "deny" else own_reason

    @property
    def agents(self) -> tuple[Agent, ...]:
        return (self.agent, *(self.above.agents if self.above else ()))

    @property
    def may_ask(self) -> bool:
        """True if the run may ask the user, because every agent above it allows that (D-56)."""
        return all(agent.sub_agents_config.ask == "person" for agent in self.agents[1:])

    def offers(self, tool: Tool) -> bool:
        """True if the model is offered this tool: in plan mode, only allowed and network tools."""
        if self.mode != "plan":
            return self.above is None or not tool.denied_below
        verdict, _ = self.decide(tool)
        return verdict == "allow" or (verdict == "ask" and tool.effect == "network")

    def next_step(self, tool: Tool, guard: Guard) -> str:
        """Returns advice for the user on a call that needs approval when no one can be asked."""
        if guard.floor == "allow":
            return self._tell_keys(tool, guard.host)
        if guard.key:
            return f"set {guard.key} in {_format_file(self.agent)}"
        if self.may_ask:
            return "approve it in a notebook or terminal, or do it yourself"
        silent = next(one for one in self.agents[1:] if one.sub_agents_config.ask != "person")
        return f'set sub_agents_config.ask = "person" in {_format_file(silent)}'

    def _list_askers(self, tool: Tool, host: str) -> Iterator[Agent]:
        """Yields the agents, from the root down, whose own settings require approval for a tool."""
        if self.above is not None:
            yield from self.above._list_askers(tool, host)
        if self._decide_own(tool, host)[0] == "ask":
            yield self.agent

    def _tell_keys(self, tool: Tool, host: str, files: str = "") -> str:
        if self.agent.lacks_entries:
            return _ask_trust(self.agent)
        # without trust, such settings in its file would be left out
        trust = f"{_ask_trust(self.agent)}, then " if self.agent.is_restricted else ""
        if tool.effect == "network" and host and self._find_rule(tool)[1] != "ask":
            pattern = ANY if tool.by_server else host
            return f"{trust}set allowed_hosts = [{quote(pattern)}] in {_format_file(self.agent)}"
        mode, allow = 'set mode = "auto"', f'permissions.{tool.name} = "allow"'
        here, source = files or _format_file(self.agent), self._find_mode_source()
        if source.mode_by == "option":
            by_run = 'start the run with --mode auto (in Python: mode="auto")'
            return f"{trust}set {allow} in {here}, or {by_run}"
        there = here if source.mode_by else _format_file(source.agent)
        place = "" if there == here else f" in {there}"
        return f"{trust}{mode}{place} or {allow} in {here}"

    def _find_mode_source(self) -> PermissionPolicy:
        if self.above is None or self.mode != self.above.mode:
            return self
        return self.above._find_mode_source()

    def _decide_own(self, tool: Tool, host: str) -> tuple[Verdict, str]:
        by_mode = OF_MODE[self.mode][tool.effect]
        if by_mode == "deny" and not tool.in_plan:
            source = self._find_mode_source()
            step = f'set mode = "ask" or mode = "auto" in {_format_file(source.agent)}'
            if source.mode_by == "call":
                step = "the call that started the sub-agent requested this mode"
            elif source.mode_by == "option":
                step = 'start the run with --mode ask or --mode auto (in Python: mode="ask")'
            return "deny", f"it is not allowed in plan mode; {step}"
        key, written = self._find_rule(tool)
        if written == "deny":
            file = _format_file(self.agent)
            return "deny", f'permissions.{key} is "deny" in {file}; set it to "allow" or "ask"'
        is_network = tool.effect == "network"
        if by_mode == "deny" or (is_network and is_allowed(host, self.agent.allowed_hosts)):
            by_mode = "allow"
        if is_network and written == "allow" and self.mode == "plan":  # allows no host (D-50)
            written = None
        return written or by_mode, ""

    def _find_rule(self, tool: Tool) -> tuple[str, Verdict | None]:
        """Returns the key and verdict of the `[permissions]` entry that applies to a tool.

        An entry for the tool itself takes precedence over the strictest entry for a toolset, alias
        or MCP server that contains the tool. The verdict is None if no entry applies.
        """
        rules: Mapping[str, Any] = self.agent.permissions
        if tool.name in rules:
            return tool.name, rules[tool.name]
        keys = [key for key in rules if key == tool.server or tool.name in REGISTRY.expand(key)]
        if not keys:
            return tool.name, None
        key = min(keys, key=lambda key: VERDICTS.index(rules[key]))
        return key, rules[key]


def _lacks(agent: Agent, tool: Tool) -> bool:
    """True if a tool is a command or MCP tool, and `agent` is untrusted and has no such tools."""
    if tool.server:
        return agent.is_restricted and not agent.mcp_servers
    return agent.is_restricted and tool.name in COMMANDS and COMMANDS.isdisjoint(agent.tools)


def _ask_trust(agent: Agent) -> str:
    return f"the project of agent {quote(agent.name)} is not trusted: {NEXT_STEP}"


def _format_file(agent: Agent) -> str:
    if agent.path:
        return printable(Path(agent.path).name)
    return f"agent {quote(agent.name)}" if agent.name else "an agent of your own"
