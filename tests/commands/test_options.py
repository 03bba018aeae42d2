"""The options of a run: one description, the same in the cell, on the line and in the command."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axe_nb.commands.parser import parse_run
from axe_nb.errors import ConfigError

PROMPTS = [
    *((line.split(), "Summarise") for line in (
        "sum Summarise", "sum -m p/m Summarise", "-q sum --param a=1 -- Summarise",
    )),
    *((["sum", *words], prompt)
      for prompt in ("--hello", "-please", "--dry-run", "-m p/m", "- a\n- b", "-5")
      for words in ([f"--prompt={prompt}"], ["--", prompt])),
    (["sum", "-p", "- a\n- b", "--json"], "- a\n- b"),
    (["sum", "--param", "temperature=0", "topic=the sea"], "topic=the sea"),
    (["sum", "--var", "a=b", "topic=the sea"], "topic=the sea"),
]  # fmt: skip
"""Words → the prompt in them."""


@pytest.mark.parametrize("face", ["line", "command"])
@pytest.mark.parametrize(("words", "prompt"), PROMPTS)
def test_a_prompt_stands_by_itself_or_after_its_option(
    words: list[str], prompt: str, face: Any
) -> None:
    found = parse_run(words, face)
    assert (found.agent, found.prompt) == ("sum", prompt)


MISTAKES = {
    "lead --timout 3": "unrecognized arguments: --timout 3",
    "lead -p hello": "unrecognized arguments: -p hello",
    "lead --dry": "unrecognized arguments: --dry",
    "lead what changed": "unrecognized arguments: what changed",
    "": "the following arguments are required: AGENT",
    "lead --model": "argument -m/--model: expected one argument",
    "lead --timeout abc": 'argument --timeout: takes seconds, as in 120 or 0.5, not "abc"',
    "lead -o 1a": 'argument -o/--out: takes a Python name, not "1a"',
    "lead --raises never": "argument --raises: invalid choice: 'never'",
    "lead --model 'p/m": "no closing quotation",
}


@pytest.mark.req("A-X2")
@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_told_with_the_usage_line(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_run(line, "cell")
    assert str(caught.value).startswith(MISTAKES[line])
    assert caught.value.hint.startswith(
        "usage: %%axe [-h] [-m P/M] [-o NAME] [-c] [--from R@PLACE]"
    )
    assert "\n" not in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("temperature=0.2", 0.2),
        ("text=a=b", "a=b"),
        ('quoted="3"', "3"),
        ('list=["a", 1]', ["a", 1]),
        ('format={"type": "json"}', {"type": "json"}),
        ("deep=" + "[" * 100_000, "[" * 100_000),
    ],
)
def test_a_parameter_is_json_where_it_reads_as_json_else_text(word: str, value: object) -> None:
    name = word.partition("=")[0]
    assert parse_run(["lead", "--param", word], "command").overrides.params == {name: value}


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("lead -m 'p/a model'", "p/a model"),
        ('lead -m "p/it\'s"', "p/it's"),
        ("  lead   -m   p/m  ;", "p/m"),
        ("lead -m p/#m", "p/#m"),
        ("lead --model=p/é", "p/é"),
    ],
)
def test_an_option_line_is_split_like_a_shell_would(line: str, model: str) -> None:
    assert parse_run(line, "cell").overrides.model == model


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_option_line_is_understood_or_refused(line: str) -> None:
    try:
        found = parse_run(line, "cell")
    except ConfigError as error:
        told = error.hint
    else:
        told = f"usage: {found.agent}"
    assert told.startswith("usage: ")


@pytest.mark.parametrize("face", ["line", "command"])
@pytest.mark.parametrize(
    ("flag", "word"), [("--param", 'format={"type": "json"}'), ("--var", "topic=the sea")]
)
def test_a_value_with_spaces_needs_a_flag_of_its_own(flag: str, word: str, face: Any) -> None:
    key, _, value = word.partition("=")
    found = parse_run(["sum", flag, "a=b", flag, word, "hello"], face)
    taken = {**found.overrides.params, **found.overrides.vars}
    assert (found.prompt, str(taken[key]).replace("'", '"')) == ("hello", value)


@pytest.mark.parametrize("face", ["line", "command"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--param", "is x=1"], 'takes KEY=VALUE, as in temperature=0.2, not "is x=1"'),
        (["--tools", "grep,", "fetch"], 'takes names without spaces, as in a,b, not "grep,"'),
        (["--break", "turn,", "agent:x"], 'takes names without spaces, as in a,b, not "turn,"'),
        (["-p", "--json"], "write a value that begins with a dash as --prompt=…"),
        (["-p", "-m p/m"], "write a value that begins with a dash as --prompt=…"),
        (["--hello"], "unrecognized arguments: --hello"),
        (["this", "-p", "that"], "the prompt is given twice: with -p and as an argument"),
        (["Summarise", "this"], "arguments: this; put the prompt in quotes"),
    ],
)
def test_a_mistake_beside_a_prompt_is_no_request(words: list[str], told: str, face: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_run(["sum", *words], face)
    assert told in str(caught.value)
