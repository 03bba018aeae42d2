"""Implements `a.diff(b)`: shows the differences between two run trees as HTML and text.

Secrets are removed before texts are compared word by word and cut. No run times are shown, so that
notebooks can be reproduced. The HTML has no scripts or style elements: even without
styles, `del` and `ins` show what changed. Plain text marks changes as `[-gone-]{+new+}`, like
`git diff --word-diff`. Source: D-60.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from typing import Any, Literal, NamedTuple

from axe_nb.errors import ConfigError
from axe_nb.results import RunResult
from axe_nb.secrets import find_filter
from axe_nb.text import (
    align_columns,
    clean,
    count_common,
    format_dollars,
    hide_in_tab,
    one_line,
    plural,
)
from axe_nb.views.appearance import COLOURS, GONE, LINE_HEIGHT, MUTED, NEW, SHADE, TEXT, TEXT_MARGIN
from axe_nb.views.compare_runs import Change, Pair, Part, RunComparison, find_path, list_changes
from axe_nb.views.html import LEVEL, PLAIN, safe
from axe_nb.views.rows import POINTER
from axe_nb.views.table import format_table

MAX_BLOCKS = 60
"""Maximum number of changes whose texts are shown."""

LEAST = 200
"""Minimum number of characters for each change, when many changes share 12,000 characters."""

CONTEXT = 60
"""Number of characters of unchanged text shown before and after a change."""

MAX_WORDS = 2_000
"""Maximum number of words compared where two texts differ. Longer parts are compared by line."""

_WORD = re.compile(
    # scripts without spaces: each character is a word
    r"[\u3040-\u30ff\u3400-\u9fff]|\d+[.,]\d+|[^\W\u3040-\u30ff\u3400-\u9fff]+|\n|[^\S\n]+|[^\w\s]"
)

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

SAME, DIFFERS = "=", "≠"

SECONDS = "seconds"
"""Key of the duration in a run's figures; no other figure differs between equal runs."""

TAGS = {"gone": ("del", GONE), "new": ("ins", NEW)}
"""Kind of changed text → HTML element and background colour."""

MARKS = {"same": "{}", "gone": "[-{}-]", "new": "{{+{}+}}"}


def _format_figure(name: str, number: float | None) -> str:
    if number is None:
        return "unknown"
    if name == "cost":
        return format_dollars(number)
    return f"{number:,.0f}"


