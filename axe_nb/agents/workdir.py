"""The workdir of an agent: found, with its links resolved once, when a run starts.

Source: B-6, D-53; docs/safety.md "What a run is made of".
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import is_own
from axe_nb.agents.files import expand_home
from axe_nb.errors import ConfigError
from axe_nb.links import find_real_folder
from axe_nb.text import quote
from axe_nb.toml_tables.lines import ESCAPES


@dataclass(frozen=True, slots=True)
class Workdir:
    """A folder that exists."""

    given: Path
    """Absolute, with the links that the agent names."""
    real: Path
    """Without links; tools open it by this path, so that no link can take its place later."""


def find_workdir(agent: Agent) -> Workdir:
    """Returns the workdir of an agent, as it is now.

    Raises:
        ConfigError: it does not exist, or a link leads it out of the current folder.
    """
    named = agent.workdir.strip()
    try:
        here = Path(find_real_folder())
        given = expand_home(named).absolute() if named else Path.cwd()
        is_there = given.is_dir()
    except OSError:  # the current folder was deleted, or the path is too long
        is_there = False
    if not is_there:
        raise _make_missing(agent.name, named)
    found = Workdir(given, Path(os.path.realpath(given)))
    if leaves_by_link(agent, found, here):
        raise ConfigError(
            f"workdir {quote(named)} of agent {quote(agent.name)} leads out of the "
            f"current folder through a link, to {quote(str(found.real))}",
            hint="to work there, use the path of that folder itself",
        )
    return found


def _make_missing(agent: str, named: str) -> ConfigError:
    if any(char in named for char in "\b\t\n\f\r"):  # "C:\temp" has a tab
        return ConfigError(f"workdir not found: {quote(named)}", hint=ESCAPES)
    return ConfigError(
        f"workdir not found: {named or 'the current folder'}",
        hint=f"fix `workdir` in agent {quote(agent)}, or pass --workdir",
    )


def leaves_by_link(agent: Agent, workdir: Workdir, root: Path) -> bool:
    """True if a workdir is named as a folder below `root`, a real path, but lies elsewhere.

    A command that may write there could have put a link in its place. An agent file of a project
    that the user trusts may name the project's links.
    """
    if workdir.real.is_relative_to(root):
        return False
    above = Path(os.path.normpath(workdir.given)).parents
    is_linked = any(Path(os.path.realpath(folder)).is_relative_to(root) for folder in above)
    is_reviewed = is_from_file(agent, "workdir") and not is_own(Path(agent.path))
    return is_linked and (agent.is_restricted or not is_reviewed)


def is_from_file(agent: Agent, key: str) -> bool:
    """True if the agent has the value of its file for a key; code may have set another."""
    return bool(agent.path) and tomllib.loads(agent.text).get(key) == getattr(agent, key)
