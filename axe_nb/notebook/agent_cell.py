"""`%%axe_agent NAME`: defines an agent from the TOML in a cell. Source: D-26, D-27, D-41."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from axe_nb.agents.agent import Agent, find_agent_file
from axe_nb.agents.files import expand_home, read_text, reason, write_whole
from axe_nb.agents.names import check_name
from axe_nb.agents.prompt import UnknownVariable, all_warnings, find_line
from axe_nb.agents.trust import trust_new_folder
from axe_nb.agents.user_config import Config, agent_dirs, format_path_or_name
from axe_nb.commands.doctor import problems
from axe_nb.commands.option_table import AGENT_CELL
from axe_nb.commands.parser import parse
from axe_nb.conversion.interpolation import LEFT_OUT
from axe_nb.conversion.toml_tables import Source, parse_toml
from axe_nb.engine.plan import Needed
from axe_nb.errors import ConfigError
from axe_nb.notebook.option_line import find_cell_source, read_words
from axe_nb.session.session import session
from axe_nb.text import quote
from axe_nb.views.agent_summary import draw_card, draw_graph, list_abilities


def define(shell: InteractiveShell, line: str, cell: str, names: Mapping[str, Any]) -> None:
    """Defines the agent for this session, saves it with `--save`, and displays its summary.

    If looking up the agent's name finds the saved file, later runs read that file instead of this
    definition. Raises ConfigError, with the line number in the cell, if the agent is invalid.
    """
    chosen = parse(AGENT_CELL, "cell", read_words(AGENT_CELL, "cell", line, names))
    name, agents_dir = chosen.agent, session.defaults.get("agents_dir")
    check_name(name)
    body, magic_line = find_cell_source(shell, "axe_agent", cell)
    agent, source = _parse_agent(name, body, magic_line)
    notes, find = [], partial(session.find, agents_dir=agents_dir)
    # where a cassette replays the answers, the settings of the model's server may be missing
    needs: Needed = "nothing" if session.open_cassette() else "key"
    for problem in problems(agent, find, Config.load(), needs=needs):
        error = problem.error
        if isinstance(error, UnknownVariable):
            where = find_line(source, error.variable)
        else:
            where = source.line(problem.key, problem.entry)
        if problem.is_mistake:
            error.place = f"line {where or magic_line}"
            raise error
        if problem.key != ("sub_agents",):  # the graph shows these
            at = f" (line {where})" if where else ""
            step = f"; {error.hint}" if error.hint else ""
            notes.append(f"{error}{at}{step}")
    text = LEFT_OUT.sub("", body)
    path, saved = None, list[str]()
    if chosen.save:
        path = _find_file(name, agents_dir) or agent_dirs(agents_dir)[0] / f"{name}.toml"
        if chosen.dir:
            path = expand_home(chosen.dir) / f"{name}.toml"
        saved = _save(path, name, text)
    now = _find_file(name, agents_dir)
    if path and now and now.resolve() == path.resolve():
        session.forget(name)
    else:
        session.define(agent, text)
    facts = (agent.model, f"mode {agent.mode}", *(["answers as JSON"] if agent.output else []))
    graph = draw_graph(agent, find)
    warnings = (*all_warnings(agent), *notes)
    card = draw_card(name, facts, list_abilities(agent), graph=graph, notes=warnings, saved=saved)
    display(card, raw=True)  # type: ignore[no-untyped-call]  # IPython's own gap


def _parse_agent(name: str, body: str, magic_line: int) -> tuple[Agent, Source]:
    """Parses the cell. Returns the agent, and its TOML with the cell's line numbers."""
    try:
        has_name = "name" in parse_toml(body)
    except ValueError:
        has_name = True  # the parser reports the mistake
    above = "\n" * (magic_line - 1) + ("" if has_name else f"name = {quote(name)}")
    source = Source(f"{above}\n{body}")
    try:
        agent = Agent.from_toml(source.text, name=name)
    except ConfigError as error:
        if not (error.place or re.search(r"\bline \d+", error.message)):
            field = error.message.rpartition(": ")[2]  # a required field without a value
            number = source.line((field,)) or magic_line
            if "end of document" in error.message:
                number = source.text.rstrip().count("\n") + 1
            error.place = f"line {number}"
        raise
    if agent.name != name:
        own = f"name is {quote(agent.name)} (line {source.line(('name',))})"
        hint = "use the same name in both, or omit `name`"
        raise ConfigError(f"{own}, but the magic says {quote(name)}", hint=hint)
    return agent, source


def _find_file(name: str, agents_dir: str | None) -> Path | None:
    try:
        return find_agent_file(name, agents_dir)
    except ConfigError:
        return None


def _save(path: Path, name: str, body: str) -> list[str]:
    """Writes the agent file if its text has changed. Returns lines that describe the changes."""
    called = format_path_or_name(path)
    try:
        before = read_text(path)
    except FileNotFoundError:
        before = None
    except OSError as error:
        raise ConfigError(f"cannot read {called}: {reason(error)}") from None
    if "name" not in parse_toml(body):
        body = f"name = {quote(name)}\n{body}"
    text = body.rstrip("\n") + "\n"
    if "\r\n" in (before or ""):
        text = text.replace("\n", "\r\n")
    if text == before:
        return [f"{called} is unchanged"]
    trust_new_folder(path)
    write_whole(path, text)
    if before is None:
        return [f"written to {called}"]
    lines = (before.splitlines(), text.splitlines())
    return [f"written to {called}:", *difflib.unified_diff(*lines, "before", "now", lineterm="")]
