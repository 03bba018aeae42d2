"""Lookup of the command that an `axe-nb` line names, and the help of command groups.

Source: product.md "Command line"; seed 000 §8 (A-X2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from axe_nb.agents.agent_files import has_file
from axe_nb.commands.pages import make_overview
from axe_nb.commands.parser import HelpAsked, Parser
from axe_nb.commands.table import PROGRAMS, Command, commands_of
from axe_nb.text import nearest, quote

Level: TypeAlias = "Mapping[str, Command | Level]"
"""Word → its command, or the words that can follow it."""

ELSEWHERE = {
    "grid": "it is a cell magic in notebooks, %%axe_grid, and a Python function, axe_nb.grid",
    "map": "it is a Python function: axe_nb.map",
    **dict.fromkeys(("ask", "chat"), 'axe-nb run NAME "PROMPT" asks an agent'),
    **dict.fromkeys(("add", "create"), "axe-nb agents init NAME writes an agent"),
    **dict.fromkeys(("lab", "new", "notebook", "open"), "axe-nb start opens a first notebook"),
}
"""Words that name no command but a cell or a function → where they are."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "First steps, without a key": ("demo", "start"),
    "Agents": ("run", "agents", "trust"),
    "Notebooks as tests, and lessons": ("check", "freeze", "lesson"),
    "Settings": ("doctor", "config", "version"),
}
"""Heading in the help → the first words of its commands."""

PROGRAM = PROGRAMS["command"].strip()

LABELS = ("COMMAND", "VERB")
"""Placeholders for the first and the second word in usage lines."""


def command_of(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Finds the command; returns it with the words of its options.

    Raises:
        UsageError: no such command; the hint is the usage line.
        HelpAsked: help was requested, or words are missing.
    """
    if list(words) in (["--version"], ["-V"], ["-v"]):
        words = ["version"]
    if words and words[0] == "help":
        words = [*words[1:], "--help"]
    found: Command | Level = _build_levels()
    program = PROGRAM
    for label in LABELS:
        if isinstance(found, Command):
            break
        end = next((n for n, word in enumerate(words) if not word.startswith("-")), len(words)) + 1
        reader = _build_parser(program, label, found)
        if not words:
            raise HelpAsked(reader.page, 2)
        word = reader.parse_args(words[:end]).word
        if word not in found:
            reader.error(f"unknown command {quote(word)}; {_advise(word, program, found)}")
        found, program, words = found[word], f"{program} {word}", words[end:]
    assert isinstance(found, Command)
    return found, words


def _advise(word: str, program: str, level: Level) -> str:
    """The next step after an unknown word."""
    known = commands_of("command")
    meant = [words for words in known if words.partition(" ")[2] == word and words not in level]
    near = nearest(word, level)
    if program == PROGRAM and meant:
        return f"did you mean {' or '.join(map(quote, meant))}?"
    if near:
        return f"did you mean {quote(near)}?"
    if program == PROGRAM and has_file(word):
        return f"to run the agent: {program} run {word}"
    if word in ELSEWHERE:
        return ELSEWHERE[word]
    if word in commands_of("line"):
        return f"it is a notebook command: {commands_of('line')[word].program('line')}"
    return f"known commands: {', '.join(level)}"


def _build_levels() -> Level:
    levels: dict[str, Command | dict[str, Command]] = {}
    for words, command in commands_of("command").items():
        first, _, second = words.partition(" ")
        if second:
            below = levels.setdefault(first, {})
            assert isinstance(below, dict)
            below[second] = command
        else:
            levels[first] = command
    return levels


def _build_parser(program: str, label: str, level: Level) -> Parser:
    """Builds the parser of one word; its help lists the commands below it."""
    make_page = partial(
        make_overview, groups=_group_commands(program), program=program,
        end=f"`{program} {label} --help` describes one of them, with examples.",
    )  # fmt: skip
    made = Parser(program, make_page, usage=f"{program} [-h] {label} …")
    made.add_argument("word", metavar=label)
    return made


def _group_commands(program: str) -> dict[str, dict[str, str]]:
    """Heading → usage of a command → what it does, of the commands that begin with `program`."""
    uses = {
        command.use("command"): command.help
        for command in commands_of("command").values()
        if command.program("command").startswith(f"{program} ")
    }
    groups = GROUPS if program == PROGRAM else {"Commands": (program.removeprefix(f"{PROGRAM} "),)}
    return {
        heading: {use: uses[use] for word in first for use in uses if use.split()[1] == word}
        for heading, first in groups.items()
    }
