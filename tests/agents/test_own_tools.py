"""`Agent(tools=[…])` with functions and tools in place of names."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, call
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.tools.python_tool import tool_of
from tests.engine.in_process import agent, heard, lead, play, texts


def shout(text: str) -> str:
    """Text in capitals."""
    return text.upper()


class Town:
    """A town that greets."""

    def __init__(self, name: str) -> None:
        self.name = name

    def greet(self, text: str, times: int = 1) -> str:
        """A greeting.

        Args:
            text: Its text.
            times: How often.
        """
        return f"{text} from {self.name}" * times

    async def wait(self, text: str) -> str:
        return f"{text} from {self.name}"

    @classmethod
    def found(cls, text: str) -> str:
        return f"{cls.__name__}: {text}"

    @staticmethod
    def plain(text: str) -> str:
        return text.title()

    def __call__(self, text: str) -> str:
        """Calls the town."""
        return f"{self.name}: {text}"


bonn = Town("Bonn")


def made(**fields: Any) -> Agent:
    """An agent that calls `shout` in its first turn."""
    return replace(lead(call("shout", text="hey"), then="done"), **fields)


def test_the_functions_belong_to_their_agent() -> None:
    play(made(tools=[shout]))
    with pytest.raises(ConfigError, match='unknown tool "shout"'):
        play(made(tools=["shout"]))


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


def twice() -> list[Any]:
    def shout() -> None: ...

    return [shout, globals()["shout"]]


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([lambda: 1], "a lambda has no name that a model could call"),
        ([functools.partial(lambda: 1)], "a lambda has no name that a model could call"),
        ([Town("Bonn")], "an object of type Town has no name that a model could call"),
        (twice(), 'tools contains two functions named "shout"'),
        ([3], "tools must be a list of strings"),
        (shout, "tools must be a list of strings"),
    ],
)
def test_what_can_be_no_tool_is_refused_at_once_in_one_line(tools: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent("a", "script/a", tools=tools)
    assert str(caught.value) == told


CALLABLES = [
    (bonn.greet, "greet", "hey from Bonn"),
    (bonn.wait, "wait", "hey from Bonn"),
    (Town.found, "found", "Town: hey"),
    (Town.plain, "plain", "Hey"),
    (functools.partial(bonn.greet, times=2), "greet", "hey from Bonnhey from Bonn"),
    (functools.partial(Town.greet, bonn), "greet", "hey from Bonn"),
    (functools.partial(functools.partial(bonn.wait)), "wait", "hey from Bonn"),
    (functools.lru_cache(shout), "shout", "HEY"),
]


@pytest.mark.parametrize("mark", [None, {}, {"name": "given"}, {"writes": True}])
@pytest.mark.parametrize(("given", "name", "answer"), CALLABLES)
def test_anything_callable_can_be_a_tool(given: Any, name: str, answer: str, mark: Any) -> None:
    if mark is not None:
        given = axe_nb.tool(**mark)(given)
        assert name == "wait" or given(text="hey") == answer
        name = mark.get("name", name)
    one = lead(call(name, text="hey"), then="done")
    result = play(replace(one, tools=[given]))
    if mark == {"writes": True}:  # nobody is there to be asked
        assert f"permission denied for {name}" in texts(result)[0]
    else:
        assert texts(result) == [answer]
    parameters = tool_of(given).parameters
    assert set(parameters) <= {"text", "times"}
    if name == "greet":
        assert parameters["text"].description == "Its text."


def test_a_method_is_refused_where_it_is_marked_and_a_static_one_keeps_its_mark() -> None:
    with pytest.raises(ConfigError, match=r"^look is a method without its object\b"):

        class Broken:
            @axe_nb.tool
            def look(self, city: str) -> str:
                return city

    class Fine:
        @axe_nb.tool(writes=True)
        @staticmethod
        def shout(text: str) -> str:
            return text.upper()

    assert Fine.shout("a") == Fine().shout("a") == "A"
    result = play(made(tools=[Fine.shout]))
    assert "permission denied for shout" in texts(result)[0]
    for other in (classmethod(shout), property(shout), 3):
        with pytest.raises(ConfigError, match="is neither a function nor a tool"):
            axe_nb.tool(other)  # type: ignore[type-var]
