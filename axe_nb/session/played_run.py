"""Plays a finished run in a view, at the recorded speed or a multiple of that speed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

from axe_nb.errors import interrupted
from axe_nb.events import (
    Event,
    PersonAnswered,
    PersonAsked,
    RetryScheduled,
    RunFinished,
    RunStarted,
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


def play(view: View, result: RunResult, speed: float) -> None:
    """Plays a run in a live view `speed` times as fast as recorded; other views show the result."""
    rest = time_events(result)[::-1] if view.is_live else []
    began = time.monotonic()
    try:
        while rest:
            while (left := rest[-1][0] / speed - (time.monotonic() - began)) > 0:
                time.sleep(min(left, PUMP))
                view.tick()
            view.event(rest.pop()[1])
            view.tick()
    except KeyboardInterrupt:
        while rest:  # a run that has not ended would go on counting seconds
            view.event(rest.pop()[1])
        raise interrupted("the replay was stopped") from None
    finally:
        view.finish(result)


def time_events(result: RunResult) -> list[tuple[float, Event]]:
    """Returns a finished run's events in order, each with its seconds since the first event."""
    runs, laps = {run.id: run for run in result.walk()}, _list_laps(result)
    timed: list[tuple[float, Event]] = []
    latest = defaultdict[str, float](float)
    """Run id → time of the run's latest event."""
    turns, answered = dict[str, int](), dict[str, float]()
    calls: dict[tuple[str, str], int] = {}
    called: dict[tuple[str, str], float] = {}

    def add(at: float, event: Event) -> None:
        latest[event.run] = max(latest[event.run], at)
        timed.append((at, event))

    def begin(run: str, turn: int, call: int, least: float) -> float:
        return max(least, min((lap.began for lap in laps[run, turn, call]), default=0.0))

    def end(run: str, turn: int, call: int, least: float) -> float:
        return max([least, *(lap.ended for lap in laps[run, turn, call])])

    def begin_turn(event: TurnStarted) -> None:
        id, turn = event.run, event.turn
        add(begin(id, turn, 0, latest[id]), event)
        failed = [one.error for one in runs[id].exchanges if one.turn == turn and one.error]
        waits = [lap for lap in laps[id, turn, 0] if lap.kind == "retry"]
        for attempt, (error, lap) in enumerate(zip(failed, waits, strict=False), 2):
            reason, seconds = str(error.status or error.category), lap.ended - lap.began
            retry = RetryScheduled(id, turn, attempt, seconds, reason, error.message)
            add(max(latest[id], lap.began), retry)

    for event in events_of(result):
        id = event.run
        turn = turns.get(id, 0)
        match event:
            case RunStarted(parent=parent, call_id=call_id):
                add(begin(id, 0, 0, called.get((parent, call_id), 0.0)), event)
            case TurnStarted(turn=turn):
                turns[id] = turn
                begin_turn(event)
            case TurnFinished():
                calls |= {(id, call.id): n for n, call in enumerate(event.calls, 1)}
                answered[id] = end(id, turn, 0, latest[id])
                add(answered[id], event)
            case ToolStarted(call=call):
                number = calls.get((id, call.id), 0)
                called[id, call.id] = begin(id, turn, number, answered.get(id, 0.0))
                add(called[id, call.id], event)
                timed += _list_waits(id, call.id, laps[id, turn, number])
            case ToolFinished(result=told):
                place = id, told.call_id
                below = [latest[c.id] for c in runs[id].children if c.call_id == told.call_id]
                at = max([called.get(place, 0.0), *below])
                add(end(id, turn, calls.get(place, 0), at), event)
            case RunFinished():
                last = event.result.exchanges[-1].turn if event.result.exchanges else 0
                if last > turn:  # without a response, a turn is in no log
                    begin_turn(TurnStarted(id, last, 0, 0))
                add(end(id, 0, 0, latest[id]), event)
    timed.sort(key=lambda one: one[0])
    return [(at - timed[0][0], event) for at, event in timed]


def _list_waits(run: str, call: str, laps: Iterable[Lap]) -> Iterator[tuple[float, Event]]:
    for lap in laps:
        if lap.kind == "person":  # what was asked is not recorded
            yield lap.began, PersonAsked(run, call)
            yield lap.ended, PersonAnswered(run, call, "")


def _list_laps(result: RunResult) -> dict[tuple[str, int, int], list[Lap]]:
    """Returns (run, turn, call) → times. Call 0 is the request; call 0 of turn 0 is the run."""
    laps = defaultdict[tuple[str, int, int], list[Lap]](list)
    for run in result.walk():
        for lap in run.times:
            # later times can only be those of a damaged file
            if 0 <= lap.began <= lap.ended <= 1e6:
                laps[run.id, lap.turn, lap.call].append(lap)
    return laps
