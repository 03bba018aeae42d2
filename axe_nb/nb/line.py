"""`%axe`: agents, tools, tokens and what is in the way, without leaving the notebook.

Source: product.md "Notebook" (`%axe`); B-12; A-5.7.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from axe_nb.agents import agent_files
from axe_nb.agents.config import placed_or_name
from axe_nb.agents.files import read_text, reason
from axe_nb.doctor.doctor import Finding, examine
from axe_nb.errors import ConfigError
from axe_nb.session.options import Parser, UsageError, parse_line
from axe_nb.session.portal import waited
from axe_nb.session.session import Spent, session
from axe_nb.text import clean, quote, suggestion
from axe_nb.views import card

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from axe_nb.events import RunResult
    from axe_nb.nb.background import Background
    from axe_nb.nb.magics import AxeMagics

Act: TypeAlias = "Callable[[InteractiveShell, argparse.Namespace], str]"
"""(shell, what was chosen) -> the text that the cell prints. Raises ConfigError."""


AGENTS_DIR = ("--agents-dir", "D", "folder to look agents up in first")
AGENTS = ("--agents", "", "forget agents that cells defined too: their files count again")


@dataclass(frozen=True, slots=True)
class Command:
    """One sub-command."""

    help: str
    takes: str
    """Name of an agent: NAME, [NAME], or nothing."""
    act: Act | None
    """None = it takes the options of a run."""
    options: tuple[tuple[str, str, str], ...] = ()
    """(flag, what its value is called or nothing, what it means)"""


def obey(
    magics: AxeMagics, line: str, write: Callable[[str], None]
) -> RunResult | Background | None:
    """What the line returns, after what it prints went to `write`.

    Raises:
        ConfigError: there is no such sub-command, or it cannot be done.
    """
    verb, _, rest = line.strip().removesuffix(";").strip().partition(" ")
    if verb == "run":
        from axe_nb.nb.run_cell import run_cell

        options = parse_line(rest, "line", magics.defaults())
        return run_cell(magics.shell, options, lambda: options.prompt or "", write)
    command = COMMANDS.get(verb or "help")
    if command is None or command.act is None:
        raise UsageError(
            f"%axe has no {quote(verb)}",
            hint=suggestion(verb, COMMANDS) or f"it has {', '.join(COMMANDS)}",
        )
    made = parser(verb or "help", command)
    chosen = made.parse_args(made.words(rest), argparse.Namespace(agents_dir=None))
    chosen.agents_dir = chosen.agents_dir or magics.agents_dir or None
    write(clean(command.act(magics.shell, chosen)))
    return None


def parser(verb: str, command: Command) -> Parser:
    """The parser of a sub-command's line."""
    made = Parser(prog=f"%axe {verb}", add_help=False, allow_abbrev=False)
    if command.takes:
        made.add_argument("agent", metavar="NAME", nargs="?" if command.takes == "[NAME]" else None)
    for flag, value, meaning in command.options:
        if value:
            made.add_argument(flag, metavar=value, help=meaning)
        else:
            made.add_argument(flag, action="store_true", help=meaning)
    return made


