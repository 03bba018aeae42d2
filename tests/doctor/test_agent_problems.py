"""What is in the way of an agent, with the key that says so; and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb.agents.agent import Agent
from axe_nb.commands.doctor import problems
from axe_nb.session.session import Session
from axe_nb.views import agent_summary


def found(**fields: Any) -> list[tuple[tuple[str, ...], str, bool, str]]:
    agent = Agent(**{"name": "x", "model": "script/echo", **fields})
    return [
        (problem.key, problem.entry, problem.is_mistake, str(problem.error))
        for problem in problems(agent, Session().find)
    ]


@pytest.fixture(autouse=True)
def echo(project: Path) -> None:
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "echo.toml").write_text('[[rule]]\ntext = "x"', "utf-8")


def test_mistakes_come_before_what_is_missing(project: Path) -> None:
    assert found(
        model="script/nowhere", skill="s.md", workdir="w", sub_agents=("y",), files=("a[", "*"),
        tools=("grep", "grap"), permissions={"fetsch": "ask"},
    ) == [
        (("tools",), "grap", True, 'unknown tool "grap" in agent "x"'),
        (("permissions", "fetsch"), "", True, 'unknown tool "fetsch" in agent "x"'),
        (("files",), "a[", True, 'invalid glob pattern "a[": unclosed bracket'),
        (("model",), "", False, "script not found: nowhere"),
        (("workdir",), "", False, "workdir not found: w"),
        (("skill",), "", False, "skill not found: s.md"),
        (("sub_agents",), "y", False, "agent config not found: y"),
    ]  # fmt: skip


@pytest.mark.req("D-76", "D-79")
def test_what_a_model_or_its_server_does_not_take_is_told_without_a_key() -> None:
    problem_of = {
        key: told
        for key, _, _, told in found(
            model="openai/gpt-4o", params={"thinking": "high"}, tools=("web_search",)
        )
    }
    assert list(problem_of) == [("model",), ("params", "thinking"), ("tools",)]
    assert 'model "gpt-4o" does not take "high"' in problem_of["params", "thinking"]
    assert 'agent "x" cannot use web_search' in problem_of["tools",]
    assert [key for key, *_ in found(
        model="anthropic/claude-sonnet-5-5", params={"thinking": "high"}, tools=("web_search",)
    )] == [("model",)]  # fmt: skip


@pytest.mark.req("D-19", "D-20")
def test_the_page_says_what_an_agent_may_do() -> None:
    def may(**fields: Any) -> list[str]:
        agent = Agent("x", "script/echo", **fields)
        return agent_summary.abilities(agent, Session().find).splitlines()

    assert may() == []
    tools = ("file_ops", "grep")
    assert may(tools=tools, permissions={"grep": "deny"}) == [
        "Allowed:        read_file, list_dir, find_files",
        "Asks first:     write_file, edit_file",
        "Denied:         grep",
    ]
    assert may(tools=tools, mode="plan")[-1] == "Denied:         write_file, edit_file"
    assert may(tools=tools, mode="auto") == [
        "Allowed:        read_file, list_dir, find_files, write_file, edit_file, grep"
    ]
    limits = axe_nb.Agent.from_toml(
        'name = "x"\nmodel = "a/b"\n[limits]\nmax_requests = 7\nmax_total_tokens = 1000'
    ).limits
    assert may(limits=limits) == [
        "Requests:       at most 7 in the whole tree",
        "Tokens:         at most 1000 in the whole tree",
    ]
    assert may(tools=("subagent",)) == [
        "Allowed:        subagent",
        "x  (depth 0, max_depth 3)",
        "└─ copies of itself, by subagent",
    ]


@pytest.mark.req("D-64")
def test_a_cap_on_the_cost_of_a_model_without_a_price_is_told() -> None:
    [(key, _, is_mistake, told)] = found(limits={"max_cost": 1})
    assert (key, is_mistake) == (("limits", "max_cost"), False)
    assert 'the price of the model "script/echo" is unknown' in told
