"""The parser of any command in any face, built from its row.

Source: product.md "Notebook" and "Command line"; seed 000 §8 (A-X2).
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from axe_nb.commands.options import BARE_PROMPT, Face, Option
from axe_nb.commands.overrides import Overrides
from axe_nb.commands.table import RUN, Command
from axe_nb.errors import ConfigError
from axe_nb.text import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run as it was asked for on an option line; each field is a keyword of the table."""

    agent: str
    overrides: Overrides = Overrides()
    prompt: str | None = None
    goes_on: bool = False
    """Whether the agent's last conversation goes on."""
    out: str | None = None
    """Name that the RunResult is bound to."""
    raises: str | None = None
    """One of EXPECTED: how the run must end."""
    dry_run: bool = False
    json: bool = False
    verbose: bool = False
    raw: bool = False
    quiet: bool = False
    background: bool = False


class UsageError(ConfigError):
    """An option line is not right; the hint is the usage line."""


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raises a UsageError."""
        usage = " ".join(self.format_usage().split())
        before, _, words = message.partition("unrecognized arguments: ")
        unknown = words.split()[0] if words and not before else ""
        meant = nearest(unknown, self._option_string_actions) if unknown else ""
        if meant:
            message += f"; did you mean {meant}?"
        elif unknown and not unknown.startswith("-") and self._takes_a_prompt():
            message += "; put the prompt in quotes"
        raise UsageError(message, hint=usage)

    def _takes_a_prompt(self) -> bool:
        return any(action.dest == BARE_PROMPT.keyword for action in self._actions)

    def words(self, line: str) -> list[str]:
        """The words of an option line; a semicolon at its end is IPython's.

        Raises:
            UsageError: a quotation mark is missing.
        """
        try:
            return list(_lexer(line.strip().removesuffix(";")))
        except ValueError as error:
            self.error(f"{str(error)[0].lower()}{str(error)[1:]}")


def parser(command: Command, face: Face) -> Parser:
    """The parser of a command in one face; its errors are UsageErrors."""
    options = command.options_of(face)
    made = Parser(
        prog=command.program(face), add_help=face == "command", allow_abbrev=False,
        description=command.help if face == "command" else None, epilog=_elsewhere(command, face),
    )  # fmt: skip
    for option in options:
        _add(made, option)
    # argparse formats it once more when arguments and options are mixed: `%axe` has a percent sign
    made.usage = made.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
    return made


def _add(made: Parser, option: Option) -> None:
    chosen = f": {', '.join(option.choices)}" if option.choices else ""
    about = (option.help + chosen).replace("%", "%%")
    if not option.flags:
        nargs = None if option.required else "?"
        made.add_argument(option.keyword, metavar=option.metavar, help=about, nargs=nargs)
    elif not option.metavar:
        made.add_argument(*option.flags, dest=option.keyword, action="store_true", help=about)
    else:
        made.add_argument(
            *option.flags, dest=option.keyword, metavar=option.metavar, help=about,
            nargs="+" if option.repeated else None,
            action="extend" if option.repeated else "store",
            choices=option.choices or None, type=option.read,
        )  # fmt: skip


def _elsewhere(command: Command, face: Face) -> str | None:
    """What the help says of options that other faces take."""
    told = [
        f"{option.flag}: {option.instead[face].replace('`', '')}"
        for option in command.options
        if option.flags and face not in option.faces and face in option.instead
    ]
    return f"Not here: {'; '.join(told)}." if told else None


def parse(command: Command, face: Face, line: str | Sequence[str]) -> argparse.Namespace:
    """An option line, or its words: every keyword of the command, None or False where not given.

    Raises:
        UsageError: it is not right; the hint is the usage line.
    """
    made = parser(command, face)
    words = made.words(line) if isinstance(line, str) else list(line)
    found = made.parse_intermixed_args(words)
    for option in command.options_of(face):
        given = getattr(found, option.keyword)
        if option.repeated and given is not None:
            setattr(found, option.keyword, dict(given))
    return found


def parse_run(
    line: str | Sequence[str], face: Face, defaults: Mapping[str, Any] | None = None
) -> Options:
    """The option line of a run, or its words.

    Args:
        defaults: keyword → value of options that the line does not give.

    Raises:
        UsageError: it is not right; the hint is the usage line.
    """
    found = vars(parse(RUN, face, line))
    given = {k: v for k, v in found.items() if v is not None and v is not False}
    if BARE_PROMPT.keyword in given:
        if "prompt" in given:
            parser(RUN, face).error("the prompt is given twice: with -p and by itself")
        given["prompt"] = given.pop(BARE_PROMPT.keyword)
    own = {field.name for field in fields(Overrides)}
    overrides = Overrides.of({k: v for k, v in given.items() if k in own}, defaults)
    return Options(overrides=overrides, **{k: v for k, v in given.items() if k not in own})


def _lexer(line: str) -> shlex.shlex:
    """As `shlex.split`, but with the backslashes of Windows paths as they are."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if os.name == "nt":
        lexer.escape = ""
    return lexer
