"""The path of a run: its agents, their tools, and the order of both, without any text."""

from __future__ import annotations

from collections.abc import Hashable

from axe_nb.diffs.likeness import list_others, list_turns
from axe_nb.results import RunResult


def find_path(run: RunResult) -> Hashable:
    """Returns the path: for each reply with calls, their tools and the runs that they started.

    Calls of one reply are one step: two tools at once are not the same as one after the other.
    """
    replies = tuple(
        tuple((call.call.name, *map(find_path, call.children)) for call in turn.calls)
        for turn in list_turns(run)
        if turn.calls
    )
    return run.agent, replies, *map(find_path, list_others(run))
