"""Every option and argument that a command takes, a row each.

Source: B-9, product.md "Notebook" and "Command line"; D-10.
"""

from __future__ import annotations

import argparse
import json
import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from axe_nb.agents.tables import MODES
from axe_nb.commands.overrides import is_timeout
from axe_nb.events import Status
from axe_nb.text import quote

Face = Literal["cell", "line", "command", "python"]
"""Where an option can be given: cell magics, `%axe …`, `axe-nb …`, functions of Python."""

FACES: tuple[Face, ...] = get_args(Face)
EVERYWHERE: tuple[Face, ...] = FACES
IN_NOTEBOOKS: tuple[Face, ...] = ("cell", "line")
IN_TEXT: tuple[Face, ...] = ("cell", "line", "command")

EXPECTED = (*get_args(Status), "config", "provider")
"""What `--raises` takes."""

Offer = Literal["", "agents", "models", "tools", "parameters", "variables", "files"]
"""What Tab offers for a value; empty = the choices, if there are any; files are left to IPython."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or argument without a flag, wherever it can be given."""

    flags: tuple[str, ...]
    """Short and long form; none = an argument that stands by itself."""
    keyword: str
    """Its name in Python, and the field of `Overrides` or `Options` that holds it."""
    help: str
    metavar: str = ""
    """What its value is called; empty = it has none."""
    faces: tuple[Face, ...] = EVERYWHERE
    choices: tuple[str, ...] = ()
    read: Callable[[str], Any] = str
    """Its value, typed. Raises ArgumentTypeError for the person to read."""
    repeated: bool = False
    """It may be given several times, and takes several KEY=VALUE at once; its value is a dict."""
    required: bool = True
    """Of an argument: it cannot be left out."""
    offers: Offer = ""
    instead: Mapping[Face, str] = field(default_factory=dict)
    """Face that does not take it → what does the same there, or why nothing does; Markdown."""

    @property
    def flag(self) -> str:
        """Its long form."""
        return self.flags[-1]

    @property
    def usage(self) -> str:
        """As a usage line has it: `--dir D`, `NAME`, `[NAME]`."""
        if not self.flags:
            return self.metavar if self.required else f"[{self.metavar}]"
        return f"{self.flag} {self.metavar}".rstrip()


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them; none in an empty text."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def seconds(text: str) -> float:
    """A time in seconds; 0 = no limit."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not is_timeout(number):
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


AGENT = Option((), "agent", "name of the agent", "AGENT", offers="agents")

BARE_PROMPT = Option(
    (), "bare_prompt", "the prompt, in quotes; the same as -p", "PROMPT", ("line", "command"),
    required=False,
)  # fmt: skip

AGENTS_DIR = Option(
    ("--agents-dir",), "agents_dir", "folder to look agents up in first", "D", offers="files"
)

OPTIONS: tuple[Option, ...] = (
    Option(("-m", "--model"), "model", "another model for this run", "P/M", offers="models"),
    Option(
        ("-M", "--model-all"), "model_all",
        "one model for every agent of the tree; -m beside it rules the first alone", "P/M",
        offers="models",
    ),
    Option(("--skill",), "skill", "another skill file", "F", offers="files"),
    Option(("--workdir",), "workdir", "another folder for files and tools", "D", offers="files"),
    Option(
        ("--timeout",), "timeout", "seconds for the whole run, 0 = no limit (default 120)", "S",
        read=seconds,
    ),
    Option(
        ("--param",), "params", "a model parameter", "KEY=VALUE", read=parameter, repeated=True,
        offers="parameters",
    ),
    AGENTS_DIR,
    Option(
        ("--tools",), "tools", "other tools, by name, with commas", "A,B", read=names,
        offers="tools",
    ),
    Option(("--mode",), "mode", "what tools that write may do", "MODE", choices=MODES),
    Option(
        ("-p", "--prompt"), "prompt", "the prompt; axe-nb adds what is piped in below it", "TEXT",
        ("line", "command"), instead={"cell": "the body", "python": "`prompt`"},
    ),
    Option(
        ("-o", "--out"), "out", "bind the RunResult (with --bg its handle) to a name", "NAME",
        IN_NOTEBOOKS, read=variable, offers="variables",
        instead={"command": "no: a shell has no variables of Python", "python": "what it returns"},
    ),
    Option(
        ("-c", "--continue"), "goes_on", "go on with this agent's last conversation",
        faces=IN_NOTEBOOKS,
        instead={
            "command": "no: each command is a session of its own, with no conversation yet",
            "python": "`continue_from=`",
        },
    ),
    Option(
        ("--raises",), "raises", "succeed only if the run ends like this", "STATUS",
        IN_TEXT, choices=EXPECTED, instead={"python": "`.raise_for_status()`"},
    ),
    Option(("--dry-run",), "dry_run", "show what would be sent, send nothing", "", IN_TEXT),
    Option(
        ("--json",), "json", "print one line of JSON", "", IN_TEXT,
        instead={"python": "`.to_json()`"},
    ),
    Option(("-v", "--verbose"), "verbose", "print what happens, line by line", "", IN_TEXT),
    Option(
        ("--raw",), "raw", "leave {{ … }} in the prompt as it is", "", ("cell",),
        instead=dict.fromkeys(("line", "command", "python"), "always: cells alone fill {{ … }} in"),
    ),
    Option(
        ("-q", "--quiet"), "quiet", "the answer only, no tree", "", IN_TEXT,
        instead={"python": "`display=False`"},
    ),
    Option(
        ("--bg",), "background", "return a handle at once, run beside the next cells", "",
        IN_NOTEBOOKS, instead={"command": "no: a shell has `&`", "python": "`axe_nb.arun`"},
    ),
)  # fmt: skip
"""Every option of a run, in the order of the help."""
