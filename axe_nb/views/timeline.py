"""The timeline of a finished run: one row per run, turn and call, with its duration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any

from axe_nb.messages.exchanges import Lap
from axe_nb.results import RunResult
from axe_nb.text import align_columns, one_line, plural
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
from axe_nb.views.html import PLAIN, format_sign, safe
from axe_nb.views.rows import Row, join_facts, list_calls, make_row
from axe_nb.views.transcript import CallNode, Node, Transcript, TreeNode, nodes_below

MOST = 300
"""Maximum number of rows drawn; further rows are only counted."""

CELLS = 200
"""Number of cells in a bar; each cell has one colour."""

WORDS: Mapping[str, str] = {
    "model": "model", "replay": "recorded", "sub": "its sub-agents", "tool": "tool",
    "retry": "waits for a retry", "person": "waits for you",
}  # fmt: skip
"""Kind of time in a bar → its label. Later kinds are painted over earlier ones."""

COLOURS = {**SEGMENTS, "replay": PLAYED_TIME, "hatched": "#d334"}

NONE = "no times were recorded for this run"

PLAYED = "recorded answers: their time is that of the replay, not of the model"

BAR = "flex:0 0 40%;max-width:calc(100% - 24em);height:.6em;margin:auto 0"
"""Style of a bar. All bars are equally wide, to share an axis, and shrink before texts do."""

CUT = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"

ROW = f"display:flex;gap:{GAP};line-height:{LINE_HEIGHT}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline of a finished run tree, displayed with bars in a notebook."""

    result: RunResult = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(_Times(self.result).format_text())

    def __repr__(self) -> str:
        times = _Times(self.result)
        row = make_row(times.root)
        took = _format(times.end - times.start) if times.laps else NONE
        return f"Timeline({row.who}, {row.state}, {took})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        times = _Times(self.result)
        return {"text/html": times.format_html(), "text/plain": "\n".join(times.format_text())}


