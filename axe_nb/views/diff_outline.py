"""The difference of two trees in rows and texts, the same words for HTML and plain text. Pure.

All texts have passed the filter for secrets before they are compared word by word and cut. Nothing
depends on time, so that a saved notebook is the same again.
Source: product.md "Runs are recordings"; design README; D-60.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import TypeAlias

from axe_nb.diffs.change import Change, RunPair, TurnPair, list_changes
from axe_nb.diffs.figures import SECONDS, Figure
from axe_nb.diffs.run_diff import RunDiff
from axe_nb.diffs.words import Piece, compare_texts
from axe_nb.redaction import find_filter
from axe_nb.results import RunResult, name_run
from axe_nb.text import clean, format_dollars, format_seconds, one_line, plural
from axe_nb.views.excerpts import POINTER

MAX_BLOCKS = 60
"""Changes whose texts are shown; others are counted."""

MAX_CHARS = 12_000
"""Characters that all texts share."""

LEAST, MOST = 200, 2_000
"""Characters of one text, at least and at most."""

MAX_OPEN = 20
"""Changes whose rows are open; later ones are folded."""

CONTEXT = 60
"""Characters that are the same, shown beside a change."""

MAX_LINES = 12
"""Lines shown of a text that is there on one side only."""

WIDE = 90
"""Characters of a text that stands beside its label."""

WHO = 60
"""Characters of a name."""

SAME, DIFFERS = "=", "≠"

_BLANKS = str.maketrans({" ": "␣", "\t": "⇥", "\n": "↵\n"})
"""Blanks as they are shown where nothing else changed."""


@dataclass(frozen=True, slots=True)
class Block:
    """One change: a label, and both texts in one."""

    label: str
    pieces: tuple[Piece, ...]
    rest: str = ""
    """The characters left out, with their pointer; empty if there are none."""

    @property
    def is_line(self) -> bool:
        """True if it fits beside its label."""
        size = sum(len(piece.text) for piece in self.pieces)
        return size <= WIDE and not any("\n" in piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Entry:
    """A run or a turn, with what differs in it."""

    who: str
    facts: str
    parts: tuple[Part, ...]
    is_open: bool = True


Part: TypeAlias = Block | Entry | str
"""Content of an entry; a text is a note in one line."""


def describe(diff: RunDiff) -> str:
    """Returns the number of changes, the first place and the path, in one line."""
    if not diff.changes:
        return "no differences"
    path = "same path" if diff.same_path else "different path"
    return f"{plural(len(diff.changes), 'change')}, first at {_show(diff.first or '')}, {path}"


def list_rows(diff: RunDiff, *, times: bool = False) -> list[tuple[str, ...]]:
    """Returns the table of the figures that differ: name, both numbers, and the change.

    Empty if none does.

    Args:
        diff: the difference.
        times: if True, with the seconds.
    """
    rows: list[tuple[str, ...]] = [("", *_name_sides(diff), "change")]
    for figure in diff.figures:
        if figure.a != figure.b and (times or figure.name != SECONDS):
            numbers = (_format_number(figure, number) for number in (figure.a, figure.b))
            rows.append((figure.name, *numbers, _format_change(figure)))
    return rows if len(rows) > 1 else []


def describe_same(diff: RunDiff, *, times: bool = False) -> str:
    """Returns the other figures in one line; empty if there are none.

    Args:
        diff: the difference.
        times: if True, with the seconds.
    """
    equal = [
        f"{figure.name} {_format_number(figure, figure.a)}"
        for figure in diff.figures
        if figure.a and figure.a == figure.b and (times or figure.name != SECONDS)
    ]
    return f"the same: {', '.join(equal)}" if equal else ""


def make_outline(diff: RunDiff, *, whole: bool = False) -> Entry:
    """Returns the aligned trees, with what is the same in short.

    Args:
        diff: the difference.
        whole: if True, nothing is left out.
    """
    outline = _Outline(diff, whole)
    made = outline.make(diff.pair)
    if (left := len(diff.changes) - outline.drawn) > 0:
        rest = f"… {plural(left, 'more change')}: .changes[{outline.drawn}:], .to_frame()"
        made = replace(made, parts=(*made.parts, rest))
    return made


def _name_sides(diff: RunDiff) -> tuple[str, str]:
    a, b = map(_show, diff.names)
    return a, b


def _show(name: str) -> str:
    return one_line(find_filter().text(name), WHO)


def _format_number(figure: Figure, number: float | None) -> str:
    if number is None:
        return "unknown"
    match figure.name:
        case "cost":
            return format_dollars(number)
        case "seconds":
            return f"{format_seconds(number)} s"
        case _:
            return f"{number:,.0f}"


def _format_change(figure: Figure) -> str:
    if not figure.change:
        return ""
    sign = "+" if figure.change > 0 else "−"
    return sign + _format_number(figure, abs(figure.change))


class _Outline:
    """Makes the rows, as long as there is room."""

    def __init__(self, diff: RunDiff, whole: bool) -> None:
        changes = diff.changes
        self._whole = whole
        self._names = _name_sides(diff)
        self._numbers = {id(change): number for number, change in enumerate(changes)}
        self.drawn = len(changes) if whole else min(len(changes), MAX_BLOCKS)
        """Changes that are shown; what follows them is left out."""
        self._room = max(LEAST, min(MOST, MAX_CHARS // max(1, self.drawn)))

    def make(self, pair: RunPair) -> Entry:
        """Returns the row of two runs."""
        names = [_show(name_run(run.agent, run.model)) for run in (pair.a, pair.b)]
        places = _join_sides(_show(pair.a.id), _show(pair.b.id))
        tokens = _join_sides(*(f"{run.total_usage.total:,}" for run in (pair.a, pair.b)))
        facts = f"{places} · {tokens} tokens"
        return self._make_entry(_join_sides(*names), facts, pair, self._list_parts(pair))

    def _make_entry(
        self, who: str, facts: str, pair: RunPair | TurnPair, parts: Iterable[Part]
    ) -> Entry:
        first = next(list_changes(pair), None)
        is_open = first is not None and self._numbers[id(first)] < MAX_OPEN
        return Entry(who, facts, tuple(parts), is_open)

    def _list_parts(self, pair: RunPair) -> Iterator[Part]:
        for is_same, parts in groupby(takewhile(self._is_shown, pair.parts), _is_same):
            some = list(parts)
            if is_same:
                yield _describe_same(some)
                continue
            for part in some:
                yield from self._draw(part)

    def _draw(self, part: Change | TurnPair | RunPair) -> Iterator[Part]:
        if isinstance(part, Change):
            yield self._make_block(part, self._numbers[id(part)])
        elif isinstance(part, RunPair):
            yield self.make(part)
        else:
            yield from self._draw_turn(part)

    def _draw_turn(self, pair: TurnPair) -> Iterator[Part]:
        """Yields the row of a turn; only those of its runs, if nothing else differs."""
        shown = list(takewhile(self._is_shown, pair.parts))
        inner = [one for part in shown if not _is_same(part) for one in self._draw(part)]
        same = [part for part in shown if _is_same(part)]
        if same:
            inner.append(_describe_same(same))
        if any(isinstance(part, Change) for part in pair.parts):
            numbers = _join_sides(str(pair.a.number), str(pair.b.number))
            places = _join_sides(_show(pair.place), _show(pair.other))
            yield self._make_entry(f"turn {numbers}", places, pair, inner)
        else:
            yield from inner

    def _is_shown(self, part: Change | TurnPair | RunPair) -> bool:
        first = part if isinstance(part, Change) else next(list_changes(part), None)
        return first is None or self._numbers[id(first)] < self.drawn

    def _make_block(self, change: Change, number: int) -> Block:
        masked = [find_filter().text(text or "") for text in (change.before, change.after)]
        pieces = compare_texts(*map(clean, masked))
        left = 0
        if not self._whole:
            pieces, left = _shorten(pieces, self._room)
        side = "after" if change.after else "before"
        rest = f"{plural(left, 'more character')}: .changes[{number}].{side}" if left else ""
        return Block(self._label(change), tuple(map(_reveal, pieces)), rest)

    def _label(self, change: Change) -> str:
        of = f" of {_show(change.tool)}" if change.tool and change.kind != "call" else ""
        at = f" {change.call}" if change.kind == "call" else ""
        at = f" (call {change.call})" if change.call and not at else at
        side = ""
        if change.before is None or change.after is None:
            side = f", only in {self._names[0 if change.after is None else 1]}"
        turn = (change.place or change.other) if change.kind == "turn" else None
        return f"{change.kind}{f' {_show(turn)}' if turn else ''}{of}{at}{side}"


def _join_sides(a: str, b: str) -> str:
    return a if a == b else f"{a} → {b}"


def _is_same(part: Change | TurnPair | RunPair) -> bool:
    return not isinstance(part, Change) and next(list_changes(part), None) is None


def _describe_same(parts: Sequence[Change | TurnPair | RunPair]) -> str:
    """Returns a note on turns or runs without changes."""
    turns = [part for part in parts if isinstance(part, TurnPair)]
    runs = [part for part in parts if isinstance(part, RunPair)]
    names = [f"turn {turn.a.number}" for turn in turns] + [_name(run.a) for run in runs]
    if len(names) == 1:
        return f"{SAME} {names[0]}: the same"
    what = plural(len(turns), "turn") if turns else plural(len(runs), "run")
    numbers = f" ({_show(turns[0].place)} to {_show(turns[-1].place)})" if turns else ""
    return f"{SAME} {what}{numbers}: the same"


def _name(run: RunResult) -> str:
    return f"{_show(name_run(run.agent, run.model))} {_show(run.id)}"


def _reveal(piece: Piece) -> Piece:
    """Returns a piece with its blanks shown, if it has nothing else that changed."""
    if piece.kind == "same" or not piece.text.isspace():
        return piece
    return piece._replace(text=piece.text.translate(_BLANKS))


def _shorten(pieces: Sequence[Piece], room: int) -> tuple[list[Piece], int]:
    """Returns the pieces that fit, and how many changed characters are left out.

    Args:
        pieces: those of two texts.
        room: characters.
    """
    shown: list[Piece] = []
    left = 0
    for number, piece in enumerate(pieces):
        if room <= 0:
            left += len(piece.text) if piece.kind != "same" else 0
            continue
        if piece.kind == "same":
            text = _cut_same(piece.text, number > 0, number < len(pieces) - 1)
        else:
            text = _cut_changed(piece.text, max(room // 2, LEAST // 2))
            left += len(piece.text) - len(text)
            text += "…" if len(text) < len(piece.text) else ""
        shown.append(Piece(piece.kind, text))
        room -= len(text)
    return shown, left


def _cut_same(text: str, is_after: bool, is_before: bool) -> str:
    """Returns the text beside changes, without its middle; whole words, unless they are huge."""
    if len(text) <= (is_after + is_before + 1) * CONTEXT:
        return text
    head = text[:CONTEXT] if is_after else ""
    tail = text[-CONTEXT:] if is_before else ""
    first, last = head.rfind(" "), tail.find(" ")
    if first > CONTEXT // 2:
        head = head[: first + 1]
    if 0 <= last < CONTEXT // 2:
        tail = tail[last:]
    return f"{head}…{tail}"


def _cut_changed(text: str, size: int) -> str:
    """Returns the beginning of a text; all of it if hardly more would be left out."""
    if len(text) <= size + POINTER:
        size = len(text)
    lines = text[:size].split("\n")
    return text[:size] if len(lines) <= MAX_LINES + 1 else "\n".join(lines[:MAX_LINES])
