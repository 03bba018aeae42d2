"""While a person is asked, the time stands still: that of the run that asks, and all above it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from axe_nb import Agent, ConfigError, Request, RunResult, call
from axe_nb.agents.tables import SubAgentsConfig
from axe_nb.engine.person import ApprovalRequest, Decision
from axe_nb.session.overrides import Overrides
from axe_nb.tools.tool import Tool, ToolContext
from tests.engine.in_process import agent, ask_session, stage

THINKS = 2.0
"""Seconds that the person takes."""


async def note(ctx: ToolContext, _: Mapping[str, Any]) -> str:
    return f"written by {ctx.agent.name}"


WRITE = Tool("write_it", "Writes.", {}, note, "write")


def tree(
    ask: str = "person", deepest: Any = None, **config: Any
) -> tuple[RunResult, list[ApprovalRequest]]:
    """lead → middle → low, whose tool needs approval; a person who says yes, late."""
    asked: list[ApprovalRequest] = []

    async def person(question: ApprovalRequest) -> Decision:
        asked.append(question)
        await asyncio.sleep(THINKS)
        return Decision("yes")

    def low(request: Request) -> Any:
        return call("write_it") if request.turn == 1 else request.results[0].content

    def passes(name: str) -> Any:
        def model(request: Request) -> Any:
            if request.turn == 1:
                return call("call_agent", agent=name, task="x")
            return request.results[0].content

        return model

    mine = SubAgentsConfig(ask=ask, **config)  # type: ignore[arg-type]
    lead = agent("lead", passes("middle"), sub_agents=("middle",), sub_agents_config=mine,
                 tools=("write_it",))  # fmt: skip
    middle = agent("middle", passes("low"), sub_agents=("low",), tools=("write_it",),
                   sub_agents_config=deepest or SubAgentsConfig(ask="person"))  # fmt: skip
    made = stage(lead, middle, agent("low", low, tools=("write_it",)))
    overrides = Overrides(tools=(WRITE, "write_it"), timeout=THINKS / 2)
    result = asyncio.run(
        ask_session(made.session, lead, "go", overrides, made.events.append, ask_person=person)
    )
    return result, asked


@pytest.mark.req("D-48", "D-56")
def test_a_childs_question_stops_the_clocks_of_the_whole_chain() -> None:
    result, asked = tree(timeout=THINKS / 2)
    assert result.status == "completed", result.error
    assert result.text == "written by low"
    assert [(q.agent, q.run, q.tool) for q in asked] == [("low", "0.1.1", "write_it")]


@pytest.mark.req("D-56", "O-35")
@pytest.mark.parametrize("deny", ["root", "middle"])
def test_a_child_asks_only_if_every_agent_above_it_allows_that(deny: str) -> None:
    result, asked = (
        tree(ask="deny") if deny == "root" else tree(deepest=SubAgentsConfig(ask="deny"))
    )
    assert asked == []
    assert "permission denied for write_it: sub-agents cannot ask; set" in result.text


@pytest.mark.req("D-56")
def test_the_key_takes_deny_or_person() -> None:
    text = 'name = "a"\nmodel = "script/a"\n[sub_agents_config]\nask = "{}"\n'
    assert Agent.from_toml(text.format("person")).sub_agents_config.ask == "person"
    with pytest.raises(ConfigError, match=r"sub_agents_config\.ask must be deny or person"):
        Agent.from_toml(text.format("maybe"))
