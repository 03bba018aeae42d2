"""Commands shared by `%axe` and `axe-nb`; each formats the output in its own way.

Source: A-5.7, B-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_files import check_agents_dir, find_file, list_agents
from axe_nb.agents.config import PROJECT_AGENTS, Config, format_path, is_own
from axe_nb.agents.files import display_path, expand_home
from axe_nb.agents.prompt import find_workdir
from axe_nb.agents.trust import VARIABLE, find_project, is_trusted, remember_trust
from axe_nb.commands.doctor import Finding, examine
from axe_nb.errors import ConfigError
from axe_nb.recording.history import delete_run, list_history
from axe_nb.session.portal import run_and_wait
from axe_nb.session.prompts import WIDTH
from axe_nb.session.session import session
from axe_nb.text import fold, printable, quote, reveal
from axe_nb.views import agent_summary

LATEST = 20
"""Runs that `history` lists."""


def load_agents(agents_dir: str | None) -> Iterator[tuple[str, Agent | ConfigError]]:
    """Yields (name, agent or its error) for all agents found, sorted by name.

    Raises ConfigError: there is no folder `agents_dir`.
    """
    check_agents_dir(agents_dir)
    for name in sorted({*session.agents, *list_agents(agents_dir)}):
        try:
            yield name, session.find(name, agents_dir)
        except ConfigError as error:
            yield name, error


def format_agent(agent: Agent) -> list[str]:
    """Formats an agent's file, one line per key."""
    return [agent_summary.line(label, value) for label, value in agent_summary.rows(agent)]


def format_tools(agent: Agent) -> str:
    """Formats an agent's tools, one a line; starts its MCP servers as a run of it would.

    Raises ConfigError: the agent names an unknown tool, its workdir is missing, or a server did not
    start.
    """
    settings, workdir = Config.load().mcp_servers, find_workdir(agent)
    offered = run_and_wait(session.servers.open(agent, settings, workdir))
    return agent_summary.tools_of(agent, offered.tools) or f"{agent.name} has no tools"


def diagnose(agents_dir: str | None) -> list[Finding]:
    """Diagnoses configuration problems."""
    try:
        check_agents_dir(agents_dir)
    except ConfigError as error:
        return [*diagnose(None), Finding("wrong", "agents folder", str(error), error.hint)]
    return run_and_wait(
        examine(
            agents_dir,
            session.agents,
            lambda name: session.find(name, agents_dir),
        )
    )


def show_history(agent: str | None, delete: int | None) -> str:
    """Lists the latest runs, or deletes one.

    Raises ConfigError: the history cannot be read, or has no such run.
    """
    if delete is not None:
        delete_run(delete)
        return f"run {delete} deleted from the history"
    return repr(list_history(agent, LATEST))


def trust(
    target: str | None,
    agents_dir: str | None,
    write: Callable[[str], object],
    ask: Callable[[str], str] | None,
) -> bool:
    """Shows what the agents of a project may not have without trust, and asks for it.

    Raises ConfigError: there is no such folder, or the list of trusted folders cannot be read.

    Args:
        target: a folder of the project, or a file in it; None = that of the agents found here.
        ask: prompts the person; None = no one can be prompted.

    Returns:
        True if the project is trusted now.
    """
    files = _find_project_files(target, agents_dir)
    project = find_project(files[0])
    shown = quote(display_path(project))
    if all(map(is_trusted, files)):
        write(f"{shown} is trusted")
        return True
    for path in files:
        for line in _describe(path):
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


def _find_project_files(target: str | None, agents_dir: str | None) -> list[Path]:
    """Returns the agent files of one project. Raises ConfigError: there are none."""
    if target is None:
        found = [path for path in list_agents(agents_dir).values() if not is_own(path)]
        if not found:
            raise ConfigError("this project has no agents", hint="give its folder")
        return found
    path = expand_home(target)
    if path.is_file():
        return [path]
    folder = path / PROJECT_AGENTS if (path / PROJECT_AGENTS).is_dir() else path
    if files := sorted(folder.glob("*.toml")):
        return files
    if path.is_dir():
        raise ConfigError(f"no agents in {quote(target)}")
    return [find_file(target, agents_dir)]


def _describe(path: Path) -> list[str]:
    """Returns the lines on one agent file, which may be hostile."""
    name = printable(format_path(path))
    try:
        agent = Agent.from_file(path.stem, path.parent)
    except ConfigError as error:
        return [f"{name}: {error}"]
    tools = ", ".join(map(printable, (*agent.tools, *agent.sub_agents))) or "no tools"
    lines = [f"{name}: {quote(agent.model)}, mode {agent.mode}, {tools}"]
    return [*lines, *(f"  ! {warning}" for warning in agent.warnings)]
