"""What the person and the permissions decided, as the tree shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from axe_nb import Request, RunResult, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.engine.person import Decision
from axe_nb.events import Event
from axe_nb.session.overrides import Overrides
from axe_nb.tools.tool import Tool, ToolContext
from axe_nb.views.html import twin
from axe_nb.views.outline import as_text
from tests.delegation.approvals import Person
from tests.delegation.copies import recorded, said
from tests.engine.in_process import agent, ask_session, stage


async def echo(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    return f"ran {arguments['line']}"


ECHO = Tool("echo", "Echo.", {}, echo, "write")


def run(
    person: Person | None, log: list[Request] | None = None, events: list[Event] | None = None
) -> RunResult:
    part = said(call("echo", line="models"), "done")
    lead = agent("lead", recorded(log, part) if log is not None else part, tools=("echo",))
    overrides = Overrides(tools=(ECHO, "echo"))
    ask_person = person.ask_person if person else None
    emit = events.append if events is not None else id
    session = stage(lead).session
    return asyncio.run(ask_session(session, lead, "go", overrides, emit, ask_person=ask_person))


def edit() -> Person:
    return Person(Decision("edit", arguments={"line": "persons"}))


@pytest.mark.req("D-48")
def test_the_tree_shows_the_call_that_ran_and_marks_it_as_edited() -> None:
    result = run(edit())
    text = as_text(result)
    assert '(edited by the user) {"line": "persons"}' in text
    assert "models" not in text
    assert "(edited by the user)" in twin(result)["text/html"]
    [done] = result.log[0].results
    assert done.edited == {"line": "persons"}
    assert result.log[0].calls[0].arguments == {"line": "models"}, "the conversation is the model's"


@pytest.mark.req("D-56", "D-19")
def test_a_denied_call_is_visible_in_its_row_and_in_the_line_of_the_root() -> None:
    text = as_text(run(None))
    assert "1 tool call (1 denied)" in text
    assert "failed" not in text.split("\n\n")[0]
    assert "1 denied" in twin(run(Person(Decision("no"))))["text/html"]
    assert "denied" not in as_text(run(Person(Decision("yes"))))


@pytest.mark.req("D-56")
@pytest.mark.parametrize("ask", ["deny", "person"])
def test_the_denial_of_a_child_is_visible_in_the_line_of_the_root(ask: Any) -> None:
    child = agent("child", said(call("echo", line="x"), "done"), tools=("echo",))
    lead = agent(
        "lead",
        said(call("call_agent", agent="child", task="go"), "done"),
        sub_agents=("child",),
        sub_agents_config=SubAgentsConfig(ask=ask),
    )
    overrides = Overrides(tools=(ECHO,))
    person = Person(Decision("no"))
    session = stage(lead, child).session
    result = asyncio.run(ask_session(session, lead, "go", overrides, ask_person=person.ask_person))
    assert [q.run for q in person.questions] == (["0.1"] if ask == "person" else [])
    assert "1 sub-agent · 1 tool call (1 denied)" in as_text(result)
