"""Options as keywords of Python: one clear line for what is wrong, and the session's defaults."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, call
from axe_nb.commands.options import OPTIONS
from axe_nb.session.overrides import DEFAULT_TIMEOUT, Overrides, RunOptions
from axe_nb.session.session import session


@pytest.fixture
def echo() -> Agent:
    """An agent of this session that says its model and its prompt."""
    for name in ("echo", "other", "child"):
        axe_nb.script(name)(lambda request: f"{request.model}: {request.last}")
    axe_nb.define(Agent(name="echo", model="script/echo"))
    return session.agents["echo"]


async def streamed(*words: Any, **options: Any) -> RunResult:
    options.pop("display", None)
    result = None
    async for event in axe_nb.stream(*words, **options):
        result = getattr(event, "result", None)
    assert isinstance(result, RunResult)
    return result


FACES: dict[str, Callable[..., RunResult]] = {
    "run": axe_nb.run,
    "arun": lambda *words, **options: asyncio.run(axe_nb.arun(*words, **options)),
    "stream": lambda *words, **options: asyncio.run(streamed(*words, **options)),
}

WRONG: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
    (("echo", [["a"]]), {}, "part 1 of the prompt is neither text nor a picture: list"),
    (("echo", None), {}, "prompt must be text or a list, not NoneType"),
    ((None, "a"), {}, "neither an agent nor a model is named"),
    ((3, "a"), {}, "agent takes a name or an Agent, not 3"),
    (("echo", "a"), {"continue_from": "x"}, "continue_from takes a RunResult, not 'x'"),
    (("echo", "a"), {"params": [1]}, 'params takes a dict, as in {"temperature": 0.2}, not [1]'),
    (("echo", "a"), {"tools": "grep"}, "tools takes a list of tools, as in [\"grep\"], not 'grep'"),
    (("echo", "a"), {"tools": [3]}, 'tools takes a list of tools, as in ["grep"], not (3,)'),
    (("echo", "a"), {"mode": "x"}, "mode takes plan, ask, auto, not 'x'"),
    (("echo", "a"), {"mode": ["x"]}, "mode takes plan, ask, auto, not ['x']"),
    (("echo", "a"), {"model": 3}, "model takes a string, not 3"),
    (("echo", "a"), {"skill": b"s" * 99}, f"skill takes a string, not b'{'s' * 58}…"),
    (("echo", "a"), {"timeout": "3"}, "timeout takes seconds, as in 120 or 0.5, not '3'"),
    (("echo", "a"), {"modle": "p/m"}, 'unknown option "modle"'),
)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("words", "options", "told"), WRONG)
def test_what_a_run_cannot_be_asked_with_is_one_clear_line(
    face: str, words: tuple[Any, ...], options: dict[str, Any], told: str, echo: Agent
) -> None:
    with pytest.raises(ConfigError) as caught:
        FACES[face](*words, **options)
    assert str(caught.value) == told
    assert "\n" not in told


@pytest.mark.parametrize("name", ["temperature", "temprature"])
def test_a_parameter_of_the_model_is_told_with_its_place(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("echo", "a", **{name: 0.2})
    assert caught.value.hint == 'to pass it to the model: params={"temperature": …}'


def test_an_unknown_keyword_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("echo", "a", agent_dir="x")  # type: ignore[call-arg]
    assert caught.value.lines() == ['unknown option "agent_dir"', 'did you mean "agents_dir"?']


def test_each_option_is_one_row_and_a_field_of_each_of_two_classes() -> None:
    told = {option.keyword for option in OPTIONS if "python" in option.faces}
    assert told == {field.name for field in fields(Overrides)} == set(RunOptions.__annotations__)
    assert Overrides().timeout == DEFAULT_TIMEOUT
    for function in (axe_nb.run, axe_nb.arun, axe_nb.stream):
        assert told <= set(inspect.signature(function).parameters)
        assert typing.get_type_hints(function, include_extras=True)["options"]


WAYS = {
    "call_agent": {"agent": "child", "task": "go"},
    "subagent": {"label": "child", "task_prompt": "go"},
    "spawn_agent": {"task": "go"},
    "hand_on": {},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [None, "script/root"])
def test_one_model_is_put_under_every_agent_of_a_tree(way: str, model: str | None) -> None:
    asked: list[str] = []

    @axe_nb.script("all")
    @axe_nb.script("root")
    def answer(request: Request) -> Any:
        asked.append(request.model)
        first = request.agent == "lead" and not request.results
        return call(way, **WAYS[way]) if first else "done"

    @axe_nb.tool
    async def hand_on(ctx: axe_nb.ToolContext) -> str:
        return (await ctx.delegate("go", Agent(name="made", model="openai/gpt"))).text

    axe_nb.define(Agent(name="child", model="no model at all"))
    lead = Agent(
        name="lead", model="anthropic/x", sub_agents=("child",),
        tools=("subagent", "spawn_agent", "hand_on"),
    )  # fmt: skip
    result = axe_nb.run(lead, "go", model=model, model_all="script/all")
    assert result.ok
    assert [child.model for child in result.children] == ["script/all"]
    assert result.model == (model or "script/all")
    assert set(asked) == {"all", *(["root"] if model else [])}
