"""The timeline of a finished run: a row for each run, turn and call, with its seconds. Pure.

It is the one view of a finished run that is not the same twice; the static twin has steps.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from axe_nb.messages.exchanges import Lap, LapKind
from axe_nb.results import RunResult
from axe_nb.text import count_columns, one_line, plural
from axe_nb.views.appearance import (
    GAP,
    LINE,
    LINE_HEIGHT,
    MUTED,
    PLAYED_TIME,
    SEGMENTS,
    SWATCH,
    TRACK,
    gradient,
)
from axe_nb.views.html import PLAIN, safe
from axe_nb.views.rows import Row, make_row
from axe_nb.views.transcript import Transcript
from axe_nb.views.tree import CallNode, Node, TreeNode, nodes_below

MOST = 300
"""Rows that are drawn: those nearest to the root."""

CELLS, COLUMNS, TICKS = 200, 48, 5
"""Parts of a bar, in HTML and in text; most parts of the axis."""

DEEPEST = 12
"""Deeper rows are not indented further, so that their names stay in sight."""

LABEL = 52
"""Columns of a row's name and task in text."""

MOST_LAPS = 20_000
"""Times of one run that are read; only a file that someone else made has more."""

LATEST = 1e9
"""No run ends so many seconds after its beginning."""

WORDS: Mapping[LapKind, str] = {
    "model": "model", "replay": "recorded", "tool": "tool", "retry": "waits for a retry",
    "person": "waits for you",
}  # fmt: skip
"""Kinds of time, in the order in which a later one covers an earlier one."""

SIGNS: Mapping[LapKind, str] = {
    "model": "=",
    "replay": "-",
    "tool": "#",
    "retry": "~",
    "person": "?",
}

COLOURS: Mapping[LapKind, str] = {**SEGMENTS, "replay": PLAYED_TIME}  # type: ignore[dict-item]

LAYERS: Sequence[LapKind] = ("run", *WORDS)

NONE = "no times were recorded for this run"

PLAYED = "recorded answers: their time is that of the replay, not of the model"

KEPT = "forked"
"""Stands for the time of what a fork took from the run that it forks."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One row."""

    depth: int
    row: Row
    laps: Sequence[Lap] = ()
    seconds: float | None = None
    """Seconds that it took; None if unknown."""
    note: str = ""
    left_out: int = 0
    """Rows below it that are not drawn."""

    @property
    def indent(self) -> int:
        return min(self.depth, DEEPEST)

    @property
    def took(self) -> str:
        return _format(self.seconds) if self.seconds is not None else self.note


@dataclass(frozen=True, slots=True)
class Timeline:
    """The time of a finished run and of all runs below it; a notebook shows it with bars.

    It may also be a run below another one, with the seconds of its own.
    """

    result: RunResult = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(_format_text(_Times(self.result)))

    def __repr__(self) -> str:
        return f"Timeline({_Times(self.result).summary})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        times = _Times(self.result)
        return {"text/html": _format_html(times), "text/plain": "\n".join(_format_text(times))}


