"""The static twin of a run: kept in the saved notebook and shown without a kernel. Pure.

Styles are inline, short and without theme variables: what survives JupyterLab's sanitizer in an
untrusted notebook. All values are those of `views/appearance.py`.
Source: product.md "Notebook"; design README; jupyter-facts §9; goals.md "saved notebook".
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from html import escape
from math import ceil

from axe_nb.pictures.picture import Picture
from axe_nb.pictures.scaled import Thumbnails
from axe_nb.results import RunResult
from axe_nb.text import plural
from axe_nb.views import bidi
from axe_nb.views.appearance import (
    BAR_HEIGHT,
    BAR_WIDTH,
    COLOURS,
    GAP,
    LEVEL_MARGIN,
    LEVEL_PADDING,
    LINE,
    LINE_HEIGHT,
    MUTED,
    PICTURE_HEIGHT,
    SHADE,
    TEXT,
    TEXT_MARGIN,
    TRACK,
    WHO_CHARACTER,
    WHO_LEAST,
    WHO_MOST,
)  # fmt: skip
from axe_nb.views.data_table import format_data
from axe_nb.views.folds import choose_folds, title_of
from axe_nb.views.head_html import format_facts, format_strip
from axe_nb.views.markdown import render
from axe_nb.views.outline import THOUGHT, Block, Entry, Outline
from axe_nb.views.row import Row, make_row
from axe_nb.views.sources import format_links, format_sources
from axe_nb.views.summary import Fact, states_of
from axe_nb.views.text_tree import as_lines
from axe_nb.views.transcript import Transcript, group_of
from axe_nb.views.tree import Node

WARNING = COLOURS["limit"]

SLIVER = 3
"""Percent of the timeline; shorter turns and calls have no bar."""

LEVEL = f"margin:0 0 0 {LEVEL_MARGIN};padding:0 0 0 {LEVEL_PADDING};border-left:1px solid {LINE}"
"""Indentation with a thin line; without styles, a blockquote is indented too."""

PICTURE = f"max-height:{PICTURE_HEIGHT};max-width:100%;margin:0 0 0 {TEXT_MARGIN}"

BAR = f"flex:0 99 {BAR_WIDTH};height:{BAR_HEIGHT};margin:auto 0"
"""If there is little room, bars give way first, then costs and names; a part of each task stays."""

TASK = "'flex:1 22em;overflow:hidden{}'"
"""The task in a row with a bar or a column of names; in any other row it has enough room. Some 40
characters fit into its basis, which a bar makes room for until it is gone."""

CLIPPED = 40
"""Characters of a row's task that fit in most windows; longer ones end in an ellipsis."""

SHORT = 50
"""Characters that do not wrap in any usable window."""

INDENT = "\u2003"
"""Indentation of a one-line text; takes fewer bytes than a margin."""

STEPS = (
    f"<small style=float:right;opacity:{MUTED}>steps, not seconds</small>"
    "<i style=display:block;clear:both></i>"
)
"""The unit of the bars, above them; where there is no room beside the facts, in a line
of its own."""

PLAIN = "mathjax_ignore tex2jax_ignore"
"""Keeps dollar signs from being typeset: JupyterLab's class, and nbconvert's."""


CODE = re.compile("`(.+?)`")


def twin(result: RunResult, *, name: str = "axe_nb.last()") -> dict[str, str]:
    """The one bundle that a finished run leaves in a notebook: answer first, then the tree.

    Args:
        result: a run, however it ended.
        name: the expression that gives `result`; texts that are cut point below it.
    """
    root = Transcript.of(result).root
    assert root is not None
    return page(root, name)


def twins(results: Sequence[RunResult], *, name: str = "results") -> dict[str, str]:
    """The one bundle of runs that a cell made side by side.

    Args:
        results: in the order in which they were called.
        name: what the reader may have bound them to, as a list.
    """
    return page(group_of(results), name)


def page(root: Node, name: str) -> dict[str, str]:
    """The bundle of a tree."""
    outline = Outline(root, name)
    text = "\n".join(as_lines(outline))
    return {"text/html": _Page(outline).whole(), "text/plain": text}


def write_tree(outline: Outline) -> str:
    """The HTML of an answer and its tree."""
    return _Page(outline).whole()