def _list(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    files = agent_files.list_agents(chosen.agents_dir)
    rows: list[tuple[str, ...]] = [
        (name, *_row(name, chosen.agents_dir), _home(name, files))
        for name in sorted({*session.agents, *files})
    ]
    if not rows:
        return "no agents yet; `%axe init NAME` writes a first one, `%%axe_agent NAME` is one"
    return "\n".join(_columns(rows))


def _row(name: str, agents_dir: str | None) -> tuple[str, str]:
    """(model, description) of an agent, or what is wrong with it."""
    try:
        agent = session.find(name, agents_dir)
    except ConfigError as error:
        return "✗", str(error)
    return agent.model, agent.description


def _home(name: str, files: Mapping[str, Path]) -> str:
    if name in session.agents:
        return "this session" + (", before its file" if name in files else "")
    return placed_or_name(files[name].parent)


def _columns(rows: list[tuple[str, ...]], right: int = 0) -> Iterator[str]:
    """The rows as lines; the last `right` columns are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        left = len(row) - right
        cells = [
            f"{cell:<{width}}" if number < left else f"{cell:>{width}}"
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _show(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    agent = session.find(chosen.agent, chosen.agents_dir)
    rows = [card.line(label, value) for label, value in card.rows(agent)]
    may = card.abilities(agent, lambda name: session.find(name, chosen.agents_dir))
    warnings = [f"! {warning}" for warning in agent.warnings]
    return "\n".join(filter(None, [*rows, may, *warnings]))


def _init(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    path = agent_files.init(chosen.agent, chosen.agents_dir)
    return f"written to {placed_or_name(path)}; `%axe edit {chosen.agent}` puts it in a cell"


def _edit(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    name = chosen.agent
    shell.set_next_input(f"%%axe_agent {name} --save\n{_toml_of(name, chosen.agents_dir)}")
    return f"{name} is in the next cell; running that one saves it"


def _toml_of(name: str, agents_dir: str | None) -> str:
    """The TOML of an agent as it was written; of one made in Python, as it would be.

    Raises:
        ConfigError: there is none, or its file cannot be read.
    """
    if name in session.agents:
        return (session.texts.get(name) or session.agents[name].to_toml()).removesuffix("\n")
    path = agent_files.find_file(name, agents_dir)
    try:
        return read_text(path).replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise ConfigError(f"cannot read {placed_or_name(path)}: {reason(error)}") from None


def _tools(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    if chosen.agent is None:
        return card.all_tools()
    agent = session.find(chosen.agent, chosen.agents_dir)
    return card.tools_of(agent) or f"{agent.name} has no tools: it only talks"


def _usage(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    if not session.spent:
        return "nothing has run yet"
    total = Spent()
    rows: list[tuple[str, ...]] = [("agent", "model", "runs", "turns", "input", "output")]
    for (agent, model), spent in session.spent.items():
        rows.append((agent, model, *_numbers(spent)))
        total += spent
    rows.append(("total", "", *_numbers(total)))
    return "\n".join(_columns(rows, right=4))


def _numbers(spent: Spent) -> tuple[str, ...]:
    usage = spent.usage
    counts = (spent.runs, spent.turns, usage.input_tokens, usage.output_tokens)
    return tuple(f"{count:,}" for count in counts)


def _doctor(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    from axe_nb.nb.show import shown_how

    display = Finding("note", "runs are shown", shown_how(shell))
    first, *rest = waited(
        examine(
            chosen.agents_dir,
            session.agents,
            lambda name: session.find(name, chosen.agents_dir),
        )
    )
    return "\n".join(map(str, [first, display, *rest]))


def _reset(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    name = chosen.agent
    if name is not None and name not in session.conversations:
        session.find(name)  # a name that no agent has is a mistake
    talks = [one for one in session.conversations if name in (None, one)]
    for one in talks:
        del session.conversations[one]
    told = f"conversations forgotten: {', '.join(talks) or 'none'}"
    if not chosen.agents:
        return told
    agents = [one for one in session.agents if name in (None, one)]
    for one in agents:
        session.forget(one)
    return f"{told}\nagents forgotten: {', '.join(agents) or 'none'}"


def _help(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    from axe_nb.nb.help import help_text

    return help_text("line")


COMMANDS: Mapping[str, Command] = {
    "list": Command("the agents that can be found", "", _list, (AGENTS_DIR,)),
    "show": Command(
        "what an agent says, what it may do, whom it may call", "NAME", _show, (AGENTS_DIR,)
    ),
    "init": Command("write a commented first file", "NAME", _init, (AGENTS_DIR,)),
    "edit": Command("put an agent's TOML in a new cell", "NAME", _edit, (AGENTS_DIR,)),
    "tools": Command("all tools, or those of an agent", "[NAME]", _tools, (AGENTS_DIR,)),
    "run": Command("%%axe in one line: NAME -p TEXT, and its options", "NAME", None),
    "usage": Command("tokens of this notebook so far, by agent and model", "", _usage),
    "doctor": Command("what is in the way here, and the next step", "", _doctor, (AGENTS_DIR,)),
    "reset": Command(
        "forget conversations, so that --continue begins anew", "[NAME]", _reset, (AGENTS,)
    ),
    "help": Command("this page", "", _help),
}
"""Sub-command → what it does, in the order of the help."""
