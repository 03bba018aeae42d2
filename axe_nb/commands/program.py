"""Which command a line of `axe-nb` means, and the help of the levels above it.

Source: product.md "Command line"; seed 000 §8 (A-X2).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axe_nb.commands.parser import Parser
from axe_nb.commands.table import PROGRAMS, Command, commands_of

Level: TypeAlias = "Mapping[str, Command | Level]"
"""Word → the command, or the words that may follow it."""

LABELS = ("COMMAND", "VERB")
"""How usage lines call the first and the second word."""


def command_of(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command, and the words that are its options.

    Raises:
        UsageError: there is none; the hint is the usage line.
        SystemExit: help was asked for, and printed.
    """
    found: Command | Level = _levels()
    program = PROGRAMS["command"].strip()
    for label in LABELS:
        if isinstance(found, Command):
            break
        end = next((n for n, word in enumerate(words) if not word.startswith("-")), len(words)) + 1
        word = _parser(program, label, found).parse_args(words[:end]).word
        found, program, words = found[word], f"{program} {word}", words[end:]
    assert isinstance(found, Command)
    return found, words


def _levels() -> Level:
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


def _parser(program: str, label: str, level: Level) -> Parser:
    """The parser of one word, whose help lists the commands that begin like this."""
    uses = {
        command.use("command"): command.help
        for command in commands_of("command").values()
        if command.program("command").startswith(f"{program} ")
    }
    width = max(map(len, uses))
    made = Parser(
        prog=program, allow_abbrev=False, usage=f"{program} [-h] {label} …",
        description="Runs LLM agents that delegate.",
        epilog="\n".join(f"  {use:<{width}}  {meaning}" for use, meaning in uses.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("word", metavar=label, choices=tuple(level), help=argparse.SUPPRESS)
    return made
