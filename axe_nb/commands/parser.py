"""Builds the parsers of all commands from the option table. Source: A-X2."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from axe_nb.agents.agent import list_agents
from axe_nb.commands.option_table import (
    ABOUT,
    BARE_PROMPT,
    EXAMPLES,
    MOST_USED,
    OPTION_GROUPS,
    PROGRAMS,
    RUN,
    WANTED,
    Command,
    Face,
    Option,
    commands_of,
)  # fmt: skip
from axe_nb.errors import ConfigError
from axe_nb.session.overrides import Overrides, keep_for_tree
from axe_nb.session.session import session
from axe_nb.text import nearest, quote

T = TypeVar("T")

FIRST, MANY = "Most used", MOST_USED + 2
"""Heading of the most used options or commands, and the number of entries up to which a help page
does not separate them from the others."""

DATA = "\0"
"""Marks the part of a word that is a variable's value, which is never parsed as an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed options of a run; field names are the keywords in the option table."""

    agent: str | None = None
    """Name of the agent; None to send the prompt directly to a model."""
    overrides: Overrides = Overrides()
    prompt: str | None = None
    goes_on: bool = False
    fork_from: str | None = None
    out: str | None = None
    raises: str | None = None
    dry_run: bool = False
    full: bool = False
    json: bool = False
    verbose: bool = False
    raw: bool = False
    quiet: bool = False
    background: bool = False


class UsageError(ConfigError):
    """Raised for an invalid option line or an unknown command; the hint says what to do."""


class HelpShown(SystemExit):
    """Raised to end a command after its help has been printed."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError for errors, and HelpShown after its help."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        try:
            super().exit(status, message)
        except SystemExit:
            raise HelpShown(status) from None

    def __init__(self, program: str, about: str = "") -> None:
        fold = textwrap.TextWrapper(shutil.get_terminal_size().columns - 2, break_on_hyphens=False)
        examples = textwrap.indent(EXAMPLES.get(program, ""), "  ")
        super().__init__(
            program, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
            description="\n\n".join(map(fold.fill, filter(None, (about, ABOUT.get(program))))),
            epilog=examples and f"Examples:\n{examples}",
        )  # fmt: skip
        self.color = False  # from Python 3.14 on, usage lines in errors would be coloured, too

    @property
    def takes_prompt(self) -> bool:
        return any(action.dest == BARE_PROMPT.keyword for action in self._actions)

    def error(self, message: str) -> NoReturn:
        message = message.replace(DATA, "").replace(repr(DATA)[1:-1], "")
        before, _, unrecognized = message.partition("unrecognized arguments: ")
        unknown = unrecognized.split()[0] if unrecognized and not before else ""
        if message.endswith(": expected one argument"):
            flag = message.partition(":")[0].rpartition("/")[2].removeprefix("argument ")
            message += f"; write a value that begins with a dash as {flag}=…"
        elif unknown.partition("=")[0] == "--system-prompt":
            message += '; edit the agent, or try one: result.fork("0/1", system_prompt="…")'
        elif near := nearest(unknown, self._option_string_actions) if unknown else "":
            message += f"; did you mean {near}?"
        elif unknown and not unknown.startswith("-") and self.takes_prompt:
            message += "; put the prompt in quotes"
        elif unknown and not unknown.startswith("-") and self.prog == "%%axe":
            message += "; the prompt is the body of the cell"
        raise UsageError(message, hint=" ".join(self.format_usage().split()))


def parser(command: Command, face: Face) -> Parser:
    """Builds a command's parser for one interface. The parser's errors are UsageErrors."""
    made = Parser(command.program(face), f"{command.help[:1].upper()}{command.help[1:]}.")
    options = command.options_of(face)
    flagged = [option for option in options if option.flags]
    first, *others = split_most_used(flagged)
    named = {option.group for some in others for option in some}
    names = [*([FIRST] if others else []), *(name for name in OPTION_GROUPS if name in named)]
    known = {name: made.add_argument_group(name) for name in names}
    for option in options:
        chosen = f": {', '.join(option.choices)}" if option.choices else ""
        group = known.get(FIRST if option in first else option.group, made)

        def read(word: str, option: Option = option) -> Any:
            text = word.replace(DATA, "", 1)
            try:
                return option.read(text)
            except ValueError:
                message = f"takes {WANTED[option.read]}, not {quote(text)}"
                raise argparse.ArgumentTypeError(message) from None

        how: dict[str, Any] = {"help": f"{option.help}{chosen}".replace("%", "%%")}
        if option.metavar:
            how |= {"metavar": option.metavar, "type": read}
        if not option.flags:
            many, one = ("+", None) if option.required else ("*", "?")
            nargs = many if option.repeated else one
            group.add_argument(option.keyword, nargs=nargs, **how)
            continue
        if not option.metavar:
            how |= {"action": "store_const", "const": option.value}
        else:
            how["action"] = "append" if option.repeated else "store"
            how["choices"] = option.choices or None
        group.add_argument(*option.flags, dest=option.keyword, **how)
    # argparse formats the usage once more, so the % of `%axe` has to be escaped
    made.usage = made.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
    return made


def list_parser(face: Face, group: str = "") -> Parser:
    """Builds the parser of `%axe`, `axe-nb` or `axe-nb GROUP`, whose help lists the commands."""
    made = Parser(f"{PROGRAMS[face]}{group}".strip())
    made.usage = f"{made.prog} [-h] COMMAND ...".replace("%", "%%")
    start = f"{group} " if group else ""
    found: dict[str, str] = {}
    for words, command in commands_of(face).items():
        word, _, second = words.removeprefix(start).partition(" ")
        if words.startswith(start):
            about = ABOUT[f"{PROGRAMS[face]}{word}"] if second else command.help
            found.setdefault(word, f"{about[:1].lower()}{about[1:]}".rstrip("."))
    titles = (FIRST, "Others") if len(found) > MANY else ("commands",)
    for title, some in zip(titles, split_most_used(list(found)), strict=True):
        listed = made.add_argument_group(title)
        for word in some:
            listed.add_argument(word, nargs="?", help=found[word].replace("%", "%%"))
    return made


def split_most_used(names: Sequence[T]) -> list[Sequence[T]]:
    """Splits the entries of a long list into the most used ones and the others."""
    return [names[:MOST_USED], names[MOST_USED:]] if len(names) > MANY else [names]


def command_of(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Returns the command in an `axe-nb` line, and the words after its name.

    Raises HelpShown after showing help, and UsageError if the command is unknown.
    """
    words = ["version"] if words == ["--version"] else list(words)
    commands = commands_of("command")
    for count in (2, 1):
        if command := commands.get(" ".join(words[:count])):
            return command, words[count:]
    group = words[0] if words and any(name.startswith(f"{words[0]} ") for name in commands) else ""
    start = f"{group} " if group else ""
    made, rest = list_parser("command", group), words[1:] if group else words
    if not rest:
        made.exit(2, made.format_help())
    if not rest[0].startswith("-"):
        known = [name.removeprefix(start) for name in commands if name.startswith(start)]
        made.error(f"unknown command {quote(rest[0])}; {advise_command('command', rest[0], known)}")
    made.parse_args(rest[:1])
    raise AssertionError("argparse ends with the help, or an error")


