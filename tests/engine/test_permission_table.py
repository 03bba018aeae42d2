"""The verdict for a tool, row by row: of one run, and of a run and its parent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from axe_nb import Agent
from axe_nb.agents.agent_tables import MODES, Mode, SubAgentsConfig
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.tools.tool import Effect, Guard, Verdict
from tests.delegation.copies import tool

HOST = "a.example"

OWN: dict[tuple[Effect, Mode], str] = {
    # written:             nothing allow ask deny
    ("read", "plan"):     "allow   allow ask deny",
    ("read", "ask"):      "allow   allow ask deny",
    ("read", "auto"):     "allow   allow ask deny",
    ("user", "plan"):     "deny    deny  deny deny",
    ("user", "ask"):      "allow   allow ask deny",
    ("user", "auto"):     "allow   allow ask deny",
    ("write", "plan"):    "deny    deny  deny deny",
    ("write", "ask"):     "ask     allow ask deny",
    ("write", "auto"):    "allow   allow ask deny",
    ("delegate", "plan"): "deny    deny  deny deny",
    ("delegate", "ask"):  "allow   allow ask deny",
    ("delegate", "auto"): "allow   allow ask deny",
    ("network", "plan"):  "ask     ask   ask deny",
    ("network", "ask"):   "ask     allow ask deny",
    ("network", "auto"):  "allow   allow ask deny",
}  # fmt: skip

KNOWN_HOST: dict[Mode, str] = {
    "plan": "allow   allow ask deny",
    "ask":  "allow   allow ask deny",
    "auto": "allow   allow ask deny",
}  # fmt: skip

BELOW: dict[tuple[Verdict, Verdict], Verdict] = {
    # (parent, child's own): verdict
    ("allow", "allow"): "allow",
    ("allow", "ask"):   "ask",
    ("allow", "deny"):  "deny",
    ("ask", "allow"):   "ask",
    ("ask", "ask"):     "ask",
    ("ask", "deny"):    "deny",
    ("deny", "allow"):  "deny",
    ("deny", "ask"):    "deny",
    ("deny", "deny"):   "deny",
}  # fmt: skip


def policy(
    mode: Mode, written: str | None, *, hosts: tuple[str, ...] = (), ask: Any = "deny"
) -> PermissionPolicy:
    """The policy of a root with these settings."""
    permissions = {"it": written} if written else {}
    config = SubAgentsConfig(ask=ask, inherit_mode=False)
    agent = Agent(
        "a", "script/a", mode=mode, permissions=permissions, allowed_hosts=hosts,
        sub_agents_config=config,
    )  # fmt: skip
    return PermissionPolicy(agent, mode)


def row(effect: Effect, mode: Mode, **settings: Any) -> list[str]:
    guard = Guard(host=HOST)
    return [
        policy(mode, written, **settings).decide(tool("it", effect), guard)[0]
        for written in (None, "allow", "ask", "deny")
    ]


@pytest.mark.req("D-19", "D-50")
@pytest.mark.parametrize(("effect", "mode"), OWN)
def test_the_verdict_of_one_run(effect: Effect, mode: Mode) -> None:
    assert row(effect, mode) == OWN[effect, mode].split()


@pytest.mark.req("D-50")
@pytest.mark.parametrize("mode", MODES)
def test_the_verdict_for_a_host_that_the_agent_allows(mode: Mode) -> None:
    assert row("network", mode, hosts=(HOST,)) == KNOWN_HOST[mode].split()


@pytest.mark.req("D-19")
def test_a_way_to_delegate_that_reads_only_is_allowed_in_plan_mode() -> None:
    way = replace(tool("it", "delegate"), in_plan=True)
    verdicts = [policy("plan", w).decide(way)[0] for w in (None, "allow", "ask", "deny")]
    assert verdicts == ["allow", "allow", "ask", "deny"]


@pytest.mark.req("D-19", "D-47", "D-56")
@pytest.mark.parametrize("may_ask", [True, False])
@pytest.mark.parametrize(("above", "own"), BELOW)
def test_the_verdict_of_a_child(above: Verdict, own: Verdict, may_ask: bool) -> None:
    parent = policy("ask", above, ask="person" if may_ask else "deny")
    child = parent.child(policy("ask", own).agent)
    verdict, reason = child.decide(tool("it"))
    expected = BELOW[above, own]
    assert verdict == ("deny" if expected == "ask" and not may_ask else expected)
    assert ("sub-agents cannot ask" in reason) == (expected == "ask" and not may_ask)


@pytest.mark.req("D-47", "D-50")
def test_a_child_below_auto_asks_only_before_it_sends_something_from_plan_mode() -> None:
    parent = policy("auto", None, ask="person")
    for effect, mode, verdict in (
        ("write", "ask", "allow"), ("network", "ask", "allow"), ("network", "plan", "ask"),
    ):  # fmt: skip
        child = parent.child(policy(mode, None).agent)  # type: ignore[arg-type]
        assert child.decide(tool("it", effect), Guard(host=HOST))[0] == verdict  # type: ignore[arg-type]
