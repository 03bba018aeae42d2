"""`Agent(tools=[…])` with functions and tools in place of names."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, call
from axe_nb.agents.tables import SubAgentsConfig
from axe_nb.doctor.agent_problems import problems
from axe_nb.session.session import Session
from axe_nb.tools.python_tool import tool_of
from axe_nb.views import agent_summary
from tests.engine.in_process import agent, ask, heard, lead, play, stage, texts


def shout(text: str) -> str:
    """Text in capitals."""
    return text.upper()


def whisper(text: str) -> str:
    return text.lower()


def made(**fields: Any) -> Agent:
    """An agent that calls `shout` in its first turn."""
    return replace(lead(call("shout", text="hey"), then="done"), **fields)


def marked() -> Any:
    @axe_nb.tool(name="whisper")
    def function(text: str) -> str:
        return text.lower()

    return function


@pytest.mark.parametrize("make", [lambda: shout, marked, lambda: tool_of(shout)])
def test_functions_tools_and_names_stand_side_by_side(make: Any) -> None:
    given = make()
    one = Agent("a", "script/a", tools=["grep", given])  # type: ignore[arg-type]
    name = "whisper" if make is marked else "shout"
    assert one.tools == ("grep", name)
    assert one.own_tools == {name: given}


def test_a_function_needs_no_mark_to_be_called() -> None:
    assert texts(play(made(tools=[shout]))) == ["HEY"]


def test_a_mark_keeps_its_meaning() -> None:
    marked = axe_nb.tool(name="shout", writes=True)(lambda text: text)
    result = play(made(tools=[marked]))
    assert "permission denied for shout" in texts(result)[0]


def test_the_functions_belong_to_their_agent() -> None:
    play(made(tools=[shout]))
    with pytest.raises(ConfigError, match='unknown tool "shout"'):
        play(made(tools=["shout"]))


def test_functions_of_two_agents_may_have_the_same_name() -> None:
    def other() -> Any:
        def shout(text: str) -> str:
            return f"{text}!"

        return shout

    child = agent("child", lambda r: r.last if r.turn > 1 else call("shout", text="hey"),
                  tools=[other()])  # fmt: skip
    root = lead(call("shout", text="hey"), ask("child"), then="done")
    assert texts(play(replace(root, tools=[shout]), child)) == ["HEY", "hey!"]


def test_a_sub_agent_of_the_session_has_its_functions() -> None:
    child = agent("child", lambda r: r.last if r.turn > 1 else call("shout", text="hey"),
                  tools=[shout])  # fmt: skip
    assert texts(play(lead(ask("child"), then="done"), child)) == ["HEY"]


@pytest.mark.req("D-39")
def test_a_copy_of_the_caller_has_its_functions() -> None:
    def model(request: axe_nb.Request) -> Any:
        if request.turn > 1:
            return request.last
        name = "spawn_agent" if request.agent == "root" else "shout"
        return call(name, task="x") if name == "spawn_agent" else call(name, text="hey")

    root = agent("root", model, tools=[shout, "spawn_agent"],
                 sub_agents_config=SubAgentsConfig(max_depth=1))  # fmt: skip
    result = play(root)
    assert heard(result.children[0])[0].content == "HEY"


def test_a_runs_own_tools_come_before_the_agents() -> None:
    def louder(text: str) -> str:
        return "!"

    louder.__name__ = "shout"
    assert texts(stage(made(tools=[shout])).play(tools=[tool_of(louder)])) == ["!"]


def test_a_changed_copy_keeps_the_functions() -> None:
    one = made(tools=[shout, whisper])
    assert texts(play(replace(one, mode="auto", tools=("shout",)))) == ["HEY"]


def test_a_file_has_the_names() -> None:
    one = Agent("a", "script/a", tools=["grep", shout])  # type: ignore[list-item, arg-type]
    assert 'tools = [\n    "grep",\n    "shout",\n]' in one.to_toml()
    assert "own_tools" not in one.to_toml()
    again = Agent.from_toml(one.to_toml())
    assert again.tools == one.tools
    assert not again.own_tools


def test_the_page_of_an_agent_knows_its_functions() -> None:
    one = Agent("a", "script/a", tools=[shout])  # type: ignore[arg-type]
    assert "shout  yours      allowed     Text in capitals" in agent_summary.tools_of(one)
    assert [p for p in problems(one, Session().find) if p.key == ("tools",)] == []


def twice() -> list[Any]:
    def shout() -> None: ...

    return [shout, globals()["shout"]]


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([lambda: 1], '"<lambda>" is not a valid tool name'),
        ([functools.partial(shout, "x")], "tools contains a partial without a name"),
        (twice(), 'tools contains two functions named "shout"'),
        ([3], "tools must be a list of strings"),
        (shout, "tools must be a list of strings"),
    ],
)
def test_what_can_be_no_tool_is_refused_at_once_in_one_line(tools: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent("a", "script/a", tools=tools)
    assert str(caught.value) == told


@pytest.mark.parametrize("given", [print, int], ids=lambda given: given.__name__)
def test_a_function_that_models_cannot_call_is_one_clear_line(given: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        play(made(tools=[given]))
    assert given.__name__ in str(caught.value)
    assert "\n" not in str(caught.value)
