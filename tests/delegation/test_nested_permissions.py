"""What tools may do below others: never more than every run above them may."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from axe_nb import Agent, Request, RunResult, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.engine.person import Decision
from axe_nb.tools.tool import Effect
from tests.delegation.approvals import EFFECTS, MODES, Person, run_with, tools, uses
from tests.delegation.chains import WAYS, by, last_heard, level_of
from tests.delegation.copies import told
from tests.engine.in_process import agent, check_history, heard

DELEGATION = ("subagent", "spawn_agent", "delegate_task")


@dataclass
class Family:
    """A chain of children, each started in its way; the last one makes its calls."""

    ways: Sequence[str]
    calls: Any
    helper: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the agent that call_agent calls."""
    wish: str = ""
    """The mode that spawn_agent is called with; empty = none."""
    used: list[str] = field(default_factory=list, init=False)
    """Who used a tool of which effect."""
    log: list[Request] = field(default_factory=list, init=False)

    def model(self, request: Request) -> Any:
        self.log.append(request)
        level = level_of(request)
        if not request.tools or request.turn > 1:
            return last_heard(request) or "nothing"
        if level == len(self.ways):
            return self.calls
        one = by(self.ways[level], level + 1)
        if self.wish and one.name == "spawn_agent":
            one = replace(one, arguments={**one.arguments, "mode": self.wish})
        return one

    def play(self, person: Person | None = None, **fields: Any) -> RunResult:
        """What the lead comes to; the fields are its."""
        mine = tools(self.used)
        names = (*(one.name for one in mine), *DELEGATION, "ask_user")
        lead = agent("lead", self.model, sub_agents=("helper",), tools=names, **fields)
        helper = Agent("helper", lead.model, sub_agents=("helper",), tools=names, **self.helper)
        result = run_with(person, lead, helper, tools=mine)
        for one in result.walk():
            check_history(one.messages)
        return result


def leaf(result: RunResult) -> RunResult:
    return list(result.walk())[-1]


def allowed_to_a_child(effect: Effect, root: str, child: str) -> bool:
    """What D-19 says: the child's mode is never laxer than the root's; ask is no in a child."""
    mode = min(root, child, key=MODES.index)
    match effect:
        case "read":
            return True
        case "user":
            return mode != "plan"
    return root == "auto" and mode != "plan"


@pytest.mark.parametrize("root", MODES)
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.req("D-19", "D-47", "O-19", "O-35", "O-36", "O-5")
def test_a_child_may_do_no_more_than_its_caller_whatever_its_file_says(
    root: Any, effect: Effect
) -> None:
    for own, inherit, way in itertools.product(MODES, (True, False), WAYS):
        made = Family((way,), uses(effect), helper={"mode": own})
        config = SubAgentsConfig(inherit_mode=inherit)
        made.play(Person(*[Decision("yes")] * 9), mode=root, sub_agents_config=config)
        begins = root != "plan" or way in ("call_agent", "subagent")
        mode = root if way != "call_agent" or (inherit and own != "plan") else own
        expected = begins and allowed_to_a_child(effect, root, mode)
        assert bool(made.used) is expected, (root, own, inherit, way)


@pytest.mark.parametrize("root", MODES)
@pytest.mark.req("O-14", "O-19", "O-36", "D-19")
def test_a_spawned_childs_mode_is_what_the_call_says_where_that_is_stricter(root: Any) -> None:
    for wish, effect in itertools.product(("plan", "auto"), EFFECTS):
        made = Family(("spawn_agent",), uses(effect), wish=wish)
        made.play(mode=root)
        expected = root != "plan" and allowed_to_a_child(effect, root, wish)
        assert bool(made.used) is expected, (root, wish, effect)


@pytest.mark.parametrize("written", ["deny", "ask"])
@pytest.mark.req("D-19", "O-25")
def test_what_is_denied_above_is_denied_below_in_every_nesting(written: str) -> None:
    for ways in itertools.product(WAYS, repeat=2):
        lax = {"mode": "auto", "permissions": {"write_it": "allow"}}
        made = Family(ways, uses("write"), helper=lax)
        config = SubAgentsConfig(max_depth=3)
        last = leaf(
            made.play(mode="auto", permissions={"write_it": written}, sub_agents_config=config)
        )
        assert made.used == [], ways
        assert 'agent "lead"' in told(last), "the ancestor whose key it is"
        assert last.tool_calls == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.req("O-35", "D-19", "X-37")
def test_a_childs_denial_names_the_file_that_can_be_changed(way: str) -> None:
    made = Family((way,), uses("write"))
    files, place = 'agent "lead"', ""
    if way == "call_agent":  # the other children are copies of the lead
        files, place = 'agent "lead" and agent "helper"', ' in agent "lead"'
    assert told(leaf(made.play(mode="ask"))) == (
        "Error: permission denied for write_it: sub-agents cannot ask; "
        f'set mode = "auto"{place} or permissions.write_it = "allow" in {files}'
    )
    allow = {"permissions": {"write_it": "allow"}}
    made = Family((way,), uses("write"), helper=allow)
    made.play(mode="ask", **allow)
    assert made.used, "the advice is enough"


@pytest.mark.req("D-47", "D-19")
def test_a_childs_denial_by_its_own_file_names_that_file() -> None:
    plan = Family(("call_agent",), uses("write"), helper={"mode": "plan"})
    assert 'mode = "auto" in agent "helper"' in told(leaf(plan.play(mode="auto")))
    deny = Family(("call_agent",), uses("write"), helper={"permissions": {"write_it": "deny"}})
    assert 'permissions.write_it is "deny" in agent "helper"' in told(leaf(deny.play(mode="auto")))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.req("O-19", "D-19", "O-33")
def test_a_child_never_asks_the_person(way: str) -> None:
    person = Person(*[Decision("text", "yes")] * 9)
    helper = {"mode": "auto", "permissions": {"ask_user": "allow"}}
    for one in (call("ask_user", question="May I?"), uses("write")):
        made = Family((way,), one, helper=helper)
        last = leaf(made.play(person, mode="ask", permissions={"ask_user": "allow"}))
        assert "sub-agents cannot ask" in told(last)
        assert heard(last)[0].is_error
        assert last.ok, "it goes on"
    assert person.questions == []


@pytest.mark.req("O-25", "D-19")
def test_delegating_itself_can_be_denied() -> None:
    for way in WAYS:
        result = Family((way,), uses("read")).play(mode="auto", permissions={way: "deny"})
        assert f'permissions.{way} is "deny" in agent "lead"' in told(result)
        assert result.children == ()
