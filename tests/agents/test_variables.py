"""Variables of system prompts: what is filled in, what stays as it is, what is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request
from axe_nb.agents.prompt import LONGEST_PROMPT, brief
from axe_nb.conversion.interpolation import interpolate
from axe_nb.conversion.value_text import LONGEST_VALUE


def filled(prompt: str, **values: object) -> str:
    return brief(Agent(name="a", model="p/m", system_prompt=prompt, vars=values)).system


SAME_AS_IN_A_CELL = {
    "{{ x }}": "VALUE",
    "{{x}}, {{\n x\t}}!": "VALUE, VALUE!",
    r"\{{ x }} and {{ x }}": "{{ x }} and VALUE",
    r"\{{{ x }}}": "{{{ x }}}",
    "{{2}} {{ None }} {{ [1, 2] }} {{ else }} {{}} {{ }}": (
        "{{2}} {{ None }} {{ [1, 2] }} {{ else }} {{}} {{ }}"
    ),
    "{{ x": "{{ x",
    '{"a": {"b": {x}}} $x \\frac{x}{y} {% if x %}': '{"a": {"b": {x}}} $x \\frac{x}{y} {% if x %}',
}


@pytest.mark.req("D-40")
@pytest.mark.parametrize("prompt", SAME_AS_IN_A_CELL)
def test_braces_mean_what_they_mean_in_a_cell(prompt: str) -> None:
    assert filled(prompt, x="VALUE") == SAME_AS_IN_A_CELL[prompt]
    assert interpolate(prompt, {"x": "VALUE"}) == SAME_AS_IN_A_CELL[prompt]


def test_only_names_are_filled_in_and_nothing_is_evaluated_or_expanded_again() -> None:
    prompt = "{{ x.y }} {{ x() }} {{ __import__('os') }} {{ x | upper }}"
    assert filled(prompt, x="VALUE") == prompt
    assert filled("{{ a }}{{ b }}", a="{{ b }}", b=r"\{{ a }}") == r"{{ b }}\{{ a }}"


class Unwilling:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_a_value_without_text_is_an_error_that_names_it() -> None:
    for value, problem in (
        (b"x", "is of type bytes"),
        (len, "which cannot be converted to text"),
        (Unwilling(), "no"),
    ):
        with pytest.raises(ConfigError, match=rf'^variable "a" .*{problem}'):
            filled("{{ a }}", a=value)


@pytest.mark.req("D-27")
def test_an_unknown_name_is_an_error_with_its_file_and_line(project: Path) -> None:
    axe_nb.script("never")(say_system)
    (project / "axe" / "agents" / "lead.toml").write_text(
        'name = "lead"\nmodel = "script/never"\n\nsystem_prompt = """\n'
        'Write \\\\{{ lnguage }}.\nIn {{ lnguage }}.\n"""\n[vars]\nlanguage = "English"\n',
        "utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("lead", "x")
    assert caught.value.lines() == [
        'unknown variable "lnguage" in {{ lnguage }} of system_prompt; did you mean language?',
        "in axe/agents/lead.toml, line 6",
        r"set it under [vars] or with --var lnguage=…, or write \{{ for literal braces",
    ]
    assert axe_nb.last() is None, "nothing was sent"


@pytest.mark.parametrize("name", ["a-b", "1a", "", "class", "a b"])
def test_a_variable_that_no_prompt_can_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^vars\.") as caught:
        Agent.from_toml(f'name = "a"\nmodel = "p/m"\n[vars]\n"{name}" = 1\n')
    assert "line 4" in caught.value.place


def test_long_values_are_cut_and_a_short_file_makes_no_huge_prompt() -> None:
    text = filled("{{ a }}", a="x" * (LONGEST_VALUE + 7))
    assert text.endswith("[7 more characters left out]")
    many = "{{a}}" * (LONGEST_PROMPT // LONGEST_VALUE + 1)
    with pytest.raises(ConfigError, match=r"system_prompt of agent .* is longer than 4,000,000"):
        filled(many, a="x" * LONGEST_VALUE)


def say_system(request: Request) -> str:
    return request.system


def make_tree() -> list[tuple[str, str]]:
    """A lead and two agents below it; what each was told."""
    told: list[tuple[str, str]] = []

    @axe_nb.script("notes")
    def notes(request: Request) -> object:
        told.append((request.agent, request.system))
        if request.agent == "lead" and request.turn == 1:
            return [
                axe_nb.ToolCall(f"c{n}", "call_agent", {"agent": name, "task": "t"})
                for n, name in enumerate(("tuned", "jinja"))
            ]
        return "done"

    prompt = "{{ tone }} {{ place }}"
    make = lambda name, **more: axe_nb.define(  # noqa: E731
        Agent(name=name, model="script/notes", system_prompt=prompt, **more)
    )
    make("lead", vars={"tone": "warm", "place": "here"}, sub_agents=["tuned", "jinja"])
    make("tuned", vars={"tone": "dry", "place": "below"})
    make("jinja")
    return told


def test_a_run_sets_the_variables_of_every_agent_that_has_them() -> None:
    told = make_tree()
    axe_nb.run("lead", "go")
    assert dict(told) == {
        "lead": "warm here", "tuned": "dry below", "jinja": "{{ tone }} {{ place }}",
    }  # fmt: skip
    told.clear()
    result = axe_nb.run("lead", "go", vars={"tone": "{{ place }}"})
    assert result.ok
    assert dict(told) == {
        "lead": "{{ place }} here", "tuned": "{{ place }} below",
        "jinja": "{{ tone }} {{ place }}",
    }  # fmt: skip


def test_a_run_may_set_what_the_agent_only_names(project: Path) -> None:
    axe_nb.script("system")(say_system)
    agent = Agent(name="a", model="script/system", system_prompt="In {{ language }}.")
    assert axe_nb.run(agent, "x").text == "In {{ language }}."
    assert axe_nb.run(agent, "x", vars={"language": "French"}).text == "In French."


def test_a_variable_that_no_agent_of_the_tree_has_is_an_error() -> None:
    told = make_tree()
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("lead", "go", vars={"tnoe": "x"})
    assert caught.value.lines() == [
        'no agent in this run has the variable "tnoe"', 'did you mean "tone"?'
    ]  # fmt: skip
    axe_nb.define(Agent(name="tuned", model="script/notes", vars={"deep": 1}))
    axe_nb.run("lead", "go", vars={"deep": 2})
    with pytest.raises(ConfigError, match="vars takes a dict"):
        axe_nb.run("lead", "go", vars=["tone"])  # type: ignore[arg-type]
    assert told


@pytest.mark.req("X-18")
def test_a_copy_of_the_caller_has_its_values_and_a_spawned_child_keeps_braces() -> None:
    told: list[str] = []

    @axe_nb.script("copies")
    def copies(request: Request) -> object:
        told.append(request.system)
        if request.agent == "a" and request.turn == 1:
            return [
                axe_nb.ToolCall("1", "subagent", {"label": "l", "task_prompt": "t"}),
                axe_nb.ToolCall("2", "spawn_agent", {"task": "say {{ x }} and {{ y }}"}),
            ]
        return "done"

    agent = Agent(
        name="a", model="script/copies", system_prompt="X: {{ x }}", vars={"x": "{{ x }}"},
        tools=["subagent", "spawn_agent"],
    )  # fmt: skip
    result = axe_nb.run(agent, "go")
    assert [child.status for child in result.children] == ["completed"] * 2
    assert sum(text.startswith("X: {{ x }}") for text in told) >= 2
    assert any("say {{ x }} and {{ y }}" in text for text in told)
