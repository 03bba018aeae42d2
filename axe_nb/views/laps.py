"""The times that each row of a finished run is about. Pure.

Source: product.md "Notebook" (`%axe time R`); design README "Second generation".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from axe_nb.results import RunResult
from axe_nb.times import Lap
from axe_nb.views.tree import CallNode, Node, TreeNode, TurnNode

MOST_LAPS: Final = 20_000
"""Times of one run that are read; only a file that someone else made has more."""

LATEST: Final = 1e9
"""No run ends so many seconds after its beginning."""


class Laps:
    """The times of a run and of all runs below it, without those that no clock gives.

    A file may hold any numbers, also infinite ones and such as are none (NaN).
    """

    def __init__(self, result: RunResult) -> None:
        self._of_run: dict[int, _OfRun] = {}
        self.whole = next((lap for lap in self._find(result).all if lap.kind == "run"), None)
        """The time of the run itself; None = it is not known."""
        self.kinds = {lap.kind for run in result.walk() for lap in self._find(run).all}

    def of(self, thing: TreeNode) -> Sequence[Lap]:
        """The times that a row is about, and those of what it has no rows of their own for."""
        if isinstance(thing, Node):
            return self._find(thing.result).all
        if isinstance(thing, TurnNode):
            return self._list_turn(thing)
        child = self._find(thing.child.result if thing.child else None)
        return child.all or self._find_own(thing)

    def is_kept(self, thing: TreeNode) -> bool:
        """True for a call that a fork has not made again: it has a result, and took no time."""
        if not isinstance(thing, CallNode) or thing.result is None:
            return False
        has_times = bool(self._find(thing.turn.run.result).all)
        return has_times and bool(thing.children) and not self._find_own(thing)

    def _find(self, result: RunResult | None) -> _OfRun:
        if id(result) not in self._of_run:
            self._of_run[id(result)] = _OfRun(result)
        return self._of_run[id(result)]

    def _find_own(self, call: CallNode) -> Sequence[Lap]:
        times = self._find(call.turn.run.result)
        return times.by_call.get((call.turn.number, call.index + 1), ())

    def _list_turn(self, turn: TurnNode) -> list[Lap]:
        """The times of a turn's request, of the waits within it, and of its calls."""
        times = self._find(turn.run.result)
        own = [*times.by_turn.get(turn.number, ())]
        asked = next((lap for lap in own if lap.kind in ("model", "replay")), None)
        if asked:
            own += (lap for lap in times.waits if asked.began <= lap.began <= asked.ended)
        for call in turn.calls:
            own += times.by_call.get((turn.number, call.index + 1), ())
        return own


class _OfRun:
    """The times of one run, by what they belong to."""

    def __init__(self, result: RunResult | None) -> None:
        self._result = result  # keeps its identity
        laps = result.times[:MOST_LAPS] if result else ()
        self.all = [lap for lap in laps if 0 <= lap.began <= lap.ended <= LATEST]
        self.by_turn = defaultdict[int, list[Lap]](list)
        self.by_call = defaultdict[tuple[int, int], list[Lap]](list)
        self.waits = [lap for lap in self.all if lap.kind == "person" and not lap.turn]
        """The times that belong to a request."""
        for lap in self.all:
            if lap.call:
                self.by_call[lap.turn, lap.call].append(lap)
            elif lap.turn:
                self.by_turn[lap.turn].append(lap)