def _measure(run: RunResult) -> dict[str, float | None]:
    """Returns a run tree's figures, keyed by name; the cost is in US dollars."""
    runs, usage = list(run.walk()), run.total_usage
    return {
        "turns": sum(one.turns for one in runs),
        "tool calls": sum(one.tool_calls for one in runs),
        "sub-agents": len(runs) - 1,
        "retries": sum(one.retries for one in runs),
        "input tokens": usage.input_tokens,
        "output tokens": usage.output_tokens,
        "cached tokens": usage.cached_tokens,
        "cost": run.total_cost,
        SECONDS: run.duration_ms / 1000,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """The differences between two run trees, displayed as a tree in a notebook."""

    pair: Pair = field(repr=False)
    """The two runs, with their turns, calls and child runs paired."""
    changes: tuple[Change, ...]
    """All changes in reading order: request and task, turns with calls and child runs, outcome."""
    same_path: bool
    """True if the same agents called the same tools in the same order, whatever the texts."""
    figures: Mapping[str, tuple[float | None, float | None]] = field(repr=False)
    """Figures of both trees, keyed by names such as `turns` and `cost`; None if unknown."""
    names: tuple[str, str] = ("a", "b")

    __dir__ = hide_in_tab("names", "pair")

    @property
    def first(self) -> str | None:
        """Place of the first turn that differs, such as `0.2/3`; None if the runs are equal."""
        return next((change.place or change.other for change in self.changes), None)

    def __str__(self) -> str:
        return "\n".join(self._draw().lines)

    def __repr__(self) -> str:
        return f"RunDiff({self._summary})"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        drawn = self._draw()
        bundle = {"text/html": drawn.html, "text/plain": "\n".join(drawn.lines)}
        # seconds are only in the metadata, as they differ even between equal runs
        return bundle, {"axe_nb": {"seconds": list(self.figures[SECONDS])}}

    @property
    def _summary(self) -> str:
        if not self.changes:
            return "no differences"
        path = "same path" if self.same_path else "different path"
        first = _show(self.first or "")
        return f"{plural(len(self.changes), 'change')}, first at {first}, {path}"

    def _draw(self) -> _Drawn:
        drawing = _Drawing(self)
        who = _describe(self.pair)
        parts = [*drawing.draw_parts(self.pair)] if self.changes else []
        if (left := len(self.changes) - MAX_BLOCKS) > 0:
            parts.append(_draw_note(f"… {plural(left, 'more change')}: .changes[{MAX_BLOCKS}:]"))
        sign, colour = (DIFFERS, COLOURS["limit"]) if self.changes else (SAME, COLOURS["good"])
        figures = []
        for name, (a, b) in self.figures.items():
            if (a or b) and name != SECONDS:
                change = 0.0 if a is None or b is None else b - a
                moved = "+" if change > 0 else "−"
                moved = f"{moved}{_format_figure(name, abs(change))}" if change else ""
                cells = (_format_figure(name, number) for number in (a, b))
                figures.append((name, *cells, moved))
        names = [_show(name) for name in self.names]
        table = [("whole tree", *names, "change"), *figures] if figures else []
        html = (
            f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'>"
            f"<div><b style=color:{colour}>{sign}</b> <b>{safe(who)}</b> "
            f"<span style=opacity:{MUTED}>{safe(self._summary)}</span></div>"
        )
        if figures:
            hues = zip(names, (GONE, NEW), strict=True)
            heads = (f"<span style=background:{hue}>{safe(name)}</span>" for name, hue in hues)
            html += format_table(
                ("whole tree", *heads, "change"), (map(safe, row) for row in figures), right=3
            )
        lines = [f"{sign} {who}: {self._summary}"]
        lines += [f"  {line}" for line in align_columns(table, right=3)]
        lines += [""] if parts else []
        return _Drawn(
            f"{html}{''.join(part.html for part in parts)}</div>",
            [*lines, *(line.rstrip() for part in parts for line in part.lines)],
        )


def diff_runs(a: RunResult, b: RunResult, names: tuple[str, str] = ("a", "b")) -> RunDiff:
    """Compares two run trees. Raises ConfigError if an argument is not a RunResult."""
    for one in (a, b):
        if not isinstance(one, RunResult):
            raise ConfigError(
                f"diff compares two run results, not {type(one).__name__}",
                hint="use a.diff(b), where axe_nb.run or axe_nb.load returned both",
            )
    pair, numbers = RunComparison(a, b).compare(), _measure(b)
    return RunDiff(
        pair=pair, changes=tuple(list_changes(pair)), same_path=find_path(a) == find_path(b),
        figures={name: (number, numbers[name]) for name, number in _measure(a).items()},
        names=names,
    )  # fmt: skip


class Piece(NamedTuple):
    kind: Literal["same", "gone", "new"]
    text: str


def compare_texts(before: str, after: str) -> list[Piece]:
    """Splits two texts into common, removed and added pieces, in order."""
    a, b = _WORD.findall(before), _WORD.findall(after)
    start = count_common(a, b)
    end = count_common(a[start:][::-1], b[start:][::-1])
    old, new = a[start : len(a) - end], b[start : len(b) - end]
    if max(len(old), len(new)) > MAX_WORDS:
        old, new = _LINE.findall("".join(old)), _LINE.findall("".join(new))
    if max(len(old), len(new)) > MAX_WORDS:
        old, new = ["".join(old)], ["".join(new)]
    pieces = [Piece("same", "".join(a[:start]))]
    for kind, first, last, first_b, last_b in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(old[first:last])))
        else:
            pieces.append(Piece("gone", "".join(old[first:last])))
            pieces.append(Piece("new", "".join(new[first_b:last_b])))
    pieces.append(Piece("same", "".join(a[len(a) - end :])))
    return _join_pieces(pieces)


