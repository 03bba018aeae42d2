"""Confines the workdirs of children to that of the root.

Source: D-53, D-81; docs/safety.md "What a run is made of" and "Trust".
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.trust import NEXT_STEP, is_trusted
from axe_nb.agents.workdir import is_from_file, leaves_by_link
from axe_nb.engine.scope import Env
from axe_nb.errors import ConfigError
from axe_nb.links import find_real_folder
from axe_nb.text import quote


def move_into_root(child: Agent, env: Env) -> Agent:
    """Returns a child that works in the root's workdir if it names none and would start outside."""
    if env.workdir and not child.workdir.strip():
        with suppress(OSError):  # the current folder was deleted: a run reports it
            if not Path(find_real_folder()).is_relative_to(env.workdir):
                return replace(child, workdir=env.workdir)
    return child


def check_confined(child: Agent, workdir: Path, caller: Path, env: Env) -> None:
    """Checks the workdir that a child is about to use: it lies in the root's, or is its caller's.

    Only the child's own file may name another place: one of the user's own, or a trusted one. The
    same is true of an agent that the session had when the root started. In the root's workdir, a
    command may have put a link in its place.

    Args:
        child: the child.
        workdir: the real workdir that its tools will open.
        caller: the real workdir of the run that starts it.
        env: dependencies of the tree.

    Raises:
        ConfigError: it lies outside the root's workdir.
    """
    root = Path(env.workdir)
    if not env.workdir or workdir == caller or workdir.is_relative_to(root):
        return
    if _names_workdir(child, env) and not leaves_by_link(child, workdir, root):
        return
    step = "remove `workdir`"
    raise ConfigError(
        f"workdir {quote(child.workdir)} of agent {quote(child.name)} lies outside the workdir of "
        "the run that it belongs to",
        hint=f"{step}, or trust the agent's project: {NEXT_STEP}" if child.path else step,
    )


def _names_workdir(child: Agent, env: Env) -> bool:
    """True if the child's own, unchanged source names its workdir, and may do so."""
    if child.text:
        return is_from_file(child, "workdir") and is_trusted(Path(child.path))
    known = env.defined.get(child.name)
    return known is not None and known.workdir == child.workdir
