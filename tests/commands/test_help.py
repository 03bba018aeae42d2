"""Help pages: complete, with examples that the parsers accept, within the terminal."""

import re
import shlex

import pytest

from axe_nb.agents.agent import Agent
from axe_nb.commands.option_table import (
    ABOUT,
    COMMANDS,
    EXAMPLES,
    FACES,
    OPTION_GROUPS,
    OPTIONS,
    RUN,
    Face,
    commands_of,
)
from axe_nb.commands.parser import command_of, list_parser, parse, parse_run, parser
from axe_nb.expectations import parse as parse_expectations
from axe_nb.notebook.line_magic import RESULT
from axe_nb.notebook.option_line import read_words

pytestmark = pytest.mark.req("B-12")

NAMES = {"folder": "more/agents", "name": "critic", "draft": "A text."}
"""Variables that examples of lines use."""

CODES = [
    code
    for program, text in EXAMPLES.items()
    for code in text.split("\n\n" if program.startswith("%%") else "\n")
]


@pytest.mark.parametrize("code", CODES)
def test_the_examples_are_accepted(code: str) -> None:
    if code.startswith("%%"):
        line, _, body = code.partition("\n")
        magic, _, rest = line.partition(" ")
        assert body
        chosen = parse(commands_of("cell")[magic.removeprefix("%%")], "cell", rest)
        if magic == "%%axe_agent":
            assert not Agent.from_toml(f'name = "{chosen.agent}"\n{body}').warnings
        elif magic == "%%axe":
            parse_run(rest, "cell")
        return
    if not code.startswith("%axe"):
        calls = re.findall(r"axe-nb\b[^|&>)]*", code)  # in a line of a shell
        assert calls
        for call in calls:
            command, words = command_of(shlex.split(call)[1:])
            parse_run(words, "command") if command is RUN else parse(command, "command", words)
        return
    _, verb, *_ = code.split()
    command, rest = commands_of("line")[verb], code.partition(verb)[2]
    if command.is_verbatim:
        found = RESULT.match(rest)
        parse_expectations(found[2] if found else rest)
    elif command is RUN:
        parse_run(read_words(RUN, "line", rest, NAMES), "line")
    else:
        parse(command, "line", read_words(command, "line", rest, NAMES))


def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lists = [list_parser("line"), list_parser("command"), list_parser("command", "agents")]
    commands = [(face, one) for one in COMMANDS for face in FACES if face in one.words]
    every = [*(parser(command, face) for face, command in commands), *lists]
    assert EXAMPLES.keys() | ABOUT.keys() <= {made.prog for made in every} | {"axe-nb config"}
    typed = {line for text in EXAMPLES.values() for line in text.split("\n")}
    lines = [line for made in every for line in made.format_help().split("\n")]
    assert [line for line in lines if len(line) > 80 and line.strip() not in typed] == []


@pytest.mark.parametrize("face", RUN.words)
def test_the_ten_most_used_options_come_first_and_the_others_in_groups(face: Face) -> None:
    assert {option.group for option in OPTIONS} == set(OPTION_GROUPS)
    page = parser(RUN, face).format_help()
    first = page.partition("\nMost used:\n")[2].partition("\n\n")[0]
    assert sum(line.startswith("  -") for line in first.split("\n")) == 10
    groups = [name for name in OPTION_GROUPS if name != "Prompt and inputs" or face == "cell"]
    headings = ["positional arguments", "options", "Most used", *groups, "Examples"]
    at = [page.index(f"\n{heading}:\n") for heading in headings]
    assert at == sorted(at)
    words = " ".join(page.split())
    assert "0 = no limit (default 120)" in words
    assert "(default: the agent's, or ask): plan, ask, auto" in words


def test_the_lists_have_every_command() -> None:
    page = list_parser("line").format_help()
    first, _, others = page.partition("\nMost used:\n")[2].partition("\nOthers:\n")
    assert first.startswith("  run ")
    assert "\n  help " in others
    assert [word for word in commands_of("line") if f" {word} " not in page] == []
    pages = {group: list_parser("command", group).format_help() for group in ("", "agents")}
    for words in commands_of("command"):
        first, _, second = words.partition(" ")
        assert f" {first} " in pages[""]
        assert not second or first != "agents" or f" {second} " in pages["agents"]
