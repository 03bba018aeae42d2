"""Lookup of the command that an `axe-nb` line names, and the help of command groups.

Source: product.md "Command line"; seed 000 §8 (A-X2).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axe_nb.commands.parser import Parser
from axe_nb.commands.table import PROGRAMS, Command, commands_of
from axe_nb.text import nearest, quote

Level: TypeAlias = "Mapping[str, Command | Level]"
"""Word → its command, or the words that can follow it."""

ELSEWHERE = {
    "grid": "it is a cell of notebooks, %%axe_grid, and a function of Python, axe_nb.grid",
    "map": "it is a function of Python: axe_nb.map",
}
"""Words that name no command but a cell or a function → where they are."""

LABELS = ("COMMAND", "VERB")
"""Placeholders for the first and the second word in usage lines."""


def command_of(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Finds the command; returns it with the words of its options.

    Raises:
        UsageError: no such command; the hint is the usage line.
        SystemExit: help was requested and printed.
    """
    if list(words) == ["--version"]:
        words = ["version"]
    found: Command | Level = _build_levels()
    program = PROGRAMS["command"].strip()
    for label in LABELS:
        if isinstance(found, Command):
            break
        end = next((n for n, word in enumerate(words) if not word.startswith("-")), len(words)) + 1
        reader = _build_parser(program, label, found)
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
    if program == PROGRAMS["command"].strip() and meant:
        return f"did you mean {' or '.join(map(quote, meant))}?"
    if near:
        return f"did you mean {quote(near)}?"
    if word == "help":
        return f"use {program} --help"
    if word in ELSEWHERE:
        return ELSEWHERE[word]
    if word in commands_of("line"):
        return f"it is a command of notebooks: {commands_of('line')[word].program('line')}"
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
    uses = {
        command.use("command"): command.help
        for command in commands_of("command").values()
        if command.program("command").startswith(f"{program} ")
    }
    width = max(map(len, uses))
    made = Parser(
        prog=program, allow_abbrev=False, usage=f"{program} [-h] {label} …",
        description="Run LLM agents that delegate to other agents.",
        epilog="\n".join(f"  {use:<{width}}  {meaning}" for use, meaning in uses.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("word", metavar=label, help=argparse.SUPPRESS)
    return made
