"""Which tools an agent has: by name, alias and set, of the session, and those to delegate by."""

from __future__ import annotations

from typing import Any

import pytest

from axe_nb import ConfigError, Request, call
from axe_nb.agents.tables import SubAgentsConfig
from tests.delegation.copies import offered, play, recorded, said
from tests.engine.in_process import texts


def names(**fields: Any) -> list[str]:
    """Names of the tools that an agent is told of."""
    log: list[Request] = []
    play({"lead": recorded(log, said("done"))}, **fields)
    return offered(log[0])


@pytest.mark.req("D-20")
def test_toolsets_and_aliases_stand_for_their_tools() -> None:
    assert names(tools=("file_ops_readonly",)) == ["read_file", "list_dir", "find_files"]
    assert names(tools=("file_ops", "search_files", "grep", "read_file")) == [
        "read_file", "list_dir", "find_files", "write_file", "edit_file", "grep",
    ]  # fmt: skip


@pytest.mark.req("D-20", "X-40")
def test_a_model_may_call_a_tool_by_its_alias(project: Any) -> None:
    (project / "a.txt").write_text("needle", "utf-8")
    calls = (
        call("search_files", pattern="needle"), call("list_directory"), call("terminal"),
        call("file_ops", path="a.txt"),
    )  # fmt: skip
    result = play({}, *calls, tools=("file_ops_readonly", "grep"))
    grep, listing, terminal, toolset = texts(result)
    assert "a.txt" in grep
    assert "a.txt" in listing
    assert terminal == 'Unknown tool: "terminal"', "what an agent has not, no alias gives it"
    assert toolset == 'Unknown tool: "file_ops"', "it stands for several"


@pytest.mark.req("D-44", "O-16", "O-32")
def test_each_way_to_delegate_is_there_where_it_is_asked_for() -> None:
    assert names() == []
    assert names(sub_agents=("helper",)) == ["call_agent"]
    assert names(sub_agents=("helper",), tools=("call_agent", "subagent")) == [
        "call_agent",
        "subagent",
    ]
    assert names(tools=("subagent", "spawn_agent", "delegate_task")) == [
        "subagent",
        "spawn_agent",
        "delegate_task",
    ]
    off = SubAgentsConfig(enabled=False)
    every = ("subagent", "spawn_agent", "delegate_task", "grep")
    assert names(sub_agents=("helper",), tools=every, sub_agents_config=off) == ["grep"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("grpe", 'did you mean "grep"?'),
        ("file_op", 'did you mean "file_ops"?'),
        ("sub_agent", 'did you mean "subagent"?'),
        ("my_own_function", "decorate your own function with @axe_nb.tool"),
        ("bash", 'did you mean "run_command"?'),
        ("Shell", 'did you mean "run_command"?'),
        ("web_fetch", 'did you mean "fetch"?'),
        ("qqq", "known tools: file_ops_readonly, file_ops, read_file, "),
        ("qqq", "in a notebook or in Python, decorate"),
        ("call_agent", "`sub_agents` offers call_agent"),
    ],
)
@pytest.mark.req("D-20", "D-27")
def test_a_tool_that_there_is_not_is_refused_before_a_word_is_sent(name: str, hint: str) -> None:
    log: list[Request] = []
    with pytest.raises(ConfigError) as caught:
        play({"lead": recorded(log, said("done"))}, tools=(name,))
    assert caught.value.message == f'unknown tool "{name}" in agent "lead"'
    assert hint in caught.value.hint
    assert log == []
