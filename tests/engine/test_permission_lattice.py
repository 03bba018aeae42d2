"""Every combination of root, child and grandchild: nobody below may do more than those above."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from axe_nb import Agent
from axe_nb.agents.agent_tables import MODES, Mode, SubAgentsConfig
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.tools.tool import VERDICTS, Effect, Guard, Tool
from tests.delegation.copies import tool

WRITTEN = (None, "allow", "ask", "deny")
ASK = ("deny", "person")
FLOORS = (None, *VERDICTS)
HOST = "a.example"

GUARDS: Mapping[str | None, Guard | None] = {
    None: None,
    **{floor: Guard(floor=floor, reason="it is precious", host=HOST) for floor in VERDICTS},
}


@cache
def one(effect: Effect) -> Tool:
    return tool("it", effect)


@cache
def member(mode: Mode, written: str | None, ask: Any, inherit: bool, host: bool) -> Agent:
    return Agent(
        "a", "script/a", mode=mode, permissions={"it": written} if written else {},
        allowed_hosts=(HOST,) if host else (),
        sub_agents_config=SubAgentsConfig(ask=ask, inherit_mode=inherit),
    )  # fmt: skip


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
    for floor in FLOORS:
        guard = GUARDS[floor]
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
