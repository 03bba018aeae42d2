"""The verdict for a tool, row by row: of one run, and of a run and its parent.

And for every combination of root, child and grandchild: nobody below may do more than those above.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from axe_nb import Agent
from axe_nb.agents.agent_tables import MODES, Mode, SubAgentsConfig
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.tools.tool import VERDICTS, Effect, Guard, Tool, Verdict
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


@cache
def one(effect: Effect) -> Tool:
    return tool("it", effect)


@cache
def member(
    mode: Mode, written: str | None, ask: Any = "deny", inherit: bool = False, host: bool = False
) -> Agent:
    return Agent(
        "a", "script/a", mode=mode, permissions={"it": written} if written else {},
        allowed_hosts=(HOST,) if host else (),
        sub_agents_config=SubAgentsConfig(ask=ask, inherit_mode=inherit),
    )  # fmt: skip


def policy(mode: Mode, written: str | None, **settings: Any) -> PermissionPolicy:
    return PermissionPolicy(member(mode, written, **settings), mode)


def row(effect: Effect, mode: Mode, **settings: Any) -> list[str]:
    guard = Guard(host=HOST)
    return [
        policy(mode, written, **settings).decide(one(effect), guard)[0]
        for written in (None, "allow", "ask", "deny")
    ]


@pytest.mark.req("D-19", "D-50")
@pytest.mark.parametrize(("effect", "mode"), OWN)
def test_the_verdict_of_one_run(effect: Effect, mode: Mode) -> None:
    assert row(effect, mode) == OWN[effect, mode].split()


@pytest.mark.req("D-50")
@pytest.mark.parametrize("mode", MODES)
def test_the_verdict_for_a_host_that_the_agent_allows(mode: Mode) -> None:
    assert row("network", mode, host=True) == ["allow", "allow", "ask", "deny"]


@pytest.mark.req("D-19")
def test_a_way_to_delegate_that_reads_only_is_allowed_in_plan_mode() -> None:
    way = replace(tool("it", "delegate"), in_plan=True)
    verdicts = [policy("plan", w).decide(way)[0] for w in (None, "allow", "ask", "deny")]
    assert verdicts == ["allow", "allow", "ask", "deny"]


@pytest.mark.req("D-19", "D-47", "D-56")
@pytest.mark.parametrize("may_ask", [True, False])
@pytest.mark.parametrize(("above", "own"), [*itertools.product(VERDICTS, VERDICTS)])
def test_the_verdict_of_a_child(above: Verdict, own: Verdict, may_ask: bool) -> None:
    parent = policy("ask", above, ask="person" if may_ask else "deny")
    child = parent.child(policy("ask", own).agent)
    verdict, reason = child.decide(tool("it"))
    expected = min(above, own, key=order)
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


WRITTEN = (None, "allow", "ask", "deny")
ASK = ("deny", "person")

GUARDS: Mapping[str | None, Guard | None] = {
    None: None,
    **{floor: Guard(floor=floor, reason="it is precious", host=HOST) for floor in VERDICTS},
}


def members(
    hosts: tuple[bool, ...] = (False,),
    ask: tuple[str, ...] = ASK,
    inherit: tuple[bool, ...] = (True, False),
) -> list[Agent]:
    """Every agent that differs in what counts for permissions."""
    return [member(*fields) for fields in itertools.product(MODES, WRITTEN, ask, inherit, hosts)]


def leaves(hosts: tuple[bool, ...]) -> list[Agent]:
    """The same of agents that have no children."""
    return [
        member(mode, written, "deny", True, host)
        for mode, written, host in itertools.product(MODES, WRITTEN, hosts)
    ]


def order(verdict: str) -> int:
    return VERDICTS.index(verdict)  # type: ignore[arg-type]


def chains(
    above: list[Agent], hosts: tuple[bool, ...] = (False,)
) -> Iterator[tuple[PermissionPolicy, ...]]:
    """(root, child, grandchild), each a policy; the first two of the given agents."""
    for root_agent, child_agent in itertools.product(above, above):
        root = PermissionPolicy(root_agent, root_agent.mode)
        child = root.child(child_agent)
        for leaf in leaves(hosts):
            yield root, child, child.child(leaf)


def check(effect: Effect, chain: tuple[PermissionPolicy, ...], seen: Counter[str]) -> None:
    """Checks all floors for one chain; `seen` counts the combinations by verdict."""
    thing = one(effect)
    free = [policy.decide(thing, GUARDS["allow"])[0] for policy in chain]
    for floor, guard in GUARDS.items():
        verdicts = [policy.decide(thing, guard)[0] for policy in chain]
        seen[verdicts[-1]] += 1
        where = (effect, floor, verdicts, [p.agent for p in chain], [p.mode for p in chain])
        assert order(verdicts[2]) <= order(verdicts[1]) <= order(verdicts[0]), where
        if floor is not None:
            assert order(verdicts[2]) <= order(floor), where
            assert order(verdicts[2]) <= order(free[2]), where
    may_ask = all(policy.agent.sub_agents_config.ask == "person" for policy in chain[:2])
    assert may_ask or free[2] != "ask"


@pytest.mark.req("D-19", "D-47", "D-50", "D-83", "D-56")
@pytest.mark.parametrize("effect", ["read", "user", "write"])
def test_no_combination_of_three_levels_widens_what_is_above(effect: Effect) -> None:
    seen: Counter[str] = Counter()
    for chain in chains(members()):
        check(effect, chain, seen)
    assert seen.total() == 48 * 48 * 12 * 4
    assert set(seen) == set(VERDICTS)


def is_closed(policy: PermissionPolicy) -> bool:
    """True if D-50 has this run ask for the host, whatever the others may."""
    if policy.agent.allowed_hosts or policy.mode == "auto":
        return False
    is_auto = policy.above is not None and policy.above.mode == "auto"  # "ask" below it is "auto"
    return policy.mode == "plan" or not (is_auto or "it" in policy.agent.permissions)


@pytest.mark.req("D-50", "D-47")
def test_no_combination_reaches_a_host_that_one_above_would_have_to_ask_for() -> None:
    seen: Counter[str] = Counter()
    above = members((False, True), ("person",), (False,))  # a mode of its own is every mode
    for chain in chains(above, (False, True)):
        check("network", chain, seen)
        verdict, _ = chain[-1].decide(one("network"), GUARDS["allow"])
        assert verdict != "allow" or not any(map(is_closed, chain))
    assert seen.total() == 24 * 24 * 24 * 4
    assert set(seen) == set(VERDICTS)


@pytest.mark.req("D-47", "D-19")
@pytest.mark.parametrize("is_copy", [False, True])
def test_no_mode_that_a_call_or_a_file_asks_for_is_laxer_than_the_callers(is_copy: bool) -> None:
    above = members()
    for root_agent, child_agent, wish in itertools.product(above, above, (None, *MODES)):
        root = PermissionPolicy(root_agent, root_agent.mode)
        child = root.child(child_agent, wish, is_copy=is_copy)
        assert MODES.index(child.mode) <= MODES.index(root.mode)
        for effect in ("read", "user", "network", "write"):
            own, parents = (p.decide(one(effect), GUARDS["allow"])[0] for p in (child, root))
            assert order(own) <= order(parents), (effect, root_agent, child_agent, wish)
