"""An agent on one page: its card as text and as HTML, and who may call whom, drawn."""

from __future__ import annotations

from typing import Any

import pytest

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.session.session import Session
from axe_nb.views.agent_summary import draw_card, draw_graph
from tests.views.runs import PAYLOADS


def drawn(root: str, *agents: Agent) -> list[str]:
    session = Session()
    for agent in agents:
        session.define(agent)
    return draw_graph(session.find(root), session.find).split("\n")


def agent(name: str, *sub_agents: str, **more: Any) -> Agent:
    return Agent(name, "script/x", sub_agents=sub_agents, **more)


def test_agents_hang_below_those_that_may_call_them() -> None:
    assert drawn("a", agent("a", "b", "c"), agent("b", "d"), agent("c"), agent("d")) == [
        "a  (up to 3 levels)",
        "├─ b",
        "│  └─ d",
        "└─ c",
    ]


@pytest.mark.req("A-E2.3", "A-E2.4")
def test_a_name_twice_is_drawn_once_and_one_that_is_not_there_is_marked(project: Any) -> None:
    assert drawn("a", agent("a", "b", "ghost", "b"), agent("b")) == [
        "a  (up to 3 levels)",
        "├─ b",
        "└─ ghost  ✗ agent config not found: ghost",
    ]


def test_cycles_end_with_a_mark() -> None:
    assert drawn("a", agent("a", "b", "a"), agent("b", "c"), agent("c", "a", "b")) == [
        "a  (up to 3 levels)",
        "├─ b",
        "│  └─ c",
        "│     ├─ a  ↺ cycle, ends at level 3",
        "│     └─ b  ↺ cycle, ends at level 3",
        "└─ a  ↺ cycle, ends at level 3",
    ]


@pytest.mark.req("D-3", "A-9.3")
def test_the_depth_limit_is_marked_and_a_child_can_only_lower_it() -> None:
    chain = [agent(f"n{i}", f"n{i + 1}") for i in range(5)] + [agent("n5")]
    assert drawn("n0", *chain)[-1] == ("      └─ n3  (level 3 of 3: cannot delegate)")
    deep = agent("n0", "n1", sub_agents_config=SubAgentsConfig(max_depth=5))
    assert drawn("n0", deep, *chain[1:])[-1] == "            └─ n5"
    low = agent("n1", "n2", sub_agents_config=SubAgentsConfig(max_depth=1))
    assert drawn("n0", deep, low, *chain[2:]) == [
        "n0  (up to 5 levels)",
        "└─ n1  (level 1 of 1: cannot delegate)",
    ]
    high = agent("n1", "n2", sub_agents_config=SubAgentsConfig(max_depth=5))
    assert "n3  (level 3" in drawn("n0", chain[0], high, *chain[2:])[-1]


@pytest.mark.req("D-44")
def test_copies_and_those_who_may_not_delegate_are_told() -> None:
    tools = ("subagent", "delegate_task", "grep")
    assert drawn("a", agent("a", "b", tools=tools), agent("b", tools=("spawn_agent",))) == [
        "a  (up to 3 levels)",
        "├─ b",
        "│  └─ copies of itself, by spawn_agent",
        "├─ copies of itself, by subagent",
        "└─ copies of itself, by delegate_task",
    ]
    off = agent("a", "b", sub_agents_config=SubAgentsConfig(enabled=False))
    assert drawn("a", off) == ["a  (cannot delegate: sub_agents_config.enabled is false)"]
    assert drawn("c", agent("c", "a"), off) == ["c  (up to 3 levels)", "└─ a"]


def test_a_graph_that_would_explode_is_cut_at_once() -> None:
    everybody = [f"n{i}" for i in range(60)]
    lines = drawn("n0", *(agent(name, *everybody) for name in everybody))
    assert len(lines) == 42
    assert lines[-1] == "…  and more"


def test_a_card_has_the_same_parts_as_text_and_as_html() -> None:
    bundle = draw_card(
        "lead", ("script/x", "mode ask"), [("Allowed", "grep, call_agent")],
        graph="lead\n└─ echo", notes=("no file matches",), saved=("unchanged",),
    )  # fmt: skip
    assert bundle["text/plain"] == (
        "lead: script/x, mode ask\n"
        "Allowed:        grep, call_agent\n"
        "lead\n└─ echo\n! no file matches\nunchanged"
    )
    parts = ("<strong>lead</strong>", "script/x · mode ask", ">grep, call_agent<", "└─ echo", "!",
             "no file matches", "unchanged")  # fmt: skip
    positions = list(map(bundle["text/html"].index, parts))
    assert positions == sorted(positions)
    bare = draw_card("a", ("script/x",), (), graph="", notes=(), saved=())
    assert bare["text/plain"] == "a: script/x"
    assert "<table" not in bare["text/html"]
    assert "<pre" not in bare["text/html"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_of_an_agent_is_markup_or_moves_a_cursor(payload: str) -> None:
    plain, bundle = (
        draw_card(text, (text,), [("Allowed", text)], graph=text, notes=(text,), saved=(text,))
        for text in ("x", payload)
    )
    assert bundle["text/html"].count("<") == plain["text/html"].count("<")
    assert "\x1b" not in "".join(bundle.values())
