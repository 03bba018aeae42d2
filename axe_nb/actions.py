"""Commands shared by `%axe` and `axe-nb`; each formats the output in its own way.

Source: product.md "Notebook" and "Command line"; A-5.7, B-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_files import check_agents_dir, find_file, list_agents
from axe_nb.agents.config import PROJECT_AGENTS, Config, format_path, is_own
from axe_nb.agents.files import expand_home
from axe_nb.agents.trust import VARIABLE, Review, check_trust, find_unread_link, remember, review
from axe_nb.agents.unusual import find_sub_agents
from axe_nb.doctor.doctor import examine
from axe_nb.doctor.finding import Finding
from axe_nb.engine.confine import real_workdir
from axe_nb.errors import ConfigError
from axe_nb.session.portal import run_and_wait
from axe_nb.session.question import WIDTH
from axe_nb.session.session import session
from axe_nb.text import fold, plural, printable, quote, reveal
from axe_nb.views import agent_summary


def load_agents(agents_dir: str | None) -> Iterator[tuple[str, Agent | ConfigError]]:
    """Yields (name, agent or its error) for all agents found, sorted by name.

    Raises:
        ConfigError: there is no folder `agents_dir`.
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

    Raises:
        ConfigError: the agent is not trusted, names an unknown tool, or a server did not start.
    """
    check_trust(agent.path, agent.text, agent.name)
    settings, workdir = Config.load().mcp_servers, Path(real_workdir(agent))
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
            session.cassette,
        )
    )


def trust(
    target: str | None,
    agents_dir: str | None,
    write: Callable[[str], object],
    ask: Callable[[str], str] | None,
) -> bool:
    """Shows the unusual parts of agents, and asks the person to trust each such agent.

    Args:
        target: an agent, its file or the folder of a project; None = all agents found here.
        agents_dir: folder to search for agents first.
        write: receives each line to show.
        ask: prompts the person; None = no one can be prompted.

    Returns:
        True if no agent is left that needs trust.

    Raises:
        ConfigError: there is no such agent, or the list of trusted agents cannot be read.
    """
    left = 0
    reviews: dict[Path, Review | None] = {}
    below_auto: set[Path] = set()
    waiting = _find_agents(target, agents_dir)
    named = set(waiting) if target is not None else set[Path]()
    while waiting:
        path = waiting.pop(0)
        found = reviews[path] if path in reviews else _review(path, write, ask)
        reviews[path] = found
        more = _find_below(found, agents_dir, path in below_auto) if found else []
        waiting += [below for below in more if below not in below_auto]
        below_auto.update(more)
    for path, found in reviews.items():
        is_below = path in below_auto
        if found is None or not _decide(found, write, ask, path in named, is_below=is_below):
            left += 1
    if left and ask is None:
        write(
            f"{plural(left, 'agent')} not trusted, and no one can be prompted here; run "
            f"`axe-nb trust` in a terminal, or set {VARIABLE}=1 to trust all"
        )
    return left == 0


def _review(
    path: Path, write: Callable[[str], object], ask: Callable[[str], str] | None
) -> Review | None:
    """Reviews an agent; behind a link only after a yes, else None."""
    link = find_unread_link(path)
    if link:
        write(f"{printable(format_path(path))} is, or lies behind, a link to {reveal(link)}")
        if ask is None or not _is_yes(ask(f"Read {printable(path.stem)} there? [y]es [n]o: ")):
            return None
    return review(path)


def _decide(
    found: Review,
    write: Callable[[str], object],
    ask: Callable[[str], str] | None,
    is_named: bool,
    *,
    is_below: bool,
) -> bool:
    """Shows a review and asks the person; False if the agent still needs trust."""
    write(_format_review(found, whole=is_named or is_below))
    needs_trust = found.needs_trust or (is_below and bool(found.below) and not found.is_trusted)
    # a file given by name may be trusted even if nothing in it is unusual: its workdir then holds
    # in a run that started elsewhere, and its tools below an agent in mode auto
    may_trust = is_named and bool(found.fingerprint) and not found.is_trusted
    if not (needs_trust or may_trust):
        return True
    name = printable(found.path.stem)
    if ask is not None and _is_yes(ask(f"Trust {name}? [y]es [n]o: ")):
        remember(found)
        write(f"{name} is trusted until its file changes")
        return True
    return not needs_trust


def _find_below(found: Review, agents_dir: str | None, in_auto: bool) -> list[Path]:
    """Returns the files of this project's agents that an agent starts in mode `auto`."""
    files = list_agents(agents_dir)
    names = dict.fromkeys(find_sub_agents(found.text, in_auto=in_auto))
    return [files[name] for name in names if name in files and not is_own(files[name])]


def _is_yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")


def _find_agents(target: str | None, agents_dir: str | None) -> list[Path]:
    if target is None:
        found = [path for path in list_agents(agents_dir).values() if not is_own(path)]
        if not found:
            raise ConfigError("this project has no agents", hint="give a file or a folder")
        return found
    path = expand_home(target)
    if path.is_dir():
        folder = path / PROJECT_AGENTS if (path / PROJECT_AGENTS).is_dir() else path
        found = sorted(folder.glob("*.toml"))
        if not found:
            raise ConfigError(f"no agents in {quote(target)}")
        return found
    return [path] if path.is_file() else [find_file(target, agents_dir)]


def _format_review(found: Review, *, whole: bool) -> str:
    """Formats what is unusual about an agent; the file may be hostile.

    Args:
        found: the review.
        whole: shows also what only counts below an agent in mode `auto`.
    """
    parts = (*found.unusual, *(found.below if whole or found.unusual else ()))
    state = (
        found.problem
        or ("nothing unusual" if not parts else "")
        or ("trusted" if found.is_trusted else "not trusted")
    )
    lines = [f"{printable(format_path(found.path))}: {state}"]
    if parts:
        lines += [f"  {line}" for line in _describe(found)]
        lines += [f"  ! {part}" for part in parts]
    return fold(reveal("\n".join(lines)), WIDTH, "      ")


def _describe(found: Review) -> list[str]:
    try:
        agent = Agent.from_toml(found.text, name=found.path.stem, path=str(found.path))
    except ConfigError as error:
        return [f"invalid: {error}"]
    tools = ", ".join((*agent.tools, *agent.sub_agents)) or "no tools"
    return [f"{quote(agent.model)}, mode {agent.mode}, {tools}"]
