"""Lookup of the command that an `axe-nb` line names, and the help of command groups.

Source: product.md "Command line"; seed 000 §8 (A-X2).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axe_nb.agents.agent_files import has_file
from axe_nb.commands.parser import Parser
from axe_nb.commands.table import PROGRAMS, Command, commands_of
from axe_nb.text import nearest, quote

Level: TypeAlias = "Mapping[str, Command | Level]"
"""Word → its command, or the words that can follow it."""

ELSEWHERE = {
    "grid": "it is a cell of notebooks, %%axe_grid, and a function of Python, axe_nb.grid",
    "map": "it is a function of Python: axe_nb.map",
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

EXAMPLES = """\
Examples
  axe-nb start
  axe-nb run greeter "My name is Ada."
  git diff | axe-nb run critic -p "What did I miss?"

`axe-nb COMMAND --help` describes the options of a command."""

LABELS = ("COMMAND", "VERB")
"""Placeholders for the first and the second word in usage lines."""


def command_of(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Finds the command; returns it with the words of its options.

    Raises:
        UsageError: no such command; the hint is the usage line.
        SystemExit: help was printed: to stdout where it was requested, else to stderr, as an error.
    """
    if list(words) in (["--version"], ["-V"], ["-v"]):
        words = ["version"]
    if list(words) == ["help"]:
        words = ["--help"]
    found: Command | Level = _build_levels()
    program = PROGRAMS["command"].strip()
    for label in LABELS:
        if isinstance(found, Command):
            break
        end = next((n for n, word in enumerate(words) if not word.startswith("-")), len(words)) + 1
        reader = _build_parser(program, label, found)
        if not words:
            reader.exit(2, reader.format_help())
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
    if program == PROGRAMS["command"].strip() and has_file(word):
        return f"to run the agent: {program} run {word}"
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
    lines = {use: f"  {use:<{width}}  {meaning}" for use, meaning in uses.items()}
    made = Parser(
        prog=program, allow_abbrev=False, usage=f"{program} [-h] {label} …",
        description="Run LLM agents that delegate to other agents.",
        epilog=_group(lines) if label == LABELS[0] else "\n".join(lines.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("word", metavar=label, help=argparse.SUPPRESS)
    return made


def _group(lines: Mapping[str, str]) -> str:
    """The lines of all commands under their headings, then the examples."""
    parts = [
        "\n".join([heading, *(line for word in first for line in _select(lines, word))])
        for heading, first in GROUPS.items()
    ]
    return "\n\n".join([*parts, EXAMPLES])


def _select(lines: Mapping[str, str], word: str) -> list[str]:
    """The lines of the commands whose first word it is."""
    return [line for use, line in lines.items() if use.split()[1] == word]
