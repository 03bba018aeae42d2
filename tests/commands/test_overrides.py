"""Options as keywords of Python, and that they mean the same in the three faces of text."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult, call
from axe_nb.commands.option_table import OPTIONS
from axe_nb.commands.parser import UsageError, parse_run
from axe_nb.events import RunFinished
from axe_nb.scripting.rules import functions
from axe_nb.session.overrides import DEFAULT_TIMEOUT, Overrides, RunOptions
from axe_nb.session.session import Session, session
from tests.engine.in_process import ask_session


@pytest.fixture
def echo() -> Agent:
    """An agent of this session that says its model and its prompt."""
    for name in ("echo", "other", "child"):
        axe_nb.script(name)(lambda request: f"{request.model}: {request.last}")
    axe_nb.define(Agent(name="echo", model="script/echo"))
    return session.agents["echo"]


async def streamed(*words: Any, **options: Any) -> RunResult:
    *_, last = [event async for event in axe_nb.stream(*words, **options)]
    assert isinstance(last, RunFinished)
    return last.result


FACES: dict[str, Callable[..., RunResult]] = {
    "run": axe_nb.run,
    "arun": lambda *words, **options: asyncio.run(axe_nb.arun(*words, **options)),
    "stream": lambda *words, **options: asyncio.run(streamed(*words, **options)),
}

WRONG: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
    (("echo", [["a"]]), {}, "part 1 of the prompt is neither text nor a picture: list"),
    (("echo", None), {}, "prompt must be text or a list, not NoneType"),
    ((None, "a"), {}, "neither an agent nor a model is given"),
    ((3, "a"), {}, "agent takes a name or an Agent, not 3"),
    (("echo", "a"), {"continue_from": "x"}, "continue_from takes a RunResult, not 'x'"),
    (("echo", "a"), {"params": [1]}, 'params takes a dict, as in {"temperature": 0.2}, not [1]'),
    (("echo", "a"), {"tools": "grep"}, "tools takes a list of tools, as in [\"grep\"], not 'grep'"),
    (("echo", "a"), {"tools": [3]}, 'tools takes a list of tools, as in ["grep"], not (3,)'),
    (("echo", "a"), {"mode": "x"}, "mode takes plan, ask, auto, not 'x'"),
    (("echo", "a"), {"skill": b"s" * 99}, f"skill takes a string, not b'{'s' * 58}…"),
    (("echo", "a"), {"timeout": "3"}, "timeout takes seconds, as in 120 or 0.5, not '3'"),
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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("temprature", 'to pass it to the model: params={"temperature": …}'),
        ("agent_dir", 'did you mean "agents_dir"?'),
    ],
)
def test_an_unknown_keyword_is_told_with_the_one_that_was_meant(name: str, hint: str) -> None:
    options: dict[str, Any] = {name: 0.2}
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("echo", "a", **options)
    assert caught.value.lines() == [f'unknown option "{name}"', hint]


def test_each_option_is_one_row_and_a_field_of_each_of_two_classes() -> None:
    told = {option.keyword for option in OPTIONS if "python" in option.faces}
    assert told == {field.name for field in fields(Overrides)} == set(RunOptions.__annotations__)
    assert Overrides().timeout == DEFAULT_TIMEOUT
    for function in (axe_nb.run, axe_nb.arun, axe_nb.stream):
        assert told <= set(inspect.signature(function).parameters)
        assert typing.get_type_hints(function, include_extras=True)["options"]
    assert not {"step", "break_at"} & set(inspect.signature(axe_nb.map).parameters)


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


def test_each_face_refuses_the_options_of_others() -> None:
    for option in OPTIONS:
        value = [option.choices[0] if option.choices else "a"] if option.metavar else []
        for face in {"line", "cell"} - set(option.faces):
            with pytest.raises(UsageError, match=f"unrecognized arguments: {option.flag}"):
                parse_run(" ".join(["lead", option.flag, *value]), face)


SAMPLES: Mapping[str, tuple[str, Any]] = {
    "--output": ("answer.json", {"type": "object"}),
    "--model": ("script/other", "script/other"),
    "--model-all": ("script/other", "script/other"),
    "--skill": ("review.md", "review.md"),
    "--workdir": ("data", "data"),
    "--param": ("temperature=0.5 seed=7", {"temperature": 0.5, "seed": 7}),
    "--var": ("place=there tone=dry", {"place": "there", "tone": "dry"}),
    "--agents-dir": ("more/agents", "more/agents"),
    "--tools": ("read_file,grep", ("read_file", "grep")),
    "--mode": ("plan", "plan"),
}
"""Option of all faces that changes the first request → (on a line, in Python)."""


@pytest.fixture
def seen(project: Path) -> Iterator[list[Request]]:
    """The requests of an agent whose files are in this project."""
    for folder in ("data", "axe/skills", "more/agents"):
        (project / folder).mkdir(parents=True, exist_ok=True)
    (project / "axe" / "review.md").write_text("Be strict.", "utf-8")
    (project / "data" / "notes.txt").write_text("seven", "utf-8")
    (project / "answer.json").write_text('{"type": "object"}', "utf-8")
    for folder, prompt in (("axe", "Here."), ("more", "There.")):
        (project / folder / "agents" / "lead.toml").write_text(
            f'name = "lead"\nmodel = "script/lead"\nsystem_prompt = "{prompt} {{{{ place }}}}"\n'
            'files = ["*.txt"]\ntools = ["write_file", "grep"]\n'
            '[vars]\nplace = "here"\ntone = ""\n',
            "utf-8",
        )
    requests: list[Request] = []

    @axe_nb.script("lead")
    @axe_nb.script("other")
    def answer(request: Request) -> str:
        requests.append(request)
        return "done"

    yield requests
    functions.clear()


def told(request: Request) -> Any:
    tools = [tool.name for tool in request.tools]
    return request.model, request.system, request.params, tools, request.last, request.output


@pytest.mark.req("B-9", "A-D7")
@pytest.mark.parametrize("flag", SAMPLES)
def test_an_option_means_the_same_in_every_face(seen: list[Request], flag: str) -> None:
    text, value = SAMPLES[flag]
    [option] = [option for option in OPTIONS if option.flag == flag]
    axe_nb.run("lead", "quick", display=False)
    axe_nb.run("lead", "quick", display=False, **{option.keyword: value})
    for face in ("cell", "line", "command"):
        asked = parse_run(f"lead {flag} {text}", face)
        asyncio.run(ask_session(Session(), asked.agent, "quick", asked.overrides))
    plain, in_python, *in_text = (told(request) for request in seen if request.turn == 1)
    assert in_python != plain, "the option does something"
    assert in_text == [in_python] * 3
