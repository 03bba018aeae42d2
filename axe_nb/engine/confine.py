"""Confines the workdirs of children to that of the root.

Source: D-53, D-81; docs/threat-model.md "What a run is made of".
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.files import expand_home
from axe_nb.agents.trust import NEXT_STEP, is_trusted
from axe_nb.agents.workdir import Workdir, is_reviewed, leaves_by_link
from axe_nb.engine.scope import Env
from axe_nb.errors import ConfigError
from axe_nb.text import quote


def real_workdir(agent: Agent) -> str:
    """Returns the agent's workdir with links resolved; empty if the current folder was deleted."""
    try:
        given = agent.workdir.strip()
        return os.path.realpath(expand_home(given) if given else os.curdir)
    except OSError:  # a run reports it
        return ""


def confine(child: Agent, parent: Agent, env: Env) -> Agent:
    """Returns the child with a workdir that lies in the root's.

    A child without one works in the current folder, or in the root's workdir if that folder lies
    outside. Only the child's own file may name another place: one of the user's own, or a trusted
    one. The same is true of an agent that the session had when the root started.

    Raises:
        ConfigError: the child's workdir lies outside the root's.
    """
    real = real_workdir(child)
    if not env.workdir or real in ("", env.workdir) or Path(real).is_relative_to(env.workdir):
        return child
    if not child.workdir.strip():
        return replace(child, workdir=env.workdir)
    if child.workdir == parent.workdir or _names_workdir(child, env):
        return child
    raise _make_error(child)


def check_confined(child: Agent, workdir: Workdir, caller: Path, env: Env) -> None:
    """Checks the workdir that a child is about to use, as a command may have put a link there.

    Args:
        child: as `confine` returned it.
        workdir: the workdir that its tools will open.
        caller: the real workdir of the run that starts it.
        env: dependencies of the tree.

    Raises:
        ConfigError: it lies outside the root's workdir.
    """
    if not env.workdir or workdir.real == caller or workdir.real.is_relative_to(env.workdir):
        return
    is_moved = leaves_by_link(workdir, Path(env.workdir)) and not is_reviewed(child)
    if is_moved or not _names_workdir(child, env):
        raise _make_error(child)


def _make_error(child: Agent) -> ConfigError:
    step = "remove `workdir`"
    if child.path:
        step = f"remove `workdir`, or trust the agent's project: {NEXT_STEP}"
    return ConfigError(
        f"workdir {quote(child.workdir)} of agent {quote(child.name)} lies outside the workdir of "
        "the run that it belongs to",
        hint=step,
    )


def _names_workdir(child: Agent, env: Env) -> bool:
    """True if the child's own, unchanged source names its workdir, and may do so."""
    if not child.text:
        known = env.defined.get(child.name)
        return known is not None and known.workdir == child.workdir
    if tomllib.loads(child.text).get("workdir") != child.workdir:
        return False  # changed by code, perhaps for a model
    return bool(child.path) and is_trusted(Path(child.path))
