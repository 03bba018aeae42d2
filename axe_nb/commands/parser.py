"""Parsers of all commands in all interfaces, built from the command table.

Source: product.md "Notebook" and "Command line"; seed 000 §8 (A-X2).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NoReturn

from axe_nb.agents.tables import COMMON_PARAMS
from axe_nb.commands.options import BARE_PROMPT, Face, Option, mark_prompt
from axe_nb.commands.overrides import Overrides, keep_for_tree
from axe_nb.commands.pages import Page, join, make_page
from axe_nb.commands.table import RUN, Command
from axe_nb.errors import ConfigError
from axe_nb.text import nearest, quote

DATA = "\0"
"""Beginning of a word that is the value of a variable: data, whatever it looks like."""

NOT_WITH_FROM = {"goes_on": "-c", "dry_run": "--dry-run"}
"""Keyword → flag that makes no sense for a fork: it has its conversation, and its request."""

_PAIR = re.compile(r"([^\W\d][\w.-]*)=(?!=)(.*)", re.DOTALL)
"""KEY=VALUE; neither data nor a text with an equals sign further on, such as an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed options of one run; each field is a keyword of the table."""

    agent: str | None = None
    """None = a model is asked without an agent. An empty name is that of no agent: an error."""
    overrides: Overrides = Overrides()
    prompt: str | None = None
    goes_on: bool = False
    """If true, the agent's last conversation is continued."""
    fork_from: str | None = None
    """The place of an earlier run, as in `survey@0.2/3`, that this run forks."""
    out: str | None = None
    """Variable that receives the RunResult."""
    raises: str | None = None
    """The status that the run must end with; one of EXPECTED."""
    dry_run: bool = False
    full: bool = False
    """If true, a dry run shows the body too."""
    json: bool = False
    verbose: bool = False
    raw: bool = False
    quiet: bool = False
    background: bool = False


class UsageError(ConfigError):
    """An invalid option line; the hint is the usage line."""


class HelpAsked(SystemExit):
    """Ends a command with a help page, which the catcher prints; its code is the exit code."""

    def __init__(self, page: Page, code: int = 0) -> None:
        """Takes the page; a code other than 0 means that a command is missing."""
        super().__init__(code)
        self.page = page


class Parser(argparse.ArgumentParser):
    """An argument parser that raises errors instead of exiting, and has help pages of our own."""

    elsewhere: Mapping[str, str] = MappingProxyType({})
    """Flag of other interfaces → the equivalent here, or the reason for none."""

    def __init__(
        self, program: str, make_page: Callable[[str], Page], *, usage: str | None = None,
        add_help: bool = True,
    ) -> None:  # fmt: skip
        """Makes a parser without options.

        Args:
            program: what its usage line begins with.
            make_page: makes the help page from the usage line.
            usage: the usage line; None = made from the options.
            add_help: if true, it has `--help`.
        """
        super().__init__(prog=program, usage=usage, add_help=add_help, allow_abbrev=False)
        self.color = False  # from Python 3.14 on it would colour usage lines of errors too
        self._make_page = make_page

    @property
    def page(self) -> Page:
        """The help page."""
        return self._make_page(self.format_usage().removeprefix("usage: ").rstrip())

    def format_help(self) -> str:
        """Returns the help page as plain text."""
        return join(self.page)

    def print_help(self, file: object = None) -> NoReturn:
        """Raises HelpAsked: the help page is printed by the command."""
        raise HelpAsked(self.page)

    def error(self, message: str) -> NoReturn:
        """Raises a UsageError."""
        message = message.replace(DATA, "").replace(repr(DATA)[1:-1], "")
        usage = " ".join(self.format_usage().split())
        before, _, unrecognized = message.partition("unrecognized arguments: ")
        unknown = unrecognized.split()[0] if unrecognized and not before else ""
        near = nearest(unknown, self._option_string_actions) if unknown else ""
        if message.endswith(": expected one argument"):
            flag = message.partition(":")[0].rpartition("/")[2].removeprefix("argument ")
            message += f"; write a value that begins with a dash as {flag}=…"
        elif reason := self.elsewhere.get(unknown.partition("=")[0]):
            message += f"; {reason}"
        elif near:
            message += f"; did you mean {near}?"
        elif unknown and not unknown.startswith("-") and self.takes_prompt:
            message += "; put the prompt in quotes"
        elif unknown and not unknown.startswith("-") and self.prog == "%%axe":
            message += "; the prompt is the body of the cell"
        raise UsageError(message, hint=usage)

    @property
    def takes_prompt(self) -> bool:
        """True if the prompt may be an argument of its own."""
        return any(action.dest == BARE_PROMPT.keyword for action in self._actions)


