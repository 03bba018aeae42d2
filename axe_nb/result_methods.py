"""The methods of `RunResult` that need rooms above it, as `result_actions.py` declares them.

Forking, comparing and inspecting a result needs what lies above it. A new method of this kind has
its function here.
Source: product.md "Runs are recordings".
"""

from __future__ import annotations

from typing import Any

from axe_nb.api import arun_shown, run_shown
from axe_nb.diffs.run_diff import diff_runs
from axe_nb.engine.nesting import is_inside
from axe_nb.errors import AxeError
from axe_nb.forks.point import CHANGES, make_point
from axe_nb.front_end import is_notebook
from axe_nb.inspection.sent import find_request
from axe_nb.pictures.found import split_prompt
from axe_nb.pictures.parts import Illustrated
from axe_nb.results import RunResult
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from axe_nb.session.undo import undo
from axe_nb.views import html

__all__ = ["afork", "diff_runs", "find_request", "fork", "show_twin", "undo"]


def fork(result: RunResult, place: str | int | None, /, **changes: Any) -> RunResult:
    """As `RunResult.fork`."""
    return run_shown(*_make_fork(result, place, changes))


async def afork(result: RunResult, place: str | int | None, /, **changes: Any) -> RunResult:
    """As `RunResult.afork`."""
    return await arun_shown(*_make_fork(result, place, changes))


def show_twin(result: RunResult) -> dict[str, str]:
    """The tree, for front ends without IPython; in IPython `cell_display.display` shows it."""
    return {} if is_notebook() else html.twin(result)


def _make_fork(
    result: RunResult, place: str | int | None, changes: dict[str, Any]
) -> tuple[RunRequest, bool]:
    """Returns the request of a fork, and whether it is shown.

    Raises:
        ConfigError: there is no such place, call or option.
        AxeError: a tool forks: the fork would be no part of the tool's tree.
    """
    if is_inside():
        raise AxeError(
            "runs cannot be forked inside a tool",
            hint="fork it in a cell or a script; tools start agents with ctx.delegate",
        )
    display = changes.pop("display", True)
    given = {name: changes.pop(name) for name in CHANGES if name in changes}
    if (prompt := given.get("prompt")) is not None:
        given["prompt"] = Illustrated(*split_prompt(prompt))
    point = make_point(result, place, **given)
    options = session.fork_overrides(changes, CHANGES)
    return RunRequest(agent=None, overrides=options, fork=point), display
