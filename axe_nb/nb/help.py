"""The pages of `%%axe?`, `%axe?`, `%%axe_agent?`, `%%axe_grid?` and `%axe help COMMAND`.

They are written from the tables. Source: product.md "Notebook"; issue "Working in the notebook".
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Literal

from axe_nb.agents.agent_files import has_file
from axe_nb.commands.grid_command import GRID
from axe_nb.commands.pages import Page, make_overview, paint
from axe_nb.commands.parser import UsageError, parser
from axe_nb.commands.table import AGENT_CELL, PROGRAMS, RUN, Command, commands_of
from axe_nb.session.session import session
from axe_nb.text import quote, suggestion

Topic = Literal["cell", "line", "agent", "grid"]

COMMANDS: Mapping[Topic, Command] = {"cell": RUN, "agent": AGENT_CELL, "grid": GRID}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Agents": ("list", "show", "init", "edit", "tools", "run", "trust"),
    "Finished runs": ("request", "diff", "time", "expect", "history", "undo"),
    "This notebook": ("cassette", "usage", "budget", "env", "reset"),
    "Troubleshooting": ("doctor", "help"),
}
"""Heading on the page of `%axe` → its commands."""

MAGICS = {
    "%%axe AGENT": "run an agent on the text of the cell; see %%axe?",
    "%%axe_agent NAME": "define an agent in the cell; see %%axe_agent?",
    "%%axe_grid A,B": "run variants on the same inputs; see %%axe_grid?",
}
"""The other magics: use → meaning."""


def help_text(topic: Topic) -> str:
    """Returns the page of a magic, in colour on a terminal."""
    page = make_line_page() if topic == "line" else parser(COMMANDS[topic], "cell").page
    return paint(page, sys.stdout).rstrip()


def print_help(word: str | None) -> None:
    """Prints the page of a command of `%axe`; without one, of all.

    Raises:
        UsageError: there is no such command.
    """
    commands = commands_of("line")
    if word is None:
        page = make_line_page()
    elif word in commands:
        page = parser(commands[word], "line").page
    else:
        raise unknown_command(word)
    sys.stdout.write(paint(page, sys.stdout))


def unknown_command(word: str) -> UsageError:
    """Returns the error of a word that names no command of `%axe`."""
    return UsageError(f"unknown command {quote(word)}", hint=_advise(word))


def _advise(verb: str) -> str:
    """The next step after an unknown command."""
    commands = commands_of("line")
    if verb in session.agents or has_file(verb, session.defaults.get("agents_dir")):
        return f"to run the agent, start a cell with %%axe {verb} and put the prompt below it"
    if verb in commands_of("command"):
        return f"it is a terminal command: {commands_of('command')[verb].program('command')}"
    return suggestion(verb, commands) or f"known commands: {', '.join(commands)}"


def make_line_page() -> Page:
    """Makes the page of all commands of `%axe`."""
    commands = commands_of("line")
    listed = {
        heading: {commands[word].use("line"): commands[word].help for word in words}
        for heading, words in GROUPS.items()
    }
    return make_overview(
        "%axe COMMAND …", {**listed, "Cells": MAGICS},
        PROGRAMS["line"].strip(), "`%axe help COMMAND` describes one of them, with examples.",
    )  # fmt: skip