def waiting(root: Node, name: str, seconds: float, mark: str = "") -> dict[str, str]:
    """The bundle of an unfinished run: what is known so far, and how to get the rest.

    It stays in notebooks that were saved in mid-run. `name` gives the result at the end, `seconds`
    is how long the run has taken, `mark` is a class by which a page finds it.
    """
    row = make_row(root)
    known = (*row.facts, Fact(f"{seconds:.0f} s")) if seconds >= 1 else row.facts
    line = f"{_format_sign(row)} <b>{_escape(row.who)}</b> {format_facts(known)}"
    text = " · ".join((f"{row.look.sign} {row.who}", *map(str, known)))
    result = "" if root.is_group else f"Its result, once it has ended: `{name}`. "
    note = f"Still running when last seen. {result}After a kernel restart: `%axe history`"
    quoted = CODE.sub(r"<code>\1</code>", _escape(note))
    return {
        "text/html": _wrap(f"<div>{line}</div><small>{quoted}</small>", mark),
        "text/plain": f"{text}\n{note.replace('`', '')}",
    }


def answer(result: RunResult) -> dict[str, str]:
    """The bundle of the answer alone; without one, of a line that says how the run ended."""
    root = Transcript.of(result).root
    assert root is not None
    outline = Outline(root, "axe_nb.last()")
    block, sources = outline.answer(), outline.sources()
    if not block.text:
        line = f"(no answer: {make_row(root).asked})"
        return {"text/html": _wrap(_escape(line)), "text/plain": line}
    text = f"{block.text}\n\nSources:\n{sources.text}" if sources.text else block.text
    answer_html = _format_answer(block) + format_sources(sources.links)
    return {"text/html": _wrap(answer_html), "text/plain": text}


def _wrap(inner: str, mark: str = "") -> str:
    return f"<div class='{f'{PLAIN} {mark}'.strip()}' style=overflow-wrap:break-word>{inner}</div>"


def _format_answer(block: Block) -> str:
    rest = f"<p>… {_escape(block.rest)}</p>" if block.rest else ""
    if block.label == "data":
        return format_data(block.text, is_whole=not rest) + rest
    return render(block.text) + rest


def _escape(text: str) -> str:
    """Escaped for a text node; of such texts, only addresses are ever put into an attribute."""
    return escape(text, quote=False)


class _Page:
    """One outline as HTML."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._thumbnails = Thumbnails()
        self._folds: Set[int] = frozenset()

    def whole(self) -> str:
        outline = self._outline
        root = outline.entry(outline.root)
        row = root.row
        self._folds = choose_folds(root)
        steps = STEPS if any(entry.rows for entry in root.rows) or root.rows[1:] else ""
        tree = (
            f"<details{_format_open(row)} style=line-height:{LINE_HEIGHT};white-space:nowrap>"
            f"<summary>{_format_sign(row)} <b>{_escape(row.who)}</b> "
            f"<span style=opacity:{MUTED};white-space:normal>{format_facts(row.facts)}</span>"
            f"{format_strip(states_of(outline.root))}{steps}</summary>"
            f"{self._format_inside(root)}</details>"
        )
        warnings = "".join(map(_format_block, outline.warnings(outline.root)))
        answer = _format_answer(outline.answer()) + format_sources(outline.sources().links)
        return _wrap(answer + tree + warnings)

    def _format_entry(self, entry: Entry, column: int) -> str:
        row = entry.row
        ellipsis = ";text-overflow:ellipsis" if len(row.asked) > CLIPPED else ""
        bar = self._format_bar(row)
        task = TASK.format(ellipsis) if bar or column else f"flex:1;overflow:hidden{ellipsis}"
        cost = " style='flex:0 2 auto;overflow:hidden'" if column else ""
        return (
            f"<details{_format_open(row)}><summary>"
            f"<div style=display:inline-flex;width:96%;gap:{GAP}>"
            f"{_format_sign(row)} <b{_format_width(row, column)}>{_escape(row.who)}</b> "
            f"<bdi style={task}>{_escape(row.asked)}</bdi> "
            f"<small{cost}>{_escape(row.cost)}</small>{bar}</div></summary>"
            f"{self._format_inside(entry)}</details>"
        )

    def _format_bar(self, row: Row) -> str:
        """The bar of a row's place in the run; empty for a very short turn or call."""
        steps = self._outline.steps
        first, length = 100 * row.span.begin // steps, round(100 * row.span.length / steps)
        if length < SLIVER and row.kind != "run":
            return ""
        return (
            f"<i style='{BAR};"
            "background:linear-gradient(90deg,"
            f"{TRACK} {first}%,{row.look.colour} 0 {first + length}%,{TRACK} 0)'></i>"
        )

    def _format_inside(self, entry: Entry) -> str:
        again = self._format_again(entry.place)
        if not entry.rows:
            blocks = (*entry.before, *entry.after)
            alone = len(blocks) == 1 and not again
            return "".join(self._format_block(block, alone=alone) for block in blocks) + again
        column = _find_width([inner.row for inner in entry.rows])
        parts = (
            *map(self._format_block, entry.before),
            *(self._format_entry(row, column) for row in entry.rows),
            f"<div>… {plural(entry.left_out, 'more row')}</div>" if entry.left_out else "",
            *map(self._format_block, entry.after),
            again,
        )
        return f"<blockquote style='{LEVEL}'>{''.join(parts)}</blockquote>"

    def _format_again(self, place: str) -> str:
        """The first line of a cell that forks at a turn, if the result has a name."""
        name = self._outline.name
        if not place or not name.isidentifier():
            return ""
        code = f"<code>%%axe --from {name}@{place}</code>"
        return (
            f"<div style=margin-left:{TEXT_MARGIN}>{_format_muted('again from here')}{code}</div>"
        )

    def _format_block(self, block: Block, alone: bool = False) -> str:
        """A text with its pictures, each of which is drawn once on a page; a long one is folded."""
        urls = (self._find_thumbnail(picture) for picture in block.pictures)
        images = "".join(f"<img src='{url}' style='{PICTURE}'>" for url in urls if url)
        is_whole = id(block) in self._folds
        if block.label == THOUGHT:
            thought = replace(block, text=block.whole, more=0) if is_whole else block
            return _format_fold(THOUGHT, thought)
        fold = _format_fold(title_of(block), Block("", block.whole)) if is_whole else ""
        if fold:
            block = replace(block, more=0)
        shown = _format_block(block, alone and not (images or fold)) if block.text else ""
        return f"{shown}{fold}" + (f"<div>{images}</div>" if images else "")

    def _find_thumbnail(self, picture: Picture) -> str:
        """The URL of a picture's thumbnail; empty if it is drawn above, or there is no room."""
        return "" if picture in self._thumbnails else self._thumbnails.find(picture)


