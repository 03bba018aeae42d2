"""A row of the live tree: that of the saved one, with a clock and a bar in seconds. Pure.

It is fragments of HTML, which `cell_display/static/live.js` puts in place. The bar has segments for
the model, tools, and waits before retries or for the person; where it is still growing, it ends at
the time `--now` of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from axe_nb.views.appearance import SEGMENTS, TRACK, gradient
from axe_nb.views.html import BAR, Drawing, format_head, format_line, format_question
from axe_nb.views.rows import Block, Outline, Row, make_row, progress_of, question_of
from axe_nb.views.tree import CallNode, Node, Pause, Times, TreeNode, TurnNode, parent_row

MAX_SEGMENTS = 60
"""Segments of one bar; of a longer run, the latest are drawn."""

MAX_WHOLE = 20_000
"""Characters of a text that can be copied."""

SHORTEST, LEAP = 4.0, 1.5
"""Seconds that the bars span at first, and the factor by which they span more: by leaps, so that
bars stand still in between."""

TICKS, WIDEST = 4, 22
"""Parts of the axis, of which fewer are named where names are long; characters that are as wide."""

Segment: TypeAlias = tuple[str, float, float | None]
"""Use of the time, start and end in seconds; None = it has not ended."""


def draw_row(
    thing: TreeNode, outline: Outline, drawing: Drawing, column: int, keep: Callable[[str], int]
) -> dict[str, Any]:
    """The fields of a row, by which the page draws it.

    Args:
        column: width of its name, as `find_column` returns it.
        keep: keeps a text that the row cuts, and returns its number.
    """
    row, above = make_row(thing), parent_row(thing)
    clock = _draw_clock(_find_times(thing))
    if above is None:
        assert isinstance(thing, Node)
        line, about = format_head(thing, row, clock), row.asked
        name = f"{row.state} {row.who}"
    else:
        line, about = format_line(row, column, _draw_bar(thing, row), clock), row.cost
        name = " ".join(filter(None, (row.state, row.who, row.asked)))
    before, after = outline.blocks(thing)
    asked = question_of(thing)
    return {
        "above": above.key if above else "",
        "look": f"axe-nb-{row.kind} axe-nb-{row.look.tone}",
        "open": row.kind == "turn" or above is None,
        "line": line,
        "name": name,
        "about": about,
        "before": [_draw_text(block, drawing, keep) for block in before],
        "question": format_question(asked) if asked else "",
        "after": [_draw_text(block, drawing, keep) for block in after],
    }


def draw_progress(root: Node) -> str:
    """The bar below the head: the sub-agents by their states."""
    parts = (f"<i class=axe-nb-{tone} style=flex-grow:{n}></i>" for tone, n in progress_of(root))
    return "".join(parts)


def find_span(now: float) -> float:
    """The seconds that all bars span."""
    span = SHORTEST
    while span < now:
        span *= LEAP
    return round(span, 2)


def draw_axis(span: float) -> str:
    """The axis above the bars."""
    unit, size = ("s", 1) if span < 60 else ("min", 60)
    parts = TICKS
    while parts > 1:
        names = [f"{round(span * n / parts / size, 1):g}" for n in range(parts + 1)]
        # the last name ends at its tick, the others stand around theirs
        if len(f"{names[-1]} {unit} ") + len(names[-2]) / 2 <= WIDEST / parts:
            break
        parts //= 2
    names = [f"{round(span * n / parts / size, 1):g}" for n in range(parts + 1)]
    names[-1] += f" {unit}"
    return "".join(
        f"<small style=left:{100 * n / parts:g}%>{name}</small>" for n, name in enumerate(names)
    )


def _draw_text(block: Block, drawing: Drawing, keep: Callable[[str], int]) -> str:
    """A text with a button that copies it: all of it, as far as the page was told."""
    whole = block.whole or (block.text if block.links else "")
    data = f" data-whole={keep(whole[:MAX_WHOLE])}" if whole else ""
    if len(whole) > MAX_WHOLE:
        data += f" data-words='copied the first {MAX_WHOLE:,} characters'"
    hidden = "" if block.text else " hidden"
    return (
        f"<div class=axe-nb-text>{drawing.block(block)}<button type=button class=axe-nb-copy "
        f"tabindex=-1 aria-label='Copy text'{data}{hidden}></button></div>"
    )


def _find_times(thing: TreeNode) -> Times:
    child = thing.child if isinstance(thing, CallNode) else None
    return child.times if child else thing.times


def _draw_clock(times: Times) -> str:
    """The element of a row's seconds, which the page writes; a row that has not begun has none."""
    if times.started is None:
        return "<time></time>"
    end = "" if times.ended is None else f" data-to={times.ended:.2f}"
    return f"<time data-from={times.started:.2f}{end}></time>"


def _draw_bar(thing: TreeNode, row: Row) -> str:
    segments, times = list_segments(thing), _find_times(thing)
    if not segments and times.started is not None:
        parts = [(TRACK, _place(times.started)), (row.look.colour, _place_end(times.ended))]
    else:
        parts = [
            part
            for kind, start, end in segments
            for part in ((TRACK, _place(start)), (SEGMENTS[kind], _place_end(end)))
        ]
    return f"<i style='{BAR};background:{gradient([*parts, (TRACK, '100%')])}'></i>"


def _place(seconds: float, more: str = "") -> str:
    return f"calc(100%*{seconds:.2f}/var(--span){more})"


def _place_end(seconds: float | None) -> str:
    """The place of an end, after which even a moment can be seen; None = now."""
    if seconds is None:
        return "calc(100%*var(--now,0)/var(--span) + 2px)"
    return _place(seconds, " + 2px")


def list_segments(thing: TreeNode) -> list[Segment]:
    """The parts of a row's time, in the order of their start."""
    if isinstance(thing, CallNode):
        if thing.child is None:
            return _join(list(_split("tool", thing.times, thing.pauses)))
        thing = thing.child
    turns = thing.turns[-MAX_SEGMENTS:] if isinstance(thing, Node) else [thing]
    found = [segment for turn in turns for segment in _list_turn(turn)]
    return _join(sorted(found, key=lambda segment: segment[1]))[-MAX_SEGMENTS:]


def _list_turn(turn: TurnNode) -> Iterator[Segment]:
    yield from _split("model", turn.times, turn.pauses)
    for call in turn.calls:
        yield from _split("tool", call.times, call.pauses)


def _split(kind: str, times: Times, pauses: list[Pause]) -> Iterator[Segment]:
    """The time of a request or a call, with its waits."""
    at = times.started
    for pause in pauses:
        yield from _segment(kind, at, pause.started)
        yield from _segment("person" if pause.for_person else "retry", pause.started, pause.ended)
        if pause.ended is None:
            return
        at = pause.ended
    yield from _segment(kind, at, times.ended)


def _segment(kind: str, start: float | None, end: float | None) -> Iterator[Segment]:
    if start is not None and (end is None or end > start):
        yield kind, start, end


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
