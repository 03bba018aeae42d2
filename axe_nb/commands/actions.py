"""Implements the commands that `%axe` and `axe-nb` share. Source: A-5.7, B-12."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress

from axe_nb.agents.agent import Agent, check_agents_dir, creation_step, list_agents
from axe_nb.agents.files import display_path, expand_home
from axe_nb.agents.prompt import all_warnings, find_workdir
from axe_nb.agents.trust import VARIABLE, find_project, is_trusted, remember_trust
from axe_nb.agents.user_config import (
    PROJECT_AGENTS,
    Config,
    format_path,
    format_path_or_name,
    is_own,
)
from axe_nb.commands.doctor import Finding, examine
from axe_nb.errors import ConfigError
from axe_nb.results import RunResult
from axe_nb.session.portal import run_and_wait
from axe_nb.session.prompts import WIDTH
from axe_nb.session.session import session
from axe_nb.text import fold, printable, quote, reveal
from axe_nb.views import agent_summary
from axe_nb.views.appearance import LOOKS
from axe_nb.views.history import History, delete_run, list_history, load_run
from axe_nb.views.table import Listing


def make_output(command: str, chosen: argparse.Namespace) -> str | Listing | History | RunResult:
    """Returns the output of `list`, `show` or `history`. Raises ConfigError on failure."""
    if command == "history" and chosen.delete is not None:
        delete_run(chosen.delete)
        return f"run {chosen.delete} deleted from the history"
    if command == "history":
        words, dates = " ".join(chosen.words or ()), (chosen.since, chosen.until)
        with suppress(ConfigError, ValueError):  # words, or no run's id
            return load_run(int(words[:18]))
        return list_history(words, chosen.ended, *dates, limit=20)
    if command == "show":
        agent = session.find(chosen.agent, chosen.agents_dir)
        may = agent_summary.abilities(agent, lambda name: session.find(name, chosen.agents_dir))
        warnings = [f"! {warning}" for warning in all_warnings(agent)]
        return "\n".join(filter(None, [*format_agent(agent), may, *warnings]))
    check_agents_dir(chosen.agents_dir)
    files = list_agents(chosen.agents_dir)
    rows = list[tuple[str, ...]]()
    for name in sorted({*session.agents, *files}):
        try:
            agent = session.find(name, chosen.agents_dir)
            told = (agent.model, agent.description)
        except ConfigError as error:
            told = (LOOKS["error"].sign, str(error))
        if name in session.agents:
            home = "this session" + (" (overrides its file)" if name in files else "")
        else:
            home = format_path_or_name(files[name].parent)
        rows.append((name, *told, home))
    if not rows:
        return f"no agents found; {creation_step('NAME')}"
    if not any(row[2] for row in rows):
        rows = [(name, model, home) for name, model, _, home in rows]
        return Listing(head=("agent", "model", "file in"), rows=rows)
    return Listing(head=("agent", "model", "description", "file in"), rows=rows, wide=2)


def format_agent(agent: Agent) -> list[str]:
    return [agent_summary.line(label, value) for label, value in agent_summary.rows(agent)]


def list_tools(agent: Agent) -> str | Listing:
    """Lists an agent's tools; starts its MCP servers to list theirs."""
    settings, workdir = Config.load().mcp_servers, find_workdir(agent)
    offered = run_and_wait(session.servers.open(agent, settings, workdir))
    found = agent_summary.tools_of(agent, offered.tools)
    return found if found.rows else f"{agent.name} has no tools"


def diagnose(agents_dir: str | None) -> list[Finding]:
    try:
        check_agents_dir(agents_dir)
    except ConfigError as error:
        return [*diagnose(None), Finding("wrong", "agents folder", str(error), error.hint)]
    return run_and_wait(examine(session, agents_dir))


def list_findings(agents_dir: str | None) -> Listing:
    found = diagnose(agents_dir)
    rows = [
        (one.sign, one.what, "\n→ ".join(filter(None, (one.message, one.next_step))))
        for one in found
    ]
    text = "\n".join(map(str, found))
    return Listing(text=text, head=("", "checked", "result"), rows=rows, wide=2)


def trust(
    target: str | None,
    agents_dir: str | None,
    write: Callable[[str], object],
    ask: Callable[[str], str] | None,
) -> bool:
    """Shows a project's agents, asks the user to trust them, and returns True if they are trusted.

    `target` is the project's folder; None means the project of the agents that are found from the
    current folder. `ask` prompts the user; None means that no one can be prompted. Raises
    ConfigError if there are no such agents.
    """
    if target is None:
        files = [path for path in list_agents(agents_dir).values() if not is_own(path)]
    else:
        folder = expand_home(target)
        below = folder / PROJECT_AGENTS
        files = sorted((below if below.is_dir() else folder).glob("*.toml"))
    if not files:
        where = "found here" if target is None else f"in {quote(target)}"
        raise ConfigError(f"no project agents {where}", hint="give the project's folder")
    project = find_project(files[0])
    shown = quote(display_path(project))
    if all(map(is_trusted, files)):
        write(f"{shown} is trusted")
        return True
    for path in files:  # they may be hostile
        name = printable(format_path(path))
        try:
            agent = Agent.from_file(path.stem, path.parent)
            tools = ", ".join(map(printable, (*agent.tools, *agent.sub_agents))) or "no tools"
            lines = [f"{name}: {quote(agent.model)}, mode {agent.mode}, {tools}"]
            lines += [f"  ! {warning}" for warning in agent.warnings]
        except ConfigError as error:
            lines = [f"{name}: {error}"]
        for line in lines:
            write(fold(reveal(line), WIDTH, "      "))
    if ask is None:
        write(
            f"{shown} is not trusted, and no one can be prompted here; run `axe-nb trust` in a "
            f"terminal, or set {VARIABLE}=1 to trust every folder"
        )
        return False
    question = f"Trust {shown} and run its agents as they are written? [y]es [n]o: "
    if ask(question).strip().lower() not in ("y", "yes"):
        return False
    remember_trust(str(project))
    write(f"{shown} is trusted")
    return True
