"""The workdir of an agent: found, with its links resolved once, when a run starts.

Source: B-6, D-53; docs/safety.md "What a run is made of".
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import is_own
from axe_nb.agents.files import expand_home
from axe_nb.errors import ConfigError
from axe_nb.links import find_real_folder, follow_links
from axe_nb.text import quote
from axe_nb.toml_tables.lines import ESCAPES


def find_workdir(agent: Agent) -> Path:
    """Returns the real path of the workdir of an agent, as it is now.

    Raises:
        ConfigError: it does not exist, or a link leads it out of the current folder.
    """
    named = agent.workdir.strip()
    try:
        here = Path(find_real_folder())
        is_there = expand_home(named).is_dir()
    except OSError:  # the current folder was deleted, or the path is too long
        is_there = False
    if not is_there:
        raise _make_missing(agent.name, named)
    real = Path(os.path.realpath(expand_home(named)))
    if leaves_by_link(agent, real, here):
        raise ConfigError(
            f"workdir {quote(named)} of agent {quote(agent.name)} leads out of the "
            f"current folder through a link, to {quote(str(real))}",
            hint="to work there, use the path of that folder itself",
        )
    return real


def _make_missing(agent: str, named: str) -> ConfigError:
    if any(char in named for char in "\b\t\n\f\r"):  # "C:\temp" has a tab
        return ConfigError(f"workdir not found: {quote(named)}", hint=ESCAPES)
    return ConfigError(
        f"workdir not found: {named or 'the current folder'}",
        hint=f"fix `workdir` in agent {quote(agent)}, or pass --workdir",
    )


def leaves_by_link(agent: Agent, real: Path, root: Path) -> bool:
    """True if an agent names a workdir below `root`, a real path, that lies elsewhere.

    A command that may write there could have put a link in its place. An agent file of a project
    that the user trusts may name the project's links.
    """
    if real.is_relative_to(root):
        return False
    names = follow_links(expand_home(agent.workdir.strip()).absolute())
    is_linked = any(name.is_relative_to(root) for name in names if ".." not in name.parts)
    is_reviewed = is_from_file(agent, "workdir") and not is_own(Path(agent.path))
    return is_linked and (agent.is_restricted or not is_reviewed)


def is_from_file(agent: Agent, key: str) -> bool:
    """True if the agent has the value of its file for a key; code may have set another."""
    return bool(agent.path) and tomllib.loads(agent.text).get(key) == getattr(agent, key)
