"""The segments of a live bar: the model, tools, and waits before retries or for the person. Pure.

Source: design README "Second generation" (a real timeline while running).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from axe_nb.views.tree import CallNode, Node, Pause, Times, TreeNode, TurnNode

MODEL, TOOL, RETRY, PERSON = range(4)
"""Kinds of segments, in the order of `cell_display/static/live.js`."""

MOST = 60
"""Segments of one bar; of a longer run, the latest are drawn."""

Segment: TypeAlias = tuple[int, float, float | None]
"""Kind, start and end in seconds; None = it has not ended."""


def segments_of(thing: TreeNode) -> list[Segment]:
    """The parts of a run's or a turn's time, in the order of their start."""
    if isinstance(thing, CallNode):
        if thing.child is None:
            return _join(list(_split(TOOL, thing.times, thing.pauses)))
        thing = thing.child
    turns = thing.turns[-MOST:] if isinstance(thing, Node) else [thing]
    found = [segment for turn in turns for segment in _list_turn(turn)]
    return _join(sorted(found, key=lambda segment: segment[1]))[-MOST:]


def _list_turn(turn: TurnNode) -> Iterator[Segment]:
    yield from _split(MODEL, turn.times, turn.pauses)
    for call in turn.calls:
        yield from _split(TOOL, call.times, call.pauses)


def _split(kind: int, times: Times, pauses: list[Pause]) -> Iterator[Segment]:
    """The time of a request or a call, with its waits."""
    at = times.started
    for pause in pauses:
        yield from _segment(kind, at, pause.started)
        yield from _segment(PERSON if pause.for_person else RETRY, pause.started, pause.ended)
        if pause.ended is None:
            return
        at = pause.ended
    yield from _segment(kind, at, times.ended)


def _segment(kind: int, start: float | None, end: float | None) -> Iterator[Segment]:
    if start is not None and (end is None or end > start):
        yield kind, round(start, 2), None if end is None else round(end, 2)


def _join(segments: list[Segment]) -> list[Segment]:
    """Segments of one kind that overlap, as one: calls at once."""
    joined: list[Segment] = []
    for kind, start, end in segments:
        last_kind, first, last = joined[-1] if joined else (None, 0.0, 0.0)
        if kind != last_kind or (last is not None and start > last):
            joined.append((kind, start, end))
        elif last is not None:
            joined[-1] = kind, first, None if end is None else max(end, last)
    return joined