def split_line(command: Command, face: Face, line: str) -> list[str]:
    """Splits an option line into words; a final semicolon belongs to IPython.

    Raises:
        UsageError: a quotation mark is missing.
    """
    try:
        return list(_make_lexer(line.strip().removesuffix(";")))
    except ValueError as error:
        parser(command, face).error(f"{str(error)[0].lower()}{str(error)[1:]}")


def parser(command: Command, face: Face) -> Parser:
    """Builds the parser of a command in one interface; it raises UsageError."""
    options = command.options_of(face)
    made = Parser(
        command.program(face), partial(make_page, command, face), add_help=face == "command"
    )
    helps = {} if face == "command" else dict.fromkeys(("-h", "--help"), _find_help(command, face))
    made.elsewhere = helps | {
        flag: _format_reason(option.instead[face])
        for option in command.options
        if face not in option.faces and face in option.instead
        for flag in option.flags
    }
    for option in options:
        _add_option(made, option)
    # argparse formats the usage again for intermixed arguments, so the % of `%axe` is escaped
    made.usage = made.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
    return made


def _find_help(command: Command, face: Face) -> str:
    """Names the line that shows the page of a command in a notebook."""
    magic = f"%axe help {command.words[face]}" if face == "line" else f"{command.program(face)}?"
    return f"see {magic}"


def _add_option(made: Parser, option: Option) -> None:
    if not option.flags:
        nargs = "+" if option.repeated else None if option.required else "?"
        made.add_argument(
            option.keyword, metavar=option.metavar, nargs=nargs,
            type=partial(_read_data, read=option.read),
        )  # fmt: skip
    elif not option.metavar:
        made.add_argument(
            *option.flags, dest=option.keyword, action="store_const", const=option.value,
            default=not option.value,
        )  # fmt: skip
    else:
        made.add_argument(
            *option.flags, dest=option.keyword, metavar=option.metavar,
            action="append" if option.repeated else "store",
            nargs=None if option.alone is None else "?", const=option.alone,
            choices=option.choices or None, type=partial(_read_data, read=option.read),
        )  # fmt: skip


def _read_data(word: str, read: Callable[[str], Any] | None = None) -> Any:
    """Returns the value of a word, without the mark of a variable."""
    text = word.replace(DATA, "", 1)
    return read(text) if read else text


def _format_reason(instead: str) -> str:
    """Formats the equivalent of an option of other interfaces, or the reason for none."""
    reason = instead.replace("`", "")
    if reason.startswith("no: "):
        return f"not available here: {reason.removeprefix('no: ')}"
    return reason if reason.startswith("not ") else f"use {reason} instead"


def parse(command: Command, face: Face, line: str | Sequence[str]) -> argparse.Namespace:
    """Parses an option line, or its words.

    Omitted options are None; omitted flags are the opposite of their value. A word that begins with
    `DATA` is never an option, nor `--`.

    Raises:
        UsageError: invalid options; the hint is the usage line.
    """
    made = parser(command, face)
    words = split_line(command, face, line) if isinstance(line, str) else list(line)
    if not made.add_help and words[-1:] in (["-h"], ["--help"]):
        made.error(f"unrecognized arguments: {words[-1]}")
    options = command.options_of(face)
    words = mark_prompt(words, made._option_string_actions, DATA)
    _check_short_flags(made, words, options)
    found = made.parse_intermixed_args(_repeat_flags(made, words, options))
    for option in command.options_of(face):
        given = getattr(found, option.keyword)
        if option.repeated and option.flags and given is not None:
            setattr(found, option.keyword, dict(given))
    return found


