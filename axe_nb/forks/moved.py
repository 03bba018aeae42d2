"""A run that a fork takes as it is, at its place in the new tree.

Source: D-59, D-66.
"""

from __future__ import annotations

from dataclasses import replace

from axe_nb.results import RunResult


def move_run(run: RunResult, before: str, now: str) -> RunResult:
    """Returns a run with all below it, marked as recorded, below another id.

    Args:
        run: the run.
        before: id of the run above it, in the tree that it is taken from.
        now: the id of that run in the new tree.
    """
    id = f"{now}{run.id.removeprefix(before)}"
    task = {"task_id": id} if "task_id" in run.metadata else {}
    return replace(
        run,
        id=id,
        metadata={**run.metadata, **task},
        log=tuple(replace(turn, source="recorded") for turn in run.log),
        exchanges=tuple(replace(one, source="recorded") for one in run.exchanges),
        children=tuple(move_run(child, before, now) for child in run.children),
    )
