"""`a.diff(b)`: the difference of two trees of runs, drawn as HTML and as text.

All texts have passed the filter for secrets before they are compared word by word and cut. Nothing
depends on time, so that a saved notebook is the same again. HTML has no script and no style
element: without any style, `del` and `ins` still show what changed. Text has `[-gone-]{+new+}`, as
`git diff --word-diff`.
Source: D-60.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from typing import Any, Literal, NamedTuple, TypeAlias

from axe_nb.errors import ConfigError
from axe_nb.messages import Usage
from axe_nb.results import RunResult, name_run
from axe_nb.secrets import find_filter
from axe_nb.text import (
    align_columns,
    clean,
    count_common,
    format_dollars,
    format_seconds,
    one_line,
    plural,
)
from axe_nb.views.appearance import COLOURS, GONE, LINE_HEIGHT, MUTED, NEW, SHADE, TEXT, TEXT_MARGIN
from axe_nb.views.compare_runs import (
    Change,
    RunPair,
    TurnPair,
    compare_runs,
    find_first,
    find_path,
    list_changes,
)
from axe_nb.views.html import LEVEL, PLAIN, safe
from axe_nb.views.rows import POINTER

MAX_BLOCKS = 60
"""Maximum number of changes whose texts are shown; further ones are counted."""

MAX_CHARS, LEAST, MOST = 12_000, 200, 2_000
"""Characters shared by all texts; minimum and maximum characters of one text."""

CONTEXT = 60
"""Characters of unchanged text shown beside a change."""

WIDE, WHO = 90, 60
"""Maximum characters of a text that stands beside its label, and of a name."""

MAX_WORDS = 2_000
"""Maximum words compared between the equal ends of two texts; longer texts are compared by
lines."""

_WORD = re.compile(
    # scripts without spaces: each character is a word
    r"[\u3040-\u30ff\u3400-\u9fff]|\d+[.,]\d+|[^\W\u3040-\u30ff\u3400-\u9fff]+|\n|[^\S\n]+|[^\w\s]"
)

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

SAME, DIFFERS = "=", "≠"

_DIFFERS = f"<b style=color:{COLOURS['limit']}>{DIFFERS}</b>"

PieceKind: TypeAlias = Literal["same", "gone", "new"]

TAGS = {"gone": ("del", GONE), "new": ("ins", NEW)}
"""Kind of a piece → its element and colour."""

MARKS = {"same": "{}", "gone": "[-{}-]", "new": "{{+{}+}}"}


class Piece(NamedTuple):
    """A piece of the comparison of two texts."""

    kind: PieceKind
    text: str


def compare_texts(before: str, after: str) -> list[Piece]:
    """Returns the pieces of two texts in order; those that are not `new` make up the first."""
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
    """Merges changes that are separated by hardly any equal text.

    Words such as `the` are the same in any two sentences.
    """
    joined = list[Piece]()
    for number, piece in enumerate(pieces):
        around = pieces[max(0, number - 2) : number], pieces[number + 1 : number + 3]
        size = min(max((len(p.text) for p in some), default=0) for some in around)
        if piece.kind == "same" and size and 2 * len(piece.text.strip()) <= size:
            joined += [piece._replace(kind="gone"), piece._replace(kind="new")]
        else:
            joined.append(piece)
    shown = list[Piece]()
    for is_same, some in groupby((p for p in joined if p.text), lambda p: p.kind == "same"):
        run = list(some)
        kinds: Sequence[PieceKind] = ("same",) if is_same else ("gone", "new")
        texts = ("".join(piece.text for piece in run if piece.kind == kind) for kind in kinds)
        shown += [Piece(kind, text) for kind, text in zip(kinds, texts, strict=True) if text]
    return shown


def _shorten(pieces: Sequence[Piece], room: int) -> tuple[list[Piece], int]:
    """Returns the pieces that fit, and the number of changed characters left out."""
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


SECONDS = "seconds"
"""Name of the figure that differs each time."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, for each of two trees."""

    name: str
    a: float | None
    """The figure of the first tree; None if unknown, as the price of a model may be."""
    b: float | None

    @property
    def change(self) -> float | None:
        """The second minus the first; None if either is unknown."""
        return None if self.a is None or self.b is None else self.b - self.a

    def cells(self) -> tuple[str, ...]:
        """The name, both numbers, and the change."""
        change = ""
        if self.change:
            change = f"{'+' if self.change > 0 else '−'}{self._format(abs(self.change))}"
        return self.name, self._format(self.a), self._format(self.b), change

    def _format(self, number: float | None) -> str:
        if number is None:
            return "unknown"
        if self.name == "cost":
            return format_dollars(number)
        return f"{format_seconds(number)} s" if self.name == SECONDS else f"{number:,.0f}"


