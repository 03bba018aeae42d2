"""Every option and argument of a run, one row each.

Source: B-9, D-10.
"""

from __future__ import annotations

import argparse
import json
import keyword
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from axe_nb.agents.agent_tables import MODES, variable_problem
from axe_nb.results import Status
from axe_nb.text import quote

Face = Literal["cell", "line", "command", "python"]
"""Interfaces that take options: cell magics, `%axe …`, `axe-nb …`, Python functions."""

FACES: tuple[Face, ...] = get_args(Face)
IN_NOTEBOOKS: tuple[Face, ...] = ("cell", "line")
IN_TEXT: tuple[Face, ...] = ("cell", "line", "command")

INPUT, AGENT_AND_MODEL, LIMITS, ANSWER, STEPS, SHOWN = OPTION_GROUPS = (
    "Prompt and inputs", "Agent and model", "Limits and permissions", "Answer and checks",
    "Step by step", "Display",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """One option or positional argument, in all interfaces that have it."""

    flags: tuple[str, ...]
    """Short and long form; none for a positional argument."""
    keyword: str
    """Its name in Python, and in `Overrides` or `Options`."""
    help: str
    metavar: str = ""
    """Placeholder for its value; empty if it has no value."""
    faces: tuple[Face, ...] = FACES
    choices: tuple[str, ...] = ()
    read: Callable[[str], Any] = str
    """Parses its value. Raises ArgumentTypeError with a message for the user."""
    repeated: bool = False
    """If true, it takes several KEY=VALUE, as a dict; a positional argument several words."""
    required: bool = True
    """For positional arguments: if true, it cannot be omitted."""
    value: bool = True
    offers: Literal["", "agents", "models", "tools", "variables", "runs", "files", "commands"] = ""
    """Completions for its value; empty = its choices, if any; files are left to IPython."""
    group: str = "Options"

    @property
    def flag(self) -> str:
        return self.flags[-1]

    @property
    def usage(self) -> str:
        """Its form in a usage line: `--dir D`, `NAME`, `[NAME]`."""
        if self.flags:
            return f"{self.flag} {self.metavar}".rstrip()
        name = f"{self.metavar}..." if self.repeated else self.metavar
        return name if self.required else f"[{name}]"


def reads(wanted: str) -> Callable[[Callable[[str], Any]], Callable[[str], Any]]:
    """Wraps a parser that raises ValueError; its error message says in words what is expected."""

    def mark(convert: Callable[[str], Any]) -> Callable[[str], Any]:
        def read(text: str) -> Any:
            try:
                return convert(text)
            except ValueError:
                raise argparse.ArgumentTypeError(f"takes {wanted}, not {quote(text)}") from None

        return read

    return mark


@reads("names without spaces, as in a,b")
def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if text.strip() and not all(found):
        raise ValueError
    return tuple(filter(None, found))


def _to_positive(text: str) -> float:
    number = float(text)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError
    return number


def _to_whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError
    return int(text)


seconds = reads("seconds, as in 120 or 0.5")(_to_positive)
run_id = reads("the id of a run, as in 17")(_to_whole)
whole = reads("a whole number, as in 2")(_to_whole)


@reads("US dollars, as in 0.40")
def dollars(text: str) -> float:
    return _to_positive(text.removeprefix("$"))


@reads("a Python name")
def variable(word: str) -> str:
    if not word.isidentifier() or keyword.iskeyword(word):
        raise ValueError
    return word


@reads("KEY=VALUE, as in temperature=0.2")
def parameter(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not equals or len(key.split()) != 1:
        raise ValueError
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return key.strip(), value


@reads("NAME=VALUE, as in language=French")
def prompt_variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or variable_problem(name.strip()):
        raise ValueError
    return name.strip(), value


AGENT = Option(
    (), "agent", "name of the agent; without it, the prompt goes directly to the model of -m",
    "AGENT", required=False, offers="agents",
)  # fmt: skip

BARE_PROMPT = Option(
    (), "bare_prompt", "the prompt, in quotes; same as -p", "PROMPT", ("line", "command"),
    required=False,
)  # fmt: skip

AGENTS_DIR = Option(
    ("--agents-dir",), "agents_dir", "folder to search for agents before axe/agents", "D",
    offers="files", group=AGENT_AND_MODEL,
)  # fmt: skip

OPTIONS: tuple[Option, ...] = (
    Option(("-m", "--model"), "model", "model to use for this run (default: the agent's)", "P/M",
           offers="models", group=AGENT_AND_MODEL),
    Option(("-M", "--model-all"), "model_all",
           "model for all agents of the tree; -m takes precedence for the root", "P/M",
           offers="models", group=AGENT_AND_MODEL),
    Option(("--skill",), "skill", "skill file to use instead of the agent's", "F", offers="files",
           group=AGENT_AND_MODEL),
    Option(("--workdir",), "workdir",
           "folder for files and tools (default: the agent's, else the current folder)", "D",
           offers="files", group=AGENT_AND_MODEL),
    Option(("--timeout",), "timeout",
           "time limit of the whole run in seconds, 0 = no limit (default 120)", "S", read=seconds,
           group=LIMITS),
    Option(("--retries",), "retries",
           "retries of a request that fails for now, as on a full or unreachable server, 0 = none "
           "(default: the agent's, else 2)", "N", read=whole, group=LIMITS),
    Option(("--param",), "params", "set a model parameter", "KEY=VALUE", repeated=True,
           read=parameter, group=AGENT_AND_MODEL),
    Option(("--var",), "vars", "set a variable of system prompts, {{ NAME }}", "NAME=VALUE",
           repeated=True, read=prompt_variable,
           group=AGENT_AND_MODEL),
    AGENTS_DIR,
    Option(("--tools",), "tools", "tools to use instead of the agent's, comma-separated", "A,B",
           read=names, offers="tools", group=AGENT_AND_MODEL),
    Option(("--mode",), "mode", "permission for tools that write (default: the agent's, else ask)",
           "MODE", choices=MODES, group=LIMITS),
    Option(("--no-stream",), "stream", "show replies when they are complete, not as they arrive",
           value=False, group=SHOWN),
    Option(("--output",), "output",
           "require structured output: a file with a JSON Schema, or in a notebook a type "
           "or a dict", "FILE_OR_NAME", offers="variables", group=ANSWER),
    Option(("--expect",), "expect", "fail unless the run meets these expectations, separated by ;",
           "EXPRS", group=ANSWER),
    Option(("--step",), "step",
           "pause before each request and call: you continue, edit, skip or stop", group=STEPS),
    Option(("--break",), "break_at",
           "pause only at tool:NAME, agent:NAME, depth:N or turn, comma-separated", "WHERE",
           read=names, group=STEPS),
    Option(("-p", "--prompt"), "prompt", "the prompt; piped input is appended to it", "TEXT",
           ("line", "command"), group=INPUT),
    Option(
        ("-o", "--out"), "out", "variable for the result (with --bg, for the run's handle)", "NAME",
        IN_NOTEBOOKS, read=variable, offers="variables", group=ANSWER,
    ),
    Option(
        ("-c", "--continue"), "goes_on", "continue this agent's last conversation",
        faces=IN_NOTEBOOKS, group=INPUT,
    ),
    Option(
        ("--from",), "fork_from",
        "fork an earlier run at a place; the body, if any, replaces the prompt (of a sub-agent the "
        "task) or is added there",
        "R@PLACE", IN_NOTEBOOKS, offers="runs", group=INPUT,
    ),
    Option(("--raises",), "raises", "succeed only if the run ends with this status", "STATUS",
           IN_TEXT, choices=(*get_args(Status), "config", "provider"), group=ANSWER),
    Option(("--dry-run",), "dry_run", "show what would be sent, without sending it", "", IN_TEXT,
           group=SHOWN),
    Option(("--full",), "full",
           "with --dry-run: show the exact body too, and what fills its context", "", IN_TEXT,
           group=SHOWN),
    Option(("--json",), "json", "print one line of JSON", "", IN_TEXT, group=SHOWN),
    Option(("-v", "--verbose"), "verbose", "print progress line by line", "", IN_TEXT, group=SHOWN),
    Option(("--raw",), "raw", "do not interpolate {{ … }} in the prompt", "", ("cell",),
           group=INPUT),
    Option(("-q", "--quiet"), "quiet", "show only the answer, no tree", "", IN_TEXT, group=SHOWN),
    Option(("--bg",), "background", "run in the background and return a handle at once", "",
           IN_NOTEBOOKS, group=ANSWER),
)  # fmt: skip
"""Every option of a run, in the order of the reference."""
