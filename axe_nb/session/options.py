"""The options of a run, described once: for the magic, its line form, the command and Python.

Source: B-9, product.md "Notebook" and "Command line"; D-10.
"""

from __future__ import annotations

import argparse
import json
import keyword
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, get_args

from axe_nb.agents.agent import MODES, Mode
from axe_nb.errors import ConfigError
from axe_nb.events import Status
from axe_nb.text import nearest, quote
from axe_nb.tools.tool import Tool

Face = Literal["cell", "line", "command", "python"]
"""Where an option can be given: %%axe, %axe run, axe-nb run, axe_nb.run()."""

FACES: tuple[Face, ...] = get_args(Face)
EVERYWHERE: tuple[Face, ...] = FACES
IN_NOTEBOOKS: tuple[Face, ...] = ("cell", "line")
IN_TEXT: tuple[Face, ...] = ("cell", "line", "command")

DEFAULT_TIMEOUT = 120.0
"""Seconds of a run and everything below it (B-9)."""

EXPECTED = (*get_args(Status), "config", "provider")
"""What `--raises` takes."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a run changes about its agent, for this run alone; None = as the agent says."""

    model: str | None = None
    skill: str | None = None
    workdir: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    """Seconds, fractions allowed."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Added to `[params]`, key by key."""
    agents_dir: str | None = None
    tools: tuple[str | Tool, ...] | None = None
    """Names, or tools themselves, in place of the agent's."""
    mode: Mode | None = None

    def __post_init__(self) -> None:
        if not _is_time(self.timeout):
            raise ConfigError(f"timeout takes seconds, as in 120 or 0.5, not {self.timeout!r}")
        if not isinstance(self.params, Mapping):
            raise ConfigError('params takes a dict, as in {"temperature": 0.2}')


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 < value < float("inf")


@dataclass(frozen=True, slots=True)
class Options:
    """One run as it was asked for on an option line."""

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


@dataclass(frozen=True, slots=True)
class Option:
    """One option, wherever it can be given."""

    flags: tuple[str, ...]
    keyword: str
    """Its name in Python and in `Overrides` or `Options`."""
    help: str
    metavar: str = ""
    """What its value is called; empty = it has none."""
    faces: tuple[Face, ...] = EVERYWHERE
    choices: tuple[str, ...] = ()
    read: Callable[[str], Any] = str
    """Its value, typed. Raises ArgumentTypeError for the person to read."""
    repeated: bool = False
    """Whether it may be given several times, and takes several values at once."""

    @property
    def flag(self) -> str:
        """Its long form."""
        return self.flags[-1]


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them; none in an empty text."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def seconds(text: str) -> float:
    """A time in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not _is_time(number):
        raise argparse.ArgumentTypeError(f"takes seconds, as in 120 or 0.5, not {quote(text)}")
    return number


def parameter(word: str) -> tuple[str, Any]:
    """KEY=VALUE; the value is JSON where it reads as JSON, else text."""
    key, equals, value = word.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(
            f"takes KEY=VALUE, as in temperature=0.2, not {quote(word)}"
        )
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return key.strip(), value


def variable(word: str) -> str:
    """A name that Python can bind."""
    if not word.isidentifier() or keyword.iskeyword(word):
        raise argparse.ArgumentTypeError(f"takes a Python name, not {quote(word)}")
    return word


OPTIONS: tuple[Option, ...] = (
    Option(("-m", "--model"), "model", "another model for this run", "P/M"),
    Option(("--skill",), "skill", "another skill file", "F"),
    Option(("--workdir",), "workdir", "another folder for files and tools", "D"),
    Option(("--timeout",), "timeout", "seconds for the whole run (default 120)", "S", read=seconds),
    Option(
        ("--param",), "params", "a model parameter", "KEY=VALUE", read=parameter, repeated=True,
    ),
    Option(("--agents-dir",), "agents_dir", "folder to look agents up in first", "D"),
    Option(("--tools",), "tools", "other tools, by name, with commas", "A,B", read=names),
    Option(("--mode",), "mode", "what tools that write may do", "MODE", choices=MODES),
    Option(
        ("-p", "--prompt"), "prompt", "what to ask (axe-nb: else piped stdin)", "TEXT",
        ("line", "command"),
    ),
    Option(
        ("-o", "--out"), "out", "bind the RunResult (with --bg its handle) to a name", "NAME",
        IN_NOTEBOOKS, read=variable,
    ),
    Option(
        ("-c", "--continue"), "goes_on", "go on with this agent's last conversation",
        faces=IN_NOTEBOOKS,
    ),
    Option(
        ("--raises",), "raises", "succeed only if the run ends like this", "STATUS",
        IN_NOTEBOOKS, choices=EXPECTED,
    ),
    Option(("--dry-run",), "dry_run", "show what would be sent, send nothing", "", IN_TEXT),
    Option(("--json",), "json", "print one line of JSON", "", IN_TEXT),
    Option(("-v", "--verbose"), "verbose", "print what happens, line by line", "", IN_TEXT),
    Option(("--raw",), "raw", "leave {{ … }} in the prompt as it is", "", ("cell",)),
    Option(("-q", "--quiet"), "quiet", "the answer only, no tree", "", IN_TEXT),
    Option(
        ("--bg",), "background", "return a handle at once, run beside the next cells", "",
        IN_NOTEBOOKS,
    ),
)  # fmt: skip
"""Every option, in the order of the help."""

PROGRAM: Mapping[Face, str] = {"cell": "%%axe", "line": "%axe run", "command": "axe-nb run"}
"""Face → how its usage line begins."""


class UsageError(ConfigError):
    """An option line is not right; the hint is the usage line."""


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raises a UsageError."""
        usage = " ".join(self.format_usage().split())
        what, _, words = message.partition("unrecognized arguments: ")
        unknown = words.split()[:1] if not what else []
        meant = nearest(unknown[0], self._option_string_actions) if unknown else ""
        raise UsageError(f"{message}; did you mean {meant}?" if meant else message, hint=usage)

    def words(self, line: str) -> list[str]:
        """The words of an option line; a semicolon at its end is IPython's.

        Raises:
            UsageError: a quotation mark is missing.
        """
        try:
            return list(_lexer(line.strip().removesuffix(";")))
        except ValueError as error:
            self.error(f"{str(error)[0].lower()}{str(error)[1:]}")