def _sum(read: Callable[[RunResult], int]) -> Callable[[RunResult, Usage], int]:
    return lambda run, usage: sum(map(read, run.walk()))


READERS: Mapping[str, Callable[[RunResult, Usage], float | None]] = {
    "turns": _sum(lambda run: run.turns),
    "tool calls": _sum(lambda run: run.tool_calls),
    "sub-agents": lambda run, usage: sum(1 for _ in run.walk()) - 1,
    "retries": _sum(lambda run: run.retries),
    "input tokens": lambda run, usage: usage.input_tokens,
    "output tokens": lambda run, usage: usage.output_tokens,
    "cached tokens": lambda run, usage: usage.cached_tokens,
    "cost": lambda run, usage: run.total_cost,
    SECONDS: lambda run, usage: run.duration_ms / 1000,
}
"""Name of a figure → function that reads it from a tree and its usage; cost is in US dollars."""


@dataclass(frozen=True, slots=True)
class _Block:
    """One change: a label, and both texts merged."""

    label: str
    pieces: Sequence[Piece]
    rest: str = ""
    """The number of characters left out, with a pointer; empty if there are none."""

    @property
    def is_line(self) -> bool:
        """True if it fits beside its label."""
        size = sum(len(piece.text) for piece in self.pieces)
        return size <= WIDE and not any("\n" in piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A run or a turn, with its differences."""

    who: str
    facts: str
    parts: Sequence[_Part]


_Part: TypeAlias = _Block | _Entry | str
"""Content of an entry; a text is a note in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """The difference between two runs and all runs below them; a notebook shows it as a tree."""

    pair: RunPair = field(repr=False)
    """The two runs, aligned."""
    changes: tuple[Change, ...]
    """All changes, in reading order: the agent's instructions and task, its turns with their
    calls and child runs, and its end."""
    same_path: bool
    """True if the same agents called the same tools in the same order, regardless of texts."""
    figures: tuple[Figure, ...] = field(repr=False)
    """Requests, tokens, money and time of the trees, side by side."""
    names: tuple[str, str] = ("a", "b")
    """Names of the two runs, for display."""

    @property
    def first(self) -> str | None:
        """The turn in which the runs first differ, such as `0.2/3`; None if they do not.

        Up to this turn, both trees have the same places.
        """
        return find_first(self.changes)

    def format(self, *, whole: bool = False, times: bool = False) -> str:
        """Returns the difference as text, without secrets.

        Args:
            whole: if True, no change is cut or left out.
            times: if True, includes the seconds of both runs, which are never the same twice.
        """
        root, rest = self._make_parts(whole)
        table = (f"  {line}" for line in align_columns(self._list_figures(times), right=3))
        sign = DIFFERS if self.changes else SAME
        parts = ["", *_format_parts([*root.parts, *rest], "")] if self.changes else []
        return "\n".join([f"{sign} {root.who}: {self._summary}", *table, *parts])

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return f"RunDiff({self._summary})"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        bundle = {"text/html": self._format_html(), "text/plain": self.format()}
        # in the metadata alone, since no two runs take as long
        seconds = next([one.a, one.b] for one in self.figures if one.name == SECONDS)
        return bundle, {"axe_nb": {"seconds": seconds}}

    def _make_parts(self, whole: bool = False) -> tuple[_Entry, Sequence[str]]:
        """Makes the row of the two runs, and a note on changes that are left out."""
        made = _Parts(self, whole)
        return made.make_entry(self.pair), made.rest

    @property
    def _summary(self) -> str:
        """The number of changes, the first place and the path."""
        if not self.changes:
            return "no differences"
        path = "same path" if self.same_path else "different path"
        first = _show(self.first or "")
        return f"{plural(len(self.changes), 'change')}, first at {first}, {path}"

    def _list_figures(self, times: bool = False) -> list[tuple[str, ...]]:
        """The table of the figures: name, both numbers, and the change."""
        rows = [
            figure.cells()
            for figure in self.figures
            if (figure.a or figure.b) and (times or figure.name != SECONDS)
        ]
        return [("", *map(_show, self.names), "change"), *rows] if rows else []

    def _format_html(self) -> str:
        root, rest = self._make_parts()
        sign = _DIFFERS if self.changes else f"<b style=color:{COLOURS['good']}>{SAME}</b>"
        return (
            f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'>"
            f"<div>{sign} <b>{safe(root.who)}</b> "
            f"<span style=opacity:{MUTED}>{safe(self._summary)}</span></div>"
            f"{_format_table(self._list_figures())}"
            f"{_draw_parts([*root.parts, *rest]) if self.changes else ''}</div>"
        )


def diff_runs(a: RunResult, b: RunResult, names: tuple[str, str] = ("a", "b")) -> RunDiff:
    """Compares two runs and all runs below them.

    Args:
        a: one run, however it ended, in memory or loaded.
        b: the other.
        names: their names, for display.

    Raises:
        ConfigError: one of them is not the result of a run.
    """
    for one in (a, b):
        if not isinstance(one, RunResult):
            raise ConfigError(
                f"diff compares two run results, not {type(one).__name__}",
                hint="use a.diff(b), where axe_nb.run or axe_nb.load returned both",
            )
    pair = compare_runs(a, b, find_filter())
    usage, usage_b = a.total_usage, b.total_usage
    return RunDiff(
        pair=pair, changes=tuple(list_changes(pair)), same_path=find_path(a) == find_path(b),
        figures=tuple(Figure(n, read(a, usage), read(b, usage_b)) for n, read in READERS.items()),
        names=names,
    )  # fmt: skip


def _show(name: str) -> str:
    return one_line(find_filter().text(name), WHO)


class _Parts:
    """Makes the parts of a difference, as far as there is room."""

    def __init__(self, diff: RunDiff, whole: bool) -> None:
        count = len(diff.changes)
        self._whole, self._names = whole, [_show(name) for name in diff.names]
        self._numbers = {id(change): number for number, change in enumerate(diff.changes)}
        self._drawn = count if whole else MAX_BLOCKS
        self._room = max(LEAST, min(MOST, MAX_CHARS // max(1, count)))
        left = count - self._drawn
        self.rest = [f"… {plural(left, 'more change')}: .changes[{self._drawn}:]"] * (left > 0)
        """A note on the changes that are not shown."""

    def make_entry(self, pair: RunPair) -> _Entry:
        """The row of two runs."""
        names = [_show(name_run(run.agent, run.model)) for run in (pair.a, pair.b)]
        tokens = [f"{run.total_usage.total:,}" for run in (pair.a, pair.b)]
        facts = f"{_join_sides(_show(pair.a.id), _show(pair.b.id))} · {_join_sides(*tokens)} tokens"
        return _Entry(_join_sides(*names), facts, [*self._list_parts(pair)])

    def _list_parts(self, pair: RunPair) -> Iterator[_Part]:
        for is_same, parts in groupby(takewhile(self._is_shown, pair.parts), _is_same):
            some = list(parts)
            if is_same:
                yield _describe_same(some)
                continue
            for part in some:
                if isinstance(part, Change):
                    yield self._make_block(part)
                elif isinstance(part, RunPair):
                    yield self.make_entry(part)
                else:
                    yield from self._draw_turn(part)

    def _draw_turn(self, pair: TurnPair) -> Iterator[_Part]:
        """Yields the row of a turn; only the rows of its runs, if nothing else differs."""
        inner = list[_Part]()
        for part in takewhile(self._is_shown, pair.parts):
            if isinstance(part, Change):
                inner.append(self._make_block(part))
            elif not _is_same(part):
                inner.append(self.make_entry(part))
        if same := [part for part in pair.parts if _is_same(part)]:
            inner.append(_describe_same(same))
        if any(isinstance(part, Change) for part in pair.parts):
            numbers = _join_sides(str(pair.a.number), str(pair.b.number))
            yield _Entry(
                f"turn {numbers}", _join_sides(_show(pair.place), _show(pair.other)), inner
            )
        else:
            yield from inner

    def _is_shown(self, part: Change | TurnPair | RunPair) -> bool:
        first = part if isinstance(part, Change) else next(list_changes(part), None)
        return first is None or self._numbers[id(first)] < self._drawn

    def _make_block(self, change: Change) -> _Block:
        masked = [find_filter().text(text or "") for text in (change.before, change.after)]
        pieces, left = compare_texts(*map(clean, masked)), 0
        if not self._whole:
            pieces, left = _shorten(pieces, self._room)
        side = "after" if change.after else "before"
        pointer = f".changes[{self._numbers[id(change)]}].{side}"
        rest = f"{plural(left, 'more character')}: {pointer}" if left else ""
        return _Block(self._label(change), pieces, rest)

    def _label(self, change: Change) -> str:
        label: str = change.kind
        if change.kind == "turn":
            label += f" {_show(change.place or change.other or '')}"
        if change.kind == "call":
            label += f" {change.call}"
        elif change.tool:
            label += f" of {_show(change.tool)} (call {change.call})"
        if change.before is None or change.after is None:
            label += f", only in {self._names[0 if change.after is None else 1]}"
        return label


def _join_sides(a: str, b: str) -> str:
    return a if a == b else f"{a} → {b}"


def _is_same(part: Change | TurnPair | RunPair) -> bool:
    return not isinstance(part, Change) and next(list_changes(part), None) is None


def _describe_same(parts: Sequence[Change | TurnPair | RunPair]) -> str:
    """Returns a note on turns or runs without changes."""
    turns = [part for part in parts if isinstance(part, TurnPair)]
    runs = [part for part in parts if isinstance(part, RunPair)]
    names = [f"turn {turn.a.number}" for turn in turns]
    names += [f"{_show(name_run(run.a.agent, run.a.model))} {_show(run.a.id)}" for run in runs]
    if len(names) > 1:
        names = [plural(len(turns), "turn") if turns else plural(len(runs), "run")]
        names += [f"({_show(turns[0].place)} to {_show(turns[-1].place)})"] if turns else []
    return f"{SAME} {' '.join(names)}: the same"


def _format_table(rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    (_, a, b, change), *figures = rows
    names = ((a, GONE), (b, NEW))
    heads = (f"<span style=background:{hue}>{safe(name)}</span>" for name, hue in names)
    head = "".join(f"<th>{cell}</th>" for cell in ("", *heads, change))
    body = "".join(
        f"<tr>{''.join(f'<td>{safe(cell)}</td>' for cell in row)}</tr>" for row in figures
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _draw_parts(parts: Sequence[_Part]) -> str:
    return "".join(map(_draw_part, parts))


def _draw_part(part: _Part) -> str:
    if isinstance(part, str):
        return f"<div style=opacity:{MUTED}>{safe(part)}</div>"
    if isinstance(part, _Entry):
        return (
            f"<details open><summary>{_DIFFERS} <b>{safe(part.who)}</b> "
            f"<small style=opacity:{MUTED}>{safe(part.facts)}</small></summary>"
            f"<blockquote style='{LEVEL}'>{_draw_parts(part.parts)}</blockquote></details>"
        )
    text = ""
    for kind, inner in part.pieces:
        name, colour = TAGS.get(kind, ("", ""))
        shown = safe(inner)
        text += f"<{name} style=background:{colour}>{shown}</{name}>" if name else shown
    rest = f"<small>… {safe(part.rest)}</small>" if part.rest else ""
    quoted = f"<pre style='{TEXT}'>{text}</pre>"
    if part.is_line:
        quoted = f" <code style=background:{SHADE};white-space:pre-wrap>{text}</code> "
    return (
        f"<div style=margin-left:{TEXT_MARGIN}><small style=opacity:{MUTED}>"
        f"{safe(part.label)}</small>{quoted}{rest}</div>"
    )


def _format_parts(parts: Sequence[_Part], indent: str) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield f"{indent}{part}"
        elif isinstance(part, _Entry):
            yield f"{indent}{DIFFERS} {part.who} · {part.facts}"
            yield from _format_parts(part.parts, indent + "  ")
        else:
            yield from _format_block(part, indent)


def _format_block(block: _Block, indent: str) -> Iterator[str]:
    text = "".join(MARKS[piece.kind].format(piece.text) for piece in block.pieces)
    if block.is_line:
        yield f"{indent}{block.label}: {text}".rstrip()
    else:
        yield f"{indent}{block.label}:"
        for line in text.split("\n"):
            yield f"{indent}  {line}".rstrip()
    if block.rest:
        yield f"{indent}  … {block.rest}"
