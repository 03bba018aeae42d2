"""The difference of two trees in rows and texts, drawn as HTML and as text; their figures.

All texts have passed the filter for secrets before they are compared word by word and cut. Nothing
depends on time, so that a saved notebook is the same again. HTML has no script and no style
element: without any style, `del` and `ins` still show what changed. Text has `[-gone-]{+new+}`, as
`git diff --word-diff`.
Source: D-60.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import TypeAlias

from axe_nb.messages import Usage
from axe_nb.results import RunResult, name_run
from axe_nb.secrets import find_filter
from axe_nb.text import align_columns, clean, format_dollars, format_seconds, one_line, plural
from axe_nb.views.appearance import COLOURS, GONE, LINE_HEIGHT, MUTED, NEW, SHADE, TEXT, TEXT_MARGIN
from axe_nb.views.diffs.compare import Change, RunPair, TurnPair, find_first, list_changes
from axe_nb.views.diffs.words import LEAST, Piece, compare_texts, reveal, shorten
from axe_nb.views.html import LEVEL, PLAIN, safe

MAX_BLOCKS, MAX_OPEN = 60, 20
"""Changes whose texts are shown, others are counted; those whose rows are open."""

MAX_CHARS, MOST = 12_000, 2_000
"""Characters that all texts share, and of one text, at most."""

WIDE, WHO = 90, 60
"""Characters of a text that stands beside its label, and of a name."""

SAME, DIFFERS = "=", "≠"

TAGS = {"gone": ("del", GONE), "new": ("ins", NEW)}
"""Kind of a piece → its element and colour."""

_DIFFERS = f"<b style=color:{COLOURS['limit']}>{DIFFERS}</b>"

NUMBERS = 3
"""Columns of numbers: of both trees, and the change."""

MARKS = {"same": "{}", "gone": "[-{}-]", "new": "{{+{}+}}"}


SECONDS = "seconds"
"""The name of the figure that is never the same twice."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of each tree."""

    name: str
    a: float | None
    """None if it is unknown, as the price of a model may be."""
    b: float | None

    @property
    def change(self) -> float | None:
        """The second minus the first; None if either is unknown."""
        return None if self.a is None or self.b is None else self.b - self.a


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
"""Name of a figure → how it is read from a tree and the tokens of it; cost is in US dollars."""


def list_figures(a: RunResult, b: RunResult) -> tuple[Figure, ...]:
    """Returns the figures of two trees, all runs below them included."""
    usage, usage_b = a.total_usage, b.total_usage
    return tuple(Figure(name, read(a, usage), read(b, usage_b)) for name, read in READERS.items())


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
    """Returns the difference of two runs in the words that it is shown in."""
    changes = tuple(list_changes(pair))
    a, b = map(_show, names)
    made = _Parts(changes, (a, b), whole)
    root = made.make(pair)
    if (left := len(changes) - made.drawn) > 0:
        rest = f"… {plural(left, 'more change')}: .changes[{made.drawn}:]"
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
    names = [f"turn {turn.a.number}" for turn in turns]
    names += [f"{_show(name_run(run.a.agent, run.a.model))} {_show(run.a.id)}" for run in runs]
    if len(names) == 1:
        return f"{SAME} {names[0]}: the same"
    what = plural(len(turns), "turn") if turns else plural(len(runs), "run")
    numbers = f" ({_show(turns[0].place)} to {_show(turns[-1].place)})" if turns else ""
    return f"{SAME} {what}{numbers}: the same"


def format_html(outline: Outline) -> str:
    """Returns the difference as HTML."""
    sign = f"<b style=color:{COLOURS['good']}>{SAME}</b>" if outline.is_same else _DIFFERS
    return (
        f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'>"
        f"<div>{sign} <b>{safe(outline.who)}</b> "
        f"<span style=opacity:{MUTED}>{safe(outline.summary)}</span></div>"
        f"{_format_table(outline.rows)}"
        f"<div style=opacity:{MUTED}>{safe(outline.same_figures)}</div>"
        f"{_draw_parts(outline.parts)}</div>"
    )


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


def _draw_parts(parts: Sequence[Part]) -> str:
    return "".join(map(_draw_part, parts))


def _draw_part(part: Part) -> str:
    if isinstance(part, str):
        return f"<div style=opacity:{MUTED}>{safe(part)}</div>"
    if isinstance(part, Block):
        return _draw_block(part)
    return (
        f"<details{' open' if part.is_open else ''}><summary>{_DIFFERS} <b>{safe(part.who)}</b> "
        f"<small style=opacity:{MUTED}>{safe(part.facts)}</small></summary>"
        f"<blockquote style='{LEVEL}'>{_draw_parts(part.parts)}</blockquote></details>"
    )


def _draw_block(block: Block) -> str:
    text = "".join(map(_tag, block.pieces))
    rest = f"<small>… {safe(block.rest)}</small>" if block.rest else ""
    quoted = f"<pre style='{TEXT}'>{text}</pre>"
    if block.is_line:
        quoted = f" <code style=background:{SHADE};white-space:pre-wrap>{text}</code> "
    return (
        f"<div style=margin-left:{TEXT_MARGIN}><small style=opacity:{MUTED}>"
        f"{safe(block.label)}</small>{quoted}{rest}</div>"
    )


def _tag(piece: Piece) -> str:
    if piece.kind == "same":
        return safe(piece.text)
    name, colour = TAGS[piece.kind]
    return f"<{name} style=background:{colour}>{safe(piece.text)}</{name}>"


def format_text(outline: Outline) -> str:
    """Returns the difference as text."""
    sign = SAME if outline.is_same else DIFFERS
    lines = [
        f"{sign} {outline.who}: {outline.summary}",
        *(f"  {line}" for line in align_columns(outline.rows, right=NUMBERS)),
        *([f"  {outline.same_figures}"] if outline.same_figures else []),
        "",
        *_format_parts(outline.parts, ""),
    ]
    return "\n".join(lines).rstrip("\n")


def _format_parts(parts: Sequence[Part], indent: str) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield f"{indent}{part}"
        elif isinstance(part, Entry):
            yield f"{indent}{DIFFERS} {part.who} · {part.facts}"
            yield from _format_parts(part.parts, indent + "  ")
        else:
            yield from _format_block(part, indent)


def _format_block(block: Block, indent: str) -> Iterator[str]:
    text = "".join(MARKS[piece.kind].format(piece.text) for piece in block.pieces)
    if block.is_line:
        yield f"{indent}{block.label}: {text}".rstrip()
    else:
        yield f"{indent}{block.label}:"
        for line in text.split("\n"):
            yield f"{indent}  {line}".rstrip()
    if block.rest:
        yield f"{indent}  … {block.rest}"
