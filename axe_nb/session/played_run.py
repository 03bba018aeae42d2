"""A finished run played once more in a view: its events at their recorded times, faster if wanted.

Nothing is asked, run or kept; see `axe_nb.replay`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator

from axe_nb.events import (
    Event,
    RetryScheduled,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    events_of,
)
from axe_nb.messages.exchanges import Lap
from axe_nb.results import RunResult
from axe_nb.session.drive import View
from axe_nb.session.portal import PUMP

LATEST = 1e6
"""Seconds within which a run has ended; a file may hold any number."""

PIECES = 200
"""Most pieces of an answer: a saved run may hold one of any length."""

WRITES = 0.7
"""Share of the time of a request in which its answer is written; before it, the model thinks."""


def play(view: View, result: RunResult, speed: float) -> None:
    """Plays a run in a live view, and shows its end; in any other view only the end.

    `speed` is the number of its seconds that pass in one. An interrupt ends the playing.
    """
    began = time.monotonic()
    try:
        for seconds, event in time_events(result) if view.is_live else ():
            while (left := seconds / speed - (time.monotonic() - began)) > 0:
                time.sleep(min(left, PUMP))
                view.tick()
            view.event(event)
            view.tick()
    finally:
        view.finish(result)


def time_events(result: RunResult) -> list[tuple[float, Event]]:
    """Returns the events of a finished run, each with the seconds since its start, in order."""
    timed = sorted(_Times(result).place(), key=lambda one: one[0])
    return [(at - timed[0][0], event) for at, event in timed]


class _Times:
    """The recorded times of a tree; where one is missing, what comes before it counts."""

    def __init__(self, result: RunResult) -> None:
        self._result = result
        self._laps = defaultdict[tuple[str, int, int], list[Lap]](list)
        """(run, turn, call) → its times; call 0 = the request, turn 0 too = the whole run."""
        self._runs = {run.id: run for run in result.walk()}
        for run in result.walk():
            for lap in run.times:
                if 0 <= lap.began <= lap.ended <= LATEST and lap.kind != "person":
                    self._laps[run.id, lap.turn, lap.call].append(lap)
        self._latest = defaultdict[str, float](float)
        """Run → when something happened in it, or below it, last."""
        self._called: dict[tuple[str, str], float] = {}
        """(run, id of a call) → when it began."""

    def place(self) -> Iterator[tuple[float, Event]]:
        """Yields the events of the tree with their times; those of parallel calls overlap."""
        numbers: dict[str, int] = {}
        calls: dict[tuple[str, str], int] = {}
        answered: dict[str, float] = {}
        for event in events_of(self._result):
            run = event.run
            number = numbers.get(run, 0)
            match event:
                case RunStarted():
                    at = self._called.get((event.parent, event.call_id), 0.0)
                    yield self._note(run, self._find(run, 0, 0, at)), event
                case TurnStarted():
                    numbers[run] = number = event.turn
                    yield self._note(run, self._find(run, number, 0, self._latest[run])), event
                    yield from self._retry(run, number)
                case TurnFinished():
                    calls |= {(run, call.id): n for n, call in enumerate(event.calls, 1)}
                    at = self._end(run, number, 0, self._latest[run])
                    yield from self._write(event, self._latest[run], at)
                    answered[run] = self._note(run, at)
                    yield at, event
                case ToolStarted():
                    place = run, event.call.id
                    at = self._find(run, number, calls.get(place, 0), answered.get(run, 0.0))
                    self._called[place] = at
                    yield self._note(run, at), event
                case ToolFinished():
                    place = run, event.result.call_id
                    children = self._runs[run].children
                    below = [self._latest[c.id] for c in children if c.call_id == place[1]]
                    at = max([self._called.get(place, 0.0), *below])
                    at = self._end(run, number, calls.get(place, 0), at)
                    yield self._note(run, at), event
                case RunFinished():
                    yield self._note(run, self._end(run, 0, 0, self._latest[run])), event

    def _note(self, run: str, at: float) -> float:
        self._latest[run] = max(self._latest[run], at)
        return at

    def _find(self, run: str, turn: int, call: int, least: float) -> float:
        return max([least, *(lap.began for lap in self._laps[run, turn, call][:1])])

    def _end(self, run: str, turn: int, call: int, least: float) -> float:
        return max([least, *(lap.ended for lap in self._laps[run, turn, call])])

    def _retry(self, run: str, turn: int) -> Iterator[tuple[float, Event]]:
        """Yields the retries of a turn."""
        sent = (one for one in self._runs[run].exchanges if one.turn == turn)
        failed = [one.error for one in sent if one.error is not None]
        waits = [lap for lap in self._laps[run, turn, 0] if lap.kind == "retry"]
        for attempt, (error, lap) in enumerate(zip(failed, waits, strict=False), 2):
            reason, seconds = str(error.status or error.category), lap.ended - lap.began
            retry = RetryScheduled(run, turn, attempt, seconds, reason, error.message)
            yield self._note(run, max(self._latest[run], lap.began)), retry

    def _write(self, turn: TurnFinished, since: float, at: float) -> Iterator[tuple[float, Event]]:
        """Yields the pieces of an answer, spread over the last part of its request's time."""
        last = self._laps[turn.run, turn.turn, 0][-1:]
        since = max([since, *(lap.began for lap in last)])
        attempt = 1 + sum(one.error is not None for one in turn.exchanges)
        size = max(4, len(turn.text) // PIECES)
        ends = range(size, len(turn.text) + size, size) if at > since else ()
        for end in ends:
            share = 1 - WRITES * (1 - min(1, end / len(turn.text)))
            piece = TextDelta(turn.run, turn.turn, attempt, turn.text[end - size : end])
            yield since + share * (at - since), piece