def parser(face: Face) -> Parser:
    """The parser of one face; its errors are UsageErrors."""
    made = Parser(prog=PROGRAM[face], add_help=False, allow_abbrev=False)
    made.add_argument("agent", metavar="AGENT", help="name of the agent")
    add_to(made, face)
    return made


def add_to(made: argparse.ArgumentParser, face: Face) -> None:
    """Adds the options of a face to a parser."""
    for option in OPTIONS:
        if face not in option.faces:
            continue
        if not option.metavar:
            made.add_argument(
                *option.flags, dest=option.keyword, action="store_true", help=option.help
            )
            continue
        chosen = f": {', '.join(option.choices)}" if option.choices else ""
        made.add_argument(
            *option.flags, dest=option.keyword, metavar=option.metavar, help=option.help + chosen,
            nargs="+" if option.repeated else None,
            action="extend" if option.repeated else "store",
            choices=option.choices or None, type=option.read,
        )  # fmt: skip


def parse_line(
    line: str, face: Face = "cell", defaults: Mapping[str, Any] | None = None
) -> Options:
    """The option line of a magic.

    Args:
        defaults: keyword → value of options that the line does not give.

    Raises:
        UsageError: it is not right; the hint is the usage line.
    """
    made = parser(face)
    made.set_defaults(**(defaults or {}))
    return from_namespace(made.parse_args(made.words(line)))


def _lexer(line: str) -> shlex.shlex:
    """As `shlex.split`, but with the backslashes of Windows paths as they are."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if os.name == "nt":
        lexer.escape = ""
    return lexer


def parse_words(words: Sequence[str], face: Face) -> Options:
    """The words of a command line, split already.

    Raises:
        UsageError: they are not right.
    """
    return from_namespace(parser(face).parse_args(words))


def from_namespace(found: argparse.Namespace) -> Options:
    """What argparse found, typed."""
    given = {k: v for k, v in vars(found).items() if v is not None and v is not False}
    overrides = Overrides(
        model=given.get("model"),
        skill=given.get("skill"),
        workdir=given.get("workdir"),
        timeout=given.get("timeout", DEFAULT_TIMEOUT),
        params=dict(given.get("params", ())),
        agents_dir=given.get("agents_dir"),
        tools=given.get("tools"),
        mode=given.get("mode"),
    )
    return Options(
        agent=given["agent"], overrides=overrides, prompt=given.get("prompt"),
        out=given.get("out"),
        raises=given.get("raises"), goes_on="goes_on" in given,
        dry_run="dry_run" in given, json="json" in given,
        verbose="verbose" in given, raw="raw" in given, quiet="quiet" in given,
        background="background" in given,
    )  # fmt: skip
