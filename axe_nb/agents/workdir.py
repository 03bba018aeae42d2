"""The workdir of an agent: found, with its links resolved once, when a run starts.

Source: B-6, D-53; docs/threat-model.md "What a run is made of".
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import is_own
from axe_nb.agents.files import expand_home
from axe_nb.errors import ConfigError
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
    try:
        if not agent.workdir.strip():
            return _find_current(os.getcwd(), os.path.realpath(os.curdir))  # noqa: PTH109 - as there
        given = expand_home(agent.workdir.strip()).absolute()
        is_there = given.is_dir()
    except OSError:  # the current folder was deleted, or the path is too long
        is_there = False
    if not is_there:
        raise _make_missing(agent)
    found = Workdir(given, Path(os.path.realpath(given)))
    if leaves_by_link(found, Path(os.path.realpath(os.curdir))) and not is_reviewed(agent):
        raise ConfigError(
            f"workdir {quote(agent.workdir.strip())} of agent {quote(agent.name)} leads out of the "
            f"current folder through a link, to {quote(str(found.real))}",
            hint="to work there, use the path of that folder itself",
        )
    return found


@lru_cache(maxsize=16)
def _find_current(given: str, real: str) -> Workdir:
    """The current folder as a workdir: the same object for all children that work there."""
    return Workdir(Path(given), Path(real))


def _make_missing(agent: Agent) -> ConfigError:
    given = agent.workdir.strip()
    is_escaped = any(c in given for c in "\b\t\n\f\r")  # "C:\temp" has a tab
    return ConfigError(
        f"workdir not found: {quote(given) if is_escaped else given or 'the current folder'}",
        hint=ESCAPES
        if is_escaped
        else f"fix `workdir` in agent {quote(agent.name)}, or pass --workdir",
    )


def leaves_by_link(workdir: Workdir, root: Path) -> bool:
    """True if a folder is named as one below `root`, a real path, but lies elsewhere.

    A command that may write there could have put a link in its place.
    """
    if workdir.real.is_relative_to(root):
        return False
    above = Path(os.path.normpath(workdir.given)).parents
    return any(Path(os.path.realpath(folder)).is_relative_to(root) for folder in above)


def is_reviewed(agent: Agent) -> bool:
    """True if a project's agent file names the workdir: trust in it covers where links lead."""
    if not (agent.path and agent.text) or agent.is_restricted or is_own(Path(agent.path)):
        return False
    return bool(tomllib.loads(agent.text).get("workdir") == agent.workdir)