class _Times:
    """The recorded times of a run tree, without impossible values such as NaN."""

    def __init__(self, result: RunResult) -> None:
        self.root = Transcript.of(result).whole
        self._of_run = defaultdict[str, list[Lap]](list)
        self._of_step = defaultdict[tuple[str, int, int], list[Lap]](list)
        """Times by (run, turn, call); call 0 is the request, and turn 0 is the run itself."""
        delegated = {
            (call.turn.run.id, call.turn.number, call.index + 1)
            for call in list_calls(self.root)
            if call.children or call.call.traits.delegates
        }
        for run in result.walk():
            for lap in run.times:
                if 0 <= lap.began <= lap.ended <= 1e9:
                    if lap.kind == "tool" and (run.id, lap.turn, lap.call) in delegated:
                        lap = replace(lap, kind="sub")  # type: ignore[arg-type]
                    self._of_run[run.id].append(lap)
                    self._of_step[run.id, lap.turn, lap.call].append(lap)
        # runs that a fork took from its recording have the times of another run
        kept = {
            run.id
            for call in list_calls(self.root)
            if call.children and self._of_run[call.turn.run.id] and not self._find_own(call)
            for child in call.children
            for run in (child, *child.below())
        }
        for key in [key for key in self._of_step if key[0] in kept]:
            del self._of_step[key]
        for id in kept:
            self._of_run.pop(id, None)
        whole = next((lap for lap in self._of_run[result.id] if lap.kind == "run"), None)
        self.start, self.end = (whole.began, whole.ended) if whole else (0.0, 0.0)
        self.laps = [lap for laps in self._of_run.values() for lap in laps] if whole else []
        """All times; empty if the run's own time is unknown."""
        seen = {lap.kind for lap in self.laps}
        self.kinds = [kind for kind in WORDS if kind in seen]
        left = sum(1 for _ in _walk(self.root)) - MOST
        more = f"… {plural(left, 'more row')}; %axe time also takes a sub-agent's result"
        self.more = more if left > 0 else ""

    def format_text(self) -> Iterator[str]:
        row = make_row(self.root)
        yield join_facts(f"{row.look.sign} {row.who}", row.asked)
        if not self.laps:
            yield NONE
            return
        yield from [PLAYED] * ("replay" in self.kinds)
        table = [("", "from", "took", "of it")]
        for depth, inner, laps in self._list_rows():
            words = join_facts(inner.who, inner.asked if depth else "")
            label = "  " * depth + one_line(f"{inner.look.sign} {words}", 52)
            began = min((lap.began for lap in laps), default=self.start) - self.start
            sums = {k: sum(p.ended - p.began for p in laps if p.kind == k) for k in WORDS}
            # waits are within the time of what waits
            sums["model"] -= sums["retry"]
            sums["tool"] -= sum(p.ended - p.began for p in laps if p.kind == "person" and p.call)
            parts = ", ".join(f"{WORDS[k]} {_format(took)}" for k, took in sums.items() if took > 0)
            table.append((label, _format(began) if laps else "", _measure(laps), parts))
        yield from align_columns(table)
        if self.more:
            yield self.more

    def format_html(self) -> str:
        row = make_row(self.root)
        head = f"<div>{format_sign(row)} <b>{safe(row.who)}</b> {safe(row.asked)}</div>"
        if not self.laps:
            return f"<div class='{PLAIN}'>{head}<div>{NONE}</div></div>"
        legend = " ".join(
            f"<span style=color:{COLOURS[kind]}>{SWATCH}</span> <small>{WORDS[kind]}</small>"
            for kind in self.kinds
        )
        note = f"<div><small>{PLAYED}</small></div>" if "replay" in self.kinds else ""
        ticks = "".join(
            f"<small style='flex:1;border-left:1px solid {LINE};padding-left:2px;opacity:{MUTED}'>"
            f"{_format((self.end - self.start) * n / 4)}</small>"
            for n in range(4)
        )
        axis = f"<div style='{BAR};height:auto;display:flex;{CUT}'>{ticks}</div>"
        rows = [self._format_row(*row) for row in self._list_rows()]
        # many rows scroll below the axis, which stays in view
        box = ";max-height:40em;overflow-y:auto;scrollbar-gutter:stable" if rows[25:] else ""
        return (
            f"<div class='{PLAIN}'>{head}<div>{legend}</div>{note}"
            f"<div style='{ROW}{box}'><span style='flex:1'></span>{axis}</div>"
            f"<div style='{box[1:]}'>{''.join(rows)}<div>{self.more}</div></div></div>"
        )

    def _format_row(self, depth: int, row: Row, laps: Sequence[Lap]) -> str:
        cells: list[str | None] = [None] * CELLS
        span = max(self.end - self.start, 0.001)
        for kind in WORDS:
            for lap in laps:
                if lap.kind == kind and lap.ended >= self.start and lap.began <= self.end:
                    first = min(int((lap.began - self.start) / span * CELLS), CELLS - 1)
                    last = min(round((lap.ended - self.start) / span * CELLS), CELLS)
                    cells[max(0, first) : last] = [kind] * max(0, last - max(0, first))
                    cells[max(0, first)] = kind  # even the shortest time is visible
        parts, at = list[tuple[str, str]](), 0
        began = min((lap.began for lap in laps), default=self.end) - self.start
        ended = max((lap.ended for lap in laps), default=self.end) - self.start
        times = f" data-from={began:.3f} data-to={ended:.3f}"
        hatch = ("hatched" if cell == "retry" and n % 2 else cell for n, cell in enumerate(cells))
        for painted, some in groupby(hatch):
            at += len(list(some))
            parts.append((COLOURS[painted] if painted else TRACK, f"{100 * at / CELLS:g}%"))
        # in untrusted notebooks, JupyterLab drops gradients with a single stop
        bar = gradient(parts if parts[1:] else parts * 2)
        return (
            f"<div{times} style='{ROW}'><span style='flex:0 1 12em;padding-left:{depth}em;{CUT}'>"
            f"{format_sign(row)} <b>{safe(row.who)}</b></span> "
            f"<bdi style='flex:1 1 8em;min-width:6em;{CUT}'>{safe(row.asked if depth else '')}"
            f"</bdi> <small style='flex:0 0 6em;text-align:right;{CUT}'>{_measure(laps)}</small> "
            f"<i style='{BAR};background:{bar}'></i></div>"
        )

    def _list_rows(self) -> Iterator[tuple[int, Row, Sequence[Lap]]]:
        for depth, thing in islice(_walk(self.root), MOST):
            yield depth, make_row(thing), self._find_laps(thing)

    def _find_laps(self, thing: TreeNode) -> Sequence[Lap]:
        """Returns the times of a row. A turn's times include its calls and waits for the user."""
        if isinstance(thing, Node):
            return self._of_run[thing.id]
        if isinstance(thing, CallNode):
            child = self._of_run[thing.child.id] if thing.child else []
            return child or self._find_own(thing)
        own = self._of_step[thing.run.id, thing.number, 0][:]
        asked = next((lap for lap in own if lap.kind in ("model", "replay")), None)
        if asked:
            waits = (lap for lap in self._of_step[thing.run.id, 0, 0] if lap.kind == "person")
            own += (lap for lap in waits if asked.began <= lap.began <= asked.ended)
        return own + [lap for call in thing.calls for lap in self._find_own(call)]

    def _find_own(self, call: CallNode) -> list[Lap]:
        return self._of_step[call.turn.run.id, call.turn.number, call.index + 1]


def _walk(thing: TreeNode, depth: int = 0) -> Iterator[tuple[int, TreeNode]]:
    yield min(depth, 12), thing  # so that deep names stay visible
    for inner in nodes_below(thing):
        yield from _walk(inner, depth + 1)


def _measure(laps: Sequence[Lap]) -> str:
    if not laps:
        return ""
    return _format(max(lap.ended for lap in laps) - min(lap.began for lap in laps))


def _format(seconds: float) -> str:
    if seconds >= 60:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{seconds:.3f} s" if 0 < seconds < 0.1 else f"{seconds:.2f} s"
