"""What one call needs beyond its tool's permission, and who may give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from axe_nb import Agent, RunResult, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.engine.person import Decision
from axe_nb.messages import ToolCall, ToolParameter
from axe_nb.tools.tool import CallSite, Effect, Guard, Tool, ToolContext, ToolError
from tests.delegation.approvals import MODES, Person, run_with
from tests.delegation.copies import told, tool
from tests.engine.in_process import agent, said

FLOORS: Mapping[str, Guard] = {
    "free": Guard(covers="free things"),
    "ask": Guard(floor="ask", reason="it is precious"),
    "key": Guard(floor="ask", reason="no cage here", key='sandbox = "off"', covers="keyed things"),
    "deny": Guard(floor="deny", reason="it is forbidden"),
}


class Touch:
    """A tool whose guard goes by the argument `what`; it notes what it touched."""

    def __init__(self, effect: Effect = "write") -> None:
        self.touched: list[str] = []
        self.sites: list[CallSite] = []
        what = {"what": ToolParameter("string", "", required=True)}
        self.tool = Tool("touch", "Touch it.", what, self.run, effect, guard=self.guard)

    async def run(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        assert ctx.guard == FLOORS.get(arguments["what"])
        self.touched.append(arguments["what"])
        return "touched"

    def guard(self, arguments: Mapping[str, Any], site: CallSite) -> Guard | None:
        self.sites.append(site)
        if arguments["what"] == "bad":
            raise ToolError("there is no such thing")
        return FLOORS[arguments["what"]]


def touch(what: str) -> ToolCall:
    return call("touch", what=what)


def attempt(
    touching: Touch, *calls: ToolCall, person: Person | None = None, **fields: Any
) -> RunResult:
    lead = agent("lead", said(list(calls), "done"), tools=("touch",), **fields)
    return run(lead, touching=touching, person=person)


def run(*agents: Agent, touching: Touch, person: Person | None = None) -> RunResult:
    return run_with(person, *agents, tools=(touching.tool,))


@pytest.mark.req("D-83", "D-19")
@pytest.mark.parametrize("mode", MODES)
def test_a_floor_holds_in_every_mode(mode: Any) -> None:
    touching = Touch("read")
    result = attempt(touching, touch("ask"), touch("deny"), mode=mode)
    assert touching.touched == []
    answers = [one.content for one in result.messages[-2].tool_results]
    assert answers == [
        "Error: permission denied for touch: it is precious, and no one can be prompted here; "
        "approve it in a notebook or terminal, or do it yourself",
        "Error: permission denied for touch: it is forbidden",
    ]


@pytest.mark.req("D-19")
def test_a_denial_where_nobody_can_be_asked_names_the_key_and_the_file() -> None:
    result = attempt(Touch(), touch("key"), mode="auto")
    assert told(result).endswith(
        'no cage here, and no one can be prompted here; set sandbox = "off" in agent "lead"'
    )


@pytest.mark.req("D-48", "D-83")
def test_always_covers_what_the_guard_says_and_never_a_precious_thing() -> None:
    touching, person = Touch(), Person(*[Decision("always")] * 5)
    calls = [touch("free"), touch("free"), touch("ask"), touch("ask"), touch("key"), touch("key")]
    attempt(touching, *calls, person=person)
    assert touching.touched == ["free", "free", "ask", "ask", "key", "key"]
    assert [(q.arguments["what"], q.always, q.reason) for q in person.questions] == [
        ("free", "free things", ""),
        ("ask", "", "it is precious"),
        ("ask", "", "it is precious"),
        ("key", "keyed things", "no cage here"),
    ]


@pytest.mark.req("D-48", "D-83")
def test_the_arguments_that_the_person_types_are_guarded_too() -> None:
    touching = Touch()
    person = Person(
        Decision("edit", arguments={"what": "deny"}),
        Decision("edit", arguments={"what": "ask"}),
        Decision("no"),
        Decision("edit", arguments={"what": "free"}),
    )
    attempt(touching, touch("free"), touch("free"), touch("free"), person=person)
    assert touching.touched == ["free"], "the third"
    assert len(person.questions) == 4, "the second edit is asked about once more"


@pytest.mark.req("D-56", "D-19")
@pytest.mark.parametrize("ask", ["deny", "person"])
def test_a_child_asks_for_a_precious_thing_only_if_all_above_let_it(ask: Any) -> None:
    touching, person = Touch(), Person(Decision("yes"))
    child = agent("child", said(touch("ask"), "done"), tools=("touch",), mode="auto")
    lead = agent(
        "lead",
        said(call("call_agent", agent="child", task="go"), "done"),
        sub_agents=("child",),
        mode="auto",
        sub_agents_config=SubAgentsConfig(ask=ask),
    )
    result = run(lead, child, touching=touching, person=person)
    assert touching.touched == (["ask"] if ask == "person" else [])
    assert [one.name for one in touching.sites[0].agents] == ["child", "lead"]
    if ask == "deny":
        assert told(result.children[0]) == (
            "Error: permission denied for touch: it is precious; sub-agents cannot ask; "
            'set sub_agents_config.ask = "person" in agent "lead"'
        )


@pytest.mark.req("D-48", "D-56")
def test_a_childs_question_stops_the_clocks_of_the_whole_chain() -> None:
    def make(name: str, first: ToolCall, *below: str, **config: Any) -> Agent:
        model = said(first, lambda request: request.results[0].content)
        asks = SubAgentsConfig(ask="person", **config)
        return agent(name, model, tools=("write_it",), sub_agents=below, sub_agents_config=asks)

    agents = (
        make("lead", call("call_agent", agent="middle", task="x"), "middle", timeout=1.0),
        make("middle", call("call_agent", agent="low", task="x"), "low"),
        make("low", call("write_it")),
    )
    person = Person(Decision("yes"), seconds=2.0)
    result = run_with(person, *agents, tools=(tool("write_it", "write"),), timeout=1.0)
    assert result.status == "completed", result.error
    assert result.text == "write_it was used"
    assert [(q.agent, q.run, q.tool) for q in person.questions] == [("low", "0.1.1", "write_it")]