def _join_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """Merges changes that are separated only by a short common text, such as `the`."""
    joined = list[Piece]()
    for number, piece in enumerate(pieces):
        around = pieces[max(0, number - 2) : number], pieces[number + 1 : number + 3]
        size = min(max((len(p.text) for p in some), default=0) for some in around)
        if piece.kind == "same" and size and 2 * len(piece.text.strip()) <= size:
            joined += [piece._replace(kind="gone"), piece._replace(kind="new")]
        else:
            joined.append(piece)
    shown = list[Piece]()
    for _, some in groupby((p for p in joined if p.text), lambda p: p.kind == "same"):
        run = sorted(some, key=lambda piece: piece.kind)  # what is gone before what is new
        for kind, same_kind in groupby(run, lambda piece: piece.kind):
            shown.append(Piece(kind, "".join(piece.text for piece in same_kind)))
    return shown


def _shorten(pieces: Sequence[Piece], room: int) -> tuple[list[Piece], int]:
    """Returns pieces cut to about `room` characters, and the number of changed characters cut."""
    shown: list[Piece] = []
    left = 0
    for number, (kind, text) in enumerate(pieces):
        if room <= 0:
            left += len(text) if kind != "same" else 0
            continue
        if kind == "same":
            head = CONTEXT if number else 0
            tail = CONTEXT if number < len(pieces) - 1 else 0
            if len(text) > head + tail + CONTEXT:
                text = f"{text[:head]}…{text[len(text) - tail :]}"
        elif len(text) > (size := max(room // 2, LEAST // 2)) + POINTER:
            left += len(text) - size
            text = text[:size] + "…"
        shown.append(Piece(kind, text))
        room -= len(text)
    return shown, left


class _Drawn(NamedTuple):
    """A part of the differences, drawn as HTML and as lines of text."""

    html: str
    lines: Sequence[str]


class _Drawing:
    """Draws up to MAX_BLOCKS changes between two runs, and shortens their texts."""

    def __init__(self, diff: RunDiff) -> None:
        self._names = [_show(name) for name in diff.names]
        self._room = max(LEAST, min(2_000, 12_000 // max(1, len(diff.changes))))
        self._count = 0
        """Number of changes drawn so far, and so the index of the next change in `.changes`."""

    def draw_parts(self, pair: Pair) -> Iterator[_Drawn]:
        for is_same, parts in groupby(takewhile(self._is_shown, pair.parts), _is_same):
            if is_same:
                yield _draw_note(_describe_same([*parts]))
                continue
            for part in parts:
                yield from self._draw_part(part)

    def _is_shown(self, part: Part) -> bool:
        return self._count < MAX_BLOCKS or _is_same(part)

    def _draw_part(self, part: Part) -> Iterator[_Drawn]:
        """Draws a change, run or turn. A turn with changes only in its child runs has no row."""
        if isinstance(part, Change):
            yield self._draw_change(part)
        elif part.kind == "run":
            tokens = _join_sides(*(f"{number:,}" for number in part.tokens))
            facts = f"{_join_sides(*map(_show, part.places))} · {tokens} tokens"
            yield _draw_row(_describe(part), facts, [*self.draw_parts(part)])
        else:
            shown = (one for one in takewhile(self._is_shown, part.parts) if not _is_same(one))
            inner = [drawn for one in shown for drawn in self._draw_part(one)]
            if same := [one for one in part.parts if _is_same(one)]:
                inner.append(_draw_note(_describe_same(same)))
            if any(isinstance(one, Change) for one in part.parts):
                yield _draw_row(_describe(part), _join_sides(*map(_show, part.places)), inner)
            else:
                yield from inner

    def _draw_change(self, change: Change) -> _Drawn:
        label: str = change.kind
        if change.kind == "turn":
            label += f" {_show(change.place or change.other or '')}"
        if change.kind == "call":
            label += f" {change.call}"
        elif change.tool:
            label += f" of {_show(change.tool)} (call {change.call})"
        if change.before is None or change.after is None:
            label += f", only in {self._names[0 if change.after is None else 1]}"
        texts = (clean(find_filter().text(text or "")) for text in (change.before, change.after))
        pieces, left = _shorten(compare_texts(*texts), self._room)
        side = "after" if change.after else "before"
        rest = f"{plural(left, 'more character')}: .changes[{self._count}].{side}" if left else ""
        self._count += 1
        html = ""
        for kind, text in pieces:
            name, colour = TAGS.get(kind, ("", ""))
            shown = safe(text)
            html += f"<{name} style=background:{colour}>{shown}</{name}>" if name else shown
        plain = "".join(MARKS[piece.kind].format(piece.text) for piece in pieces)
        if sum(len(piece.text) for piece in pieces) <= 90 and "\n" not in plain:
            html = f" <code style=background:{SHADE};white-space:pre-wrap>{html}</code> "
            lines = [f"{label}: {plain}"]
        else:
            html = f"<pre style='{TEXT}'>{html}</pre>"
            lines = [f"{label}:", *(f"  {line}" for line in plain.split("\n"))]
        if rest:
            html += f"<small>… {safe(rest)}</small>"
            lines.append(f"  … {rest}")
        html = f"<small style=opacity:{MUTED}>{safe(label)}</small>{html}"
        return _Drawn(f"<div style=margin-left:{TEXT_MARGIN}>{html}</div>", lines)


def _draw_note(text: str) -> _Drawn:
    return _Drawn(f"<div style=opacity:{MUTED}>{safe(text)}</div>", [text])


def _draw_row(who: str, facts: str, parts: Sequence[_Drawn]) -> _Drawn:
    html = (
        f"<details open><summary><b style=color:{COLOURS['limit']}>{DIFFERS}</b> "
        f"<b>{safe(who)}</b> <small style=opacity:{MUTED}>{safe(facts)}</small></summary>"
        f"<blockquote style='{LEVEL}'>{''.join(part.html for part in parts)}</blockquote></details>"
    )
    inner = [f"  {line}" for part in parts for line in part.lines]
    return _Drawn(html, [f"{DIFFERS} {who} · {facts}", *inner])


def _show(name: str) -> str:
    return one_line(find_filter().text(name), 60)


def _join_sides(a: str, b: str) -> str:
    return a if a == b else f"{a} → {b}"


def _is_same(part: Part) -> bool:
    return next(list_changes(part), None) is None


def _describe(pair: Pair) -> str:
    who = _join_sides(*map(_show, pair.names))
    return f"turn {who}" if pair.kind == "turn" else who


def _describe_same(parts: Sequence[Part]) -> str:
    pairs = [part for part in parts if isinstance(part, Pair)]
    turns = [pair.places for pair in pairs if pair.kind == "turn"]
    if len(pairs) == 1:
        [pair] = pairs
        place = "" if turns else f" {_show(pair.places[0])}"
        what = f"{_describe(replace(pair, names=(pair.names[0],) * 2))}{place}"
    elif turns:
        what = f"{plural(len(turns), 'turn')} ({_show(turns[0][0])} to {_show(turns[-1][0])})"
    else:
        what = plural(len(pairs), "run")
    # the task of a run may differ: its change is shown at the call
    return f"{SAME} {what}: the same{'' if turns else ' answer' + 's' * (len(pairs) > 1)}"