def _check_short_flags(made: Parser, words: Sequence[str], options: Sequence[Option]) -> None:
    """Refuses a value without a space before it: `-please` is hardly `-p lease`.

    Raises:
        UsageError: there is one.
    """
    short = {flag for option in options if option.metavar for flag in option.flags}
    for word in takewhile(lambda word: word != "--", words):
        if word not in short and word[:2] in short and word[1:2] != "-":
            made.error(
                f"{quote(word)} begins with {word[:2]}; put a space after {word[:2]}, or -- before "
                "a prompt that begins with a dash"
            )


def _repeat_flags(made: Parser, words: Sequence[str], options: Sequence[Option]) -> list[str]:
    """Writes `--param A=1 B=2` as `--param A=1 --param B=2`.

    An option that takes several values would swallow the name of the agent after them.

    Raises:
        UsageError: a word may be another value, or the prompt.
    """
    flags = {flag: option for option in options if option.repeated for flag in option.flags}
    written: list[str] = []
    repeating = ""
    for number, word in enumerate(words):
        if word == "--":
            return [*written, *words[number:]]
        is_first = bool(repeating) and written[-1] == repeating
        if word in flags:
            repeating = word
        elif repeating and not is_first and _is_pair(made, word, flags[repeating], words):
            written.append(repeating)
        elif not is_first:
            repeating = ""
        written.append(word)
    return written


def _is_pair(made: Parser, word: str, option: Option, words: Sequence[str]) -> bool:
    """True if a word after the value of an option is another KEY=VALUE, not agent or prompt.

    Raises:
        UsageError: it may be the prompt, which has spaces, or a value that has.
    """
    pair = _PAIR.fullmatch(word)
    if pair is None:
        return False
    key, value = pair.groups()
    has_prompt = any(one.partition("=")[0] in ("-p", "--prompt", "--") for one in words)
    if value.startswith(DATA) or not re.search(r"\s", value):
        return True
    if has_prompt or not made.takes_prompt:
        return True
    if option.keyword != "params" or key in COMMON_PARAMS or value[0] in '{["':
        made.error(
            f"{quote(word)} may be the prompt or a value of {option.flag}; repeat {option.flag} "
            "before a value with spaces, or put -p before the prompt"
        )
    return False


def parse_run(
    line: str | Sequence[str],
    face: Face,
    defaults: Mapping[str, Any] | None = None,
    names: Mapping[str, Any] = MappingProxyType({}),
) -> Options:
    """Parses the option line of a run, or its words.

    Args:
        defaults: keyword → value for options that the line omits.
        names: the user's variables, one of which `--output` may name.

    Raises:
        UsageError: invalid options; the hint is the usage line.
    """
    found = vars(parse(RUN, face, line))
    unset = {o.keyword: not o.value for o in RUN.options_of(face) if o.flags and not o.metavar}
    given = {k: v for k, v in found.items() if v is not None and v is not unset.get(k)}
    if BARE_PROMPT.keyword in given:
        if "prompt" in given:
            parser(RUN, face).error("the prompt is given twice: with -p and as an argument")
        given["prompt"] = given.pop(BARE_PROMPT.keyword)
    if "output" in given:
        from axe_nb.tools.output_form import find_named

        given["output"] = find_named(given["output"], names)
    if "full" in given and "dry_run" not in given:
        parser(RUN, face).error("--full needs --dry-run")
    is_fork = "fork_from" in given
    for other, flag in NOT_WITH_FROM.items():
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


def _make_lexer(line: str) -> shlex.shlex:
    """Works like `shlex.split`, but keeps the backslashes of Windows paths."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if os.name == "nt":
        lexer.escape = ""
    return lexer
