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

from axe_nb.diffs.change import Change, RunPair, TurnPair, find_first, list_changes
from axe_nb.diffs.excerpts import LEAST, reveal, shorten
from axe_nb.diffs.figures import SECONDS, Figure
from axe_nb.diffs.words import Piece, compare_texts
from axe_nb.redaction import find_filter
from axe_nb.results import RunResult, name_run
from axe_nb.text import clean, format_dollars, format_seconds, one_line, plural

MAX_BLOCKS = 60
"""Changes whose texts are shown; others are counted."""

MAX_CHARS = 12_000
"""Characters that all texts share."""

MOST = 2_000
"""Characters of one text, at most."""

MAX_OPEN = 20
"""Changes whose rows are open; later ones are folded."""

WIDE = 90
"""Characters of a text that stands beside its label."""

WHO = 60
"""Characters of a name."""

SAME, DIFFERS = "=", "≠"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The difference of two trees, to be shown."""

    who: str
    summary: str
    is_same: bool
    rows: Sequence[tuple[str, ...]]
    """The table of the figures that differ: name, both numbers, and the change."""
    same_figures: str
    """The other figures in one line; empty if there are none."""
    parts: Sequence[Part]
    """The aligned trees, with what is the same in short; empty if nothing differs."""


def describe(changes: Sequence[Change], same_path: bool) -> str:
    """Returns the number of changes, the first place and the path, in one line."""
    if not changes:
        return "no differences"
    path = "same path" if same_path else "different path"
    first = _show(find_first(changes) or "")
    return f"{plural(len(changes), 'change')}, first at {first}, {path}"


def make_outline(
    pair: RunPair,
    figures: Iterable[Figure],
    *,
    names: tuple[str, str],
    same_path: bool,
    whole: bool = False,
    times: bool = False,
) -> Outline:
    """Returns the difference of two runs in the words that it is shown in.

    Args:
        pair: the two runs, aligned.
        figures: the numbers of both.
        names: their names.
        same_path: True if both took the same path.
        whole: if True, nothing is left out.
        times: if True, with the seconds.
    """
    changes = tuple(list_changes(pair))
    a, b = map(_show, names)
    made = _Parts(changes, (a, b), whole)
    root = made.make(pair)
    if (left := len(changes) - made.drawn) > 0:
        rest = f"… {plural(left, 'more change')}: .changes[{made.drawn}:], .to_frame()"
        root = replace(root, parts=(*root.parts, rest))
    told = [figure for figure in figures if times or figure.name != SECONDS]
    return Outline(
        who=root.who, summary=describe(changes, same_path), is_same=not changes,
        rows=_list_rows(told, (a, b)), same_figures=_describe_figures(told),
        parts=root.parts if changes else (),
    )  # fmt: skip


def _list_rows(figures: Iterable[Figure], names: tuple[str, str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", *names, "change")]
    for figure in figures:
        if figure.a != figure.b:
            numbers = (_format_number(figure, number) for number in (figure.a, figure.b))
            rows.append((figure.name, *numbers, _format_change(figure)))
    return rows if len(rows) > 1 else []


def _describe_figures(figures: Iterable[Figure]) -> str:
    """Returns the figures that are the same, in one line."""
    equal = [
        f"{figure.name} {_format_number(figure, figure.a)}"
        for figure in figures
        if figure.a and figure.a == figure.b
    ]
    return f"the same: {', '.join(equal)}" if equal else ""


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


class _Parts:
    """Makes the parts, as long as there is room."""

    def __init__(self, changes: Sequence[Change], names: tuple[str, str], whole: bool) -> None:
        self._whole = whole
        self._names = names
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
            pieces, left = shorten(pieces, self._room)
        side = "after" if change.after else "before"
        rest = f"{plural(left, 'more character')}: .changes[{number}].{side}" if left else ""
        return Block(self._label(change), tuple(map(reveal, pieces)), rest)

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