def _find_width(rows: list[Row]) -> int:
    """The width of the names in em, if rows of different names are listed below one another."""
    longest = max(len(row.who) for row in rows)
    if len(rows) == 1 or rows[0].who.startswith("turn "):
        return 0
    return min(max(WHO_LEAST, ceil(longest * WHO_CHARACTER)), WHO_MOST)


def _format_width(row: Row, column: int) -> str:
    """The width of a name; one that is longer than its column takes the room that it needs."""
    if not column:
        return ""
    is_longer = len(row.who) * WHO_CHARACTER > column
    width = "auto" if is_longer else f"{column}em"
    return f" style='flex:0 1 {width};overflow:hidden;text-overflow:ellipsis'"


def _format_open(row: Row) -> str:
    return " open" if row.is_open else ""


def _format_sign(row: Row) -> str:
    return f"<b style=color:{row.look.colour}>{row.look.sign}</b>"


def _format_fold(title: str, block: Block) -> str:
    """A text that a line is clicked for."""
    text = _escape(block.text)
    rest = f"<small>… {_escape(block.rest)}</small>" if block.rest else ""
    return (
        f"<details style=margin-left:{TEXT_MARGIN}><summary><small style=opacity:{MUTED}>"
        f"{title}</small></summary>"
        f"<pre{bidi.direction(text)} style='{TEXT}'>{text}</pre>{rest}</details>"
    )


def _format_muted(text: str) -> str:
    return f"<small style=opacity:{MUTED}>{text}</small> "


def _format_block(block: Block, alone: bool = False) -> str:
    """A text under its row."""
    if block.links:
        links = format_links(block.links)
        return f"<div style=margin-left:{TEXT_MARGIN}>{_format_label(block)}{links}</div>"
    rest = f"<small>{'… ' if block.text else ''}{_escape(block.rest)}</small>" if block.rest else ""
    text = _escape(block.text)
    way = bidi.direction(text)
    quoted = f"<code{way} style=background:{SHADE}>{text}</code> " if text else ""
    if not block.is_line:
        quoted = f"<pre{way} style='{TEXT}'>{text}</pre>"
    elif len(text) <= SHORT:
        line = f"{INDENT}{_format_label(block)}{quoted}{rest}"
        return line if alone else f"<div>{line}</div>"
    return f"<div style=margin-left:{TEXT_MARGIN}>{_format_label(block)}{quoted}{rest}</div>"


def _format_label(block: Block) -> str:
    """The label of a text; the result of a call needs none."""
    if block.label == "result":
        return ""
    if block.label == "warning":
        return f"<b style=color:{WARNING}>!</b> <small style=opacity:{MUTED}>warning</small> "
    return _format_muted(block.label)
