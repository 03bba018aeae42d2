"""The workdir of an agent: found, with its links resolved once, and confined to that of the root.

Source: B-6, D-53, D-81, docs/threat-model.md.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.config import is_own
from axe_nb.agents.files import expand_home
from axe_nb.agents.trust import NEXT_STEP, is_trusted
from axe_nb.conversion.toml_text import ESCAPES
from axe_nb.errors import ConfigError
from axe_nb.paths import follow_links
from axe_nb.text import quote


def find_workdir(agent: Agent) -> Path:
    """Returns the real path of the workdir of an agent, as it is now.

    Raises ConfigError if it does not exist, or if a link leads it out of the current folder.
    """
    named = agent.workdir.strip()
    try:
        here = Path(os.path.realpath(os.curdir))
        is_there = expand_home(named).is_dir()
    except OSError:  # the current folder was deleted, or the path is too long
        is_there = False
    if not is_there:
        is_escaped = any(char in named for char in "\b\t\n\f\r")  # "C:\temp" has a tab
        shown = quote(named) if is_escaped else named or "the current folder"
        step = f"fix `workdir` in agent {quote(agent.name)}, or pass --workdir"
        raise ConfigError(f"workdir not found: {shown}", hint=ESCAPES if is_escaped else step)
    real = Path(os.path.realpath(expand_home(named)))
    if _leaves_by_link(agent, real, here):
        raise ConfigError(
            f"workdir {quote(named)} of agent {quote(agent.name)} leads out of the "
            f"current folder through a link, to {quote(str(real))}",
            hint="to work there, use the path of that folder itself",
        )
    return real


def _leaves_by_link(agent: Agent, real: Path, root: Path) -> bool:
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


def confine(child: Agent, caller: Path, root: str, defined: Mapping[str, Agent]) -> Agent:
    """Returns a child that may start where it is to work; nothing there is looked at.

    A child without a workdir works in the current folder, in the root's if that lies outside it.

    Args:
        child: the child.
        caller: the real workdir of the run that starts it.
        root: that of the root; empty = the child may work anywhere.
        defined: name → agent of the session when the root started.
    """
    named = child.workdir.strip()
    with suppress(OSError, ValueError):  # no path, or the current folder is gone: a run says so
        real = Path(os.path.realpath(expand_home(named)))
        if not root or real.is_relative_to(root):
            return child
        if not named:
            return replace(child, workdir=root)
        if real != caller and not _names_workdir(child, defined):
            raise _make_outside(child)
    return child


def check_confined(child: Agent, real: Path, root: str, defined: Mapping[str, Agent]) -> None:
    """Checks the workdir that a child is about to use: a command may have put a link there.

    Only the child's own file may name another place than the root's workdir: one of the user's own,
    or a trusted one. The same is true of an agent that the session had when the root started.
    """
    if not root or real.is_relative_to(root):
        return
    if not _names_workdir(child, defined) or _leaves_by_link(child, real, Path(root)):
        raise _make_outside(child)


def _names_workdir(child: Agent, defined: Mapping[str, Agent]) -> bool:
    """True if the child's own, unchanged source names its workdir, and may do so."""
    if child.text:
        return is_from_file(child, "workdir") and is_trusted(Path(child.path))
    known = defined.get(child.name)  # an agent of a saved run may be among them
    return known is not None and known.workdir == child.workdir and not child.is_restricted


def _make_outside(child: Agent) -> ConfigError:
    step = "remove `workdir`"
    return ConfigError(
        f"workdir {quote(child.workdir)} of agent {quote(child.name)} lies outside the workdir of "
        "the run that it belongs to",
        hint=f"{step}, or trust the agent's project: {NEXT_STEP}" if child.path else step,
    )