class _Times:
    """The rows of a run, and their axis."""

    def __init__(self, result: RunResult) -> None:
        root = Transcript.of(result).whole
        self.laps = Laps(result)
        whole = self.laps.whole
        self.start, self.end = (whole.began, whole.ended) if whole else (0.0, 0.0)
        self.is_known = whole is not None
        self.lines = list(self._list_lines(root))
        self.kinds = [kind for kind in WORDS if kind in self.laps.kinds]
        self.is_played = "replay" in self.kinds

    @property
    def span(self) -> float:
        return max(self.end - self.start, 0.001)

    @property
    def summary(self) -> str:
        row = self.lines[0].row
        took = _format(self.end - self.start) if self.is_known else NONE
        return f"{row.who}, {row.state}, {took}"

    @property
    def ticks(self) -> list[float]:
        """Round numbers of seconds along the axis, from 0."""
        size = 10.0 ** math.floor(math.log10(self.span / TICKS))
        step = next(size * by for by in (1, 2, 5, 10) if self.span / (size * by) <= TICKS)
        return [step * number for number in range(math.ceil(self.span / step))]

    def _list_lines(self, root: Node) -> Iterator[_Line]:
        """The rows nearest to the root, in reading order."""
        below, shown = dict[int, list[TreeNode]](), 1
        waiting = deque[TreeNode]([root])
        while waiting and shown < MOST:
            thing = waiting.popleft()
            inner = nodes_below(thing)[: MOST - shown]
            below[id(thing)] = inner
            waiting += inner
            shown += len(inner)
        yield from self._walk(root, below, 0, is_kept=False)

    def _walk(
        self, thing: TreeNode, below: Mapping[int, list[TreeNode]], depth: int, *, is_kept: bool
    ) -> Iterator[_Line]:
        is_kept = is_kept or self.laps.is_kept(thing)
        inner = below.get(id(thing), [])
        line = self._make_line(thing, depth, len(nodes_below(thing)) - len(inner), is_kept)
        yield line
        for one in inner:
            yield from self._walk(one, below, depth + 1, is_kept=is_kept)

    def _make_line(self, thing: TreeNode, depth: int, left_out: int, is_kept: bool) -> _Line:
        row = make_row(thing)
        if is_kept:
            return _Line(depth, row, note=KEPT, left_out=left_out)
        laps = self.laps.of(thing)
        if not laps:
            return _Line(depth, row, left_out=left_out)
        began, ended = min(lap.began for lap in laps), max(lap.ended for lap in laps)
        parts = sorted(laps, key=lambda lap: LAYERS.index(lap.kind))
        return _Line(depth, row, parts, ended - began, left_out=left_out)

    def cells(self, line: _Line, width: int) -> list[LapKind | None]:
        """The kinds of time of a row, in equal parts of the axis; None = no time of its own."""
        cells: list[LapKind | None] = [None] * width
        for lap in line.laps:
            if lap.kind == "run" or lap.ended < self.start or lap.began > self.end:
                continue
            first = max(0, min(int((lap.began - self.start) / self.span * width), width - 1))
            last = round((lap.ended - self.start) / self.span * width)
            last = max(first + 1, min(last, width))
            cells[first:last] = [lap.kind] * (last - first)
        return cells


class Laps:
    """The times of a run and of all runs below it, without those that no clock gives.

    A file may hold any numbers, also infinite ones and such as are none (NaN).
    """

    def __init__(self, result: RunResult) -> None:
        self._of_run = defaultdict[str, list[Lap]](list)
        self._of_step = defaultdict[tuple[str, int, int], list[Lap]](list)
        """(run, turn, call) → times; no call = the request, no turn either = those of the run."""
        for run in result.walk():
            for lap in run.times[:MOST_LAPS]:
                if 0 <= lap.began <= lap.ended <= LATEST:
                    self._of_run[run.id].append(lap)
                    self._of_step[run.id, lap.turn, lap.call].append(lap)
        self.whole = next((lap for lap in self._of_run[result.id] if lap.kind == "run"), None)
        """The time of the run itself; None = it is not known."""
        self.kinds = {lap.kind for laps in self._of_run.values() for lap in laps}

    def of(self, thing: TreeNode) -> Sequence[Lap]:
        """The times that a row is about, and those of what it has no rows of their own for."""
        if isinstance(thing, Node):
            return self._of_run[thing.id]
        if isinstance(thing, CallNode):
            child = self._of_run[thing.child.id] if thing.child else []
            return child or self._find_own(thing)
        own = [*self._of_step[thing.run.id, thing.number, 0]]
        asked = next((lap for lap in own if lap.kind in ("model", "replay")), None)
        if asked:
            waits = (lap for lap in self._of_step[thing.run.id, 0, 0] if lap.kind == "person")
            own += (lap for lap in waits if asked.began <= lap.began <= asked.ended)
        return own + [lap for call in thing.calls for lap in self._find_own(call)]

    def is_kept(self, thing: TreeNode) -> bool:
        """True for a call that a fork has not made again: it has a result, and took no time."""
        if not isinstance(thing, CallNode) or thing.result is None or not thing.children:
            return False
        return bool(self._of_run[thing.turn.run.id]) and not self._find_own(thing)

    def _find_own(self, call: CallNode) -> list[Lap]:
        return self._of_step[call.turn.run.id, call.turn.number, call.index + 1]


def _format(seconds: float) -> str:
    if seconds >= 60:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{seconds:.3f} s" if seconds < 0.1 else f"{seconds:.2f} s"


def _format_tick(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:.3g} min"