def advise_command(face: Face, word: str, known: Collection[str]) -> str:
    if word in session.agents or word in list_agents(session.defaults.get("agents_dir")):
        if face == "command":
            return f"to run the agent: axe-nb run {word}"
        return f"to run the agent, start a cell with %%axe {word} and put the prompt below it"
    first = dict.fromkeys(name.split()[0] for name in known)
    meant = [name for name in known if name.partition(" ")[2] == word]
    if near := meant or list(filter(None, [nearest(word, first)])):
        return f"did you mean {' or '.join(map(quote, near))}?"
    return f"known commands: {', '.join(first)}"


def parse(command: Command, face: Face, line: str | Sequence[str]) -> argparse.Namespace:
    """Parses an option line, passed as text or as words. Omitted options are None."""
    made = parser(command, face)
    words = split_line(command, face, line) if isinstance(line, str) else list(line)
    options = [option for option in command.options_of(face) if option.repeated and option.flags]
    found = made.parse_intermixed_args(_repeat_flags(made, words, {o.flag for o in options}))
    for option in options:
        if (given := getattr(found, option.keyword)) is not None:
            setattr(found, option.keyword, dict(given))
    return found


def split_line(command: Command, face: Face, line: str) -> list[str]:
    """Splits an option line like `shlex.split`, but drops a final `;`.

    On Windows, backslashes are ordinary characters. Raises UsageError for an unclosed quote.
    """
    lexer = shlex.shlex(line.strip().removesuffix(";"), posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if os.name == "nt":
        lexer.escape = ""
    try:
        return list(lexer)
    except ValueError as error:
        parser(command, face).error(f"{str(error)[0].lower()}{str(error)[1:]}")


def _repeat_flags(made: Parser, words: Sequence[str], flags: Collection[str]) -> list[str]:
    """Rewrites `--param A=1 B=2` as `--param A=1 --param B=2`.

    If argparse took several values after one flag, it would also take an agent's name that follows
    them. If the command takes a prompt as an argument, a value with spaces needs its own flag.
    """
    value = r"\S*" if made.takes_prompt else ".*"
    # KEY=VALUE at the start of the word; other equals signs belong to a text, such as an address
    pair = re.compile(rf"[^\W\d][\w.-]*=(?!=)({DATA}.*|{value})", re.DOTALL)
    written: list[str] = []
    repeating = ""
    for number, word in enumerate(words):
        if word == "--":
            return [*written, *words[number:]]
        if word in flags:
            repeating = word
        elif repeating and written[-1] != repeating:  # not its first value
            repeating = repeating if pair.fullmatch(word) else ""
            written += [repeating] if repeating else []
        written.append(word)
    return written


def parse_run(
    line: str | Sequence[str],
    face: Face,
    defaults: Mapping[str, Any] | None = None,
    names: Mapping[str, Any] = MappingProxyType({}),
) -> Options:
    """Parses the options of a run.

    `defaults` has the values of omitted options, and `names` the variables that `--output` can
    refer to.
    """
    given = {k: v for k, v in vars(parse(RUN, face, line)).items() if v is not None}
    if BARE_PROMPT.keyword in given:
        if "prompt" in given:
            parser(RUN, face).error("the prompt is given twice: with -p and as an argument")
        given["prompt"] = given.pop(BARE_PROMPT.keyword)
    if "output" in given:
        given["output"] = names.get(given["output"], given["output"])
    if "full" in given and "dry_run" not in given:
        parser(RUN, face).error("--full needs --dry-run")
    is_fork = "fork_from" in given
    for other, flag in (("goes_on", "-c"), ("dry_run", "--dry-run")):
        if is_fork and other in given:
            parser(RUN, face).error(f"--from and {flag} cannot be combined")
    own = {field.name for field in fields(Overrides)}
    defaults = keep_for_tree(defaults or {}) if is_fork else defaults
    overrides = Overrides.of({k: v for k, v in given.items() if k in own}, defaults)
    options = Options(overrides=overrides, **{k: v for k, v in given.items() if k not in own})
    has_model = bool(overrides.model or overrides.model_all or options.goes_on or is_fork)
    if options.agent is None and not has_model:
        parser(RUN, face).error(
            "the following arguments are required: AGENT, or -m for a model without an agent"
        )
    return options
