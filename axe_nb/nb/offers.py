"""Tab completion for recordings: places of runs, cassettes, agents of the history.

Source: product.md "Notebook" (Tab completes).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from itertools import islice

from IPython.core.getipython import get_ipython

from axe_nb.agents.files import expand_home
from axe_nb.errors import ConfigError
from axe_nb.results import RunResult
from axe_nb.run_history.history import list_history
from axe_nb.session.runs import RunHandle
from axe_nb.session.session import session

MOST = 500
"""Maximum number of places, files and runs considered."""

SUFFIX = ".axe"
"""The file suffix of cassettes in the documentation; any other works too."""


def list_places(word: str, variables: Iterable[str]) -> list[str]:
    """Returns the variables that a request may be of; after `R@`, the places of that run."""
    name, at, _ = word.partition("@")
    if not at:
        return [*variables, *_list_places_of(session.last)]
    shell = get_ipython()
    found = shell.user_ns.get(name) if shell and name else session.last
    return [f"{name}@{place}" for place in _list_places_of(found)]


def list_runs(word: str, variables: Iterable[str]) -> list[str]:
    """Returns the variables that hold a run; after `R@`, the runs of that tree."""
    name, at, _ = word.partition("@")
    shell = get_ipython()
    names = shell.user_ns if shell else {}
    if at:
        found = names.get(name) if name else session.last
        return [f"{name}@{run.id}" for run in _list_tree(found)]
    held = [one for one in variables if isinstance(names.get(one), RunResult | RunHandle)]
    return [*held, *(run.id for run in _list_tree(session.last))]


def _list_tree(found: object) -> list[RunResult]:
    result = found.finished if isinstance(found, RunHandle) else found
    return list(islice(result.walk(), MOST)) if isinstance(result, RunResult) else []


def _list_places_of(found: object) -> list[str]:
    result = found.finished if isinstance(found, RunHandle) else found
    if not isinstance(result, RunResult):
        return []
    places = [f"{run.id}/{one.turn}" for run in result.walk() for one in run.exchanges]
    return list(dict.fromkeys(places))[:MOST]


def list_past_agents() -> list[str]:
    """Returns the agents of the latest runs in the history."""
    with contextlib.suppress(ConfigError):
        return sorted({row.agent for row in list_history(limit=MOST)})
    return []


def list_cassettes(word: str) -> list[str]:
    """Returns the cassettes and folders in the folder of a path, as far as it is written."""
    folder = word.rpartition("/")[0]
    before = f"{folder}/" if folder or word.startswith("/") else ""
    return sorted(_list_entries(before))


def _list_entries(before: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(expand_home(before or ".")) as entries:
        for _, entry in zip(range(MOST), entries, strict=False):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield f"{before}{entry.name}/"
            elif entry.name.endswith(SUFFIX):
                yield f"{before}{entry.name}"


def list_names() -> list[str]:
    """Returns the agents and tools of the last run."""
    runs = list(session.last.walk()) if session.last else []
    calls = {call.name for run in runs for turn in run.log for call in turn.calls}
    return sorted({run.agent for run in runs} | calls)


def list_breaks(agents: Iterable[str], tools: Iterable[str]) -> list[str]:
    """The places of `--break`."""
    named = [f"agent:{name}" for name in agents] + [f"tool:{name}" for name in tools]
    return ["turn", "depth:0", "depth:1", *named]