def _format_text(times: _Times) -> Iterator[str]:
    root = times.lines[0].row
    if not times.is_known:
        yield f"{root.look.sign} {times.summary}"
        return
    yield f"{root.look.sign} {' · '.join(filter(None, (root.who, root.asked)))}"
    yield "  ".join(f"{SIGNS[kind]} {WORDS[kind]}" for kind in times.kinds)
    yield from [PLAYED] * times.is_played
    yield f"{'':{LABEL + 12}}{_format_axis(times)}".rstrip()
    for line in times.lines:
        label = f"{'  ' * line.indent}{line.row.look.sign} {line.row.who}"
        if line.depth:
            label = one_line(label + f" · {line.row.asked}", LABEL) if line.row.asked else label
            label = "  " * line.indent + label.strip()
        label = label[:LABEL]
        blank = " " * max(0, LABEL - count_columns(label))
        bar = "".join(SIGNS[cell] if cell else "." for cell in times.cells(line, COLUMNS))
        bar = bar if line.laps else ""
        yield f"{label}{blank} {line.took:>10} {bar}".rstrip()
        if line.left_out:
            yield f"{'  ' * (line.indent + 1)}… {plural(line.left_out, 'more row')}"


def _format_axis(times: _Times) -> str:
    axis = ""
    for tick in times.ticks:
        at = int(tick / times.span * COLUMNS)
        if len(axis) <= at:
            axis = f"{axis:{at}}|{_format_tick(tick)} "
    return axis


BAR = "flex:0 0 40%;max-width:calc(100% - 24em);height:.6em;margin:auto 0"
"""As wide in every row, so that all are on one axis; where there is little room, it goes first."""

TEXTS = f"flex:1 1 0;min-width:0;display:flex;gap:{GAP}"

TASK = "flex:1 1 8em;min-width:6em;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"

WHO = (
    "flex:0 1 12em;box-sizing:border-box;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
)

TOOK = "flex:0 0 6em;overflow:hidden;text-align:right;white-space:nowrap"

ROW = f"display:flex;gap:{GAP};line-height:{LINE_HEIGHT}"


def _format_html(times: _Times) -> str:
    first = times.lines[0]
    sign = f"<b style=color:{first.row.look.colour}>{first.row.look.sign}</b>"
    head = f"<div>{sign} <b>{safe(first.row.who)}</b> {safe(first.row.asked)}</div>"
    if not times.is_known:
        return f"<div class='{PLAIN}'>{head}<div>{NONE}</div></div>"
    legend = " ".join(
        f"<span style=color:{COLOURS[kind]}>{SWATCH}</span> <small>{WORDS[kind]}</small>"
        for kind in times.kinds
    )
    note = f"<div><small>{PLAYED}</small></div>" if times.is_played else ""
    rows = "".join(_format_row(times, line) for line in times.lines)
    return f"<div class='{PLAIN}'>{head}<div>{legend}</div>{note}{_draw_axis(times)}{rows}</div>"


def _draw_axis(times: _Times) -> str:
    ticks = [*times.ticks, times.span]
    parts = "".join(
        f"<small style='flex:0 0 {100 * (after - tick) / times.span:.2f}%;overflow:hidden;"
        f"box-sizing:border-box;border-left:1px solid {LINE};padding-left:2px;opacity:{MUTED};"
        f"white-space:nowrap'>{_format_tick(tick)}</small>"
        for tick, after in pairwise(ticks)
    )
    axis = f"<div style='{BAR};height:auto;display:flex;overflow:hidden'>{parts}</div>"
    return f"<div style='{ROW}'><span style='flex:1'></span>{axis}</div>"


def _format_row(times: _Times, line: _Line) -> str:
    row = line.row
    asked = row.asked if line.depth else ""
    bar = f"<i style='{BAR};background:{_draw(times.cells(line, CELLS))}'></i>"
    more = f"… {plural(line.left_out, 'more row')}" if line.left_out else ""
    rest = f"<div style=padding-left:{line.indent + 1}em>{more}</div>" if more else ""
    return (
        f"<div style='{ROW}'><div style='{TEXTS}'><span style='{WHO};padding-left:{line.indent}em'>"
        f"<b style=color:{row.look.colour}>{row.look.sign}</b> <b>{safe(row.who)}</b></span> "
        f"<bdi style='{TASK}'>{safe(asked)}</bdi></div> "
        f"<small style='{TOOK}'>{safe(line.took)}</small> {bar}</div>{rest}"
    )


def _draw(cells: Sequence[LapKind | None]) -> str:
    """A bar as a gradient, with a stop for each part that is not like the one before it."""
    parts, at = list[tuple[str, str]](), 0
    for kind, part in groupby(cells):
        at += len(list(part))
        parts.append((COLOURS[kind] if kind else TRACK, f"{100 * at / len(cells):g}%"))
    # without trust, JupyterLab drops a gradient of one stop
    return gradient(parts if parts[1:] else parts * 2)
