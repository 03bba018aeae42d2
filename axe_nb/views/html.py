"""A tree as HTML: kept in the saved notebook and shown without a kernel, or drawn live. Pure.

Rows and texts are drawn by the same functions in both, so that the live tree and its twin cannot
differ. Styles are inline, short and without theme variables: what survives JupyterLab's sanitizer
in an untrusted notebook. All values are those of `views/appearance.py`; everything that comes from
a model or a tool is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from html import escape
from itertools import groupby
from math import ceil
from typing import Any

from axe_nb.events import PersonAsked
from axe_nb.messages import Page
from axe_nb.pictures.picture import Picture
from axe_nb.pictures.scaled import Thumbnails
from axe_nb.results import RunResult
from axe_nb.text import clean, one_line, plural
from axe_nb.views.appearance import (
    BAR_HEIGHT,
    BAR_WIDTH,
    COLOURS,
    GAP,
    LEVEL_MARGIN,
    LEVEL_PADDING,
    LINE,
    LINE_HEIGHT,
    LOOKS,
    MONO,
    MUTED,
    PICTURE_HEIGHT,
    SHADE,
    TEXT,
    TEXT_MARGIN,
    TRACK,
    WHO_CHARACTER,
    WHO_LEAST,
    WHO_MOST,
    direction,
    gradient,
)
from axe_nb.views.markdown import render
from axe_nb.views.rows import (
    FIRST,
    LINES,
    MAX_LISTED,
    THINKS,
    THOUGHT,
    TITLE,
    Block,
    Entry,
    Fact,
    Outline,
    Row,
    count_more,
    find_host,
    make_row,
    states_of,
)
from axe_nb.views.text import as_lines
from axe_nb.views.transcript import Transcript, group_of
from axe_nb.views.tree import Node, State

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

MARK = "border-bottom:2px solid"
"""Style of facts that need a look: no text colour has enough contrast in both kinds of theme."""

STRIPE, MOST_STRIPES = 0.5, 60
"""Width in em of the part of one sub-agent; of more of them, no strip is drawn."""

STRIP = "display:inline-block;height:.7em"
"""Not text: who cannot tell colours apart has the same in words before it."""

ROOM = 16_000
"""Characters of HTML of all long texts that a saved tree keeps whole."""

FOLDED = 300
"""Characters of a text that a fold would take more room than."""

NAMES = {"answered": "answer", "was told": "task", "said": "text", "text so far": "text"}
"""Label of a text → its name in the line of its fold, where that is another word."""

MAX_RECORDS, MAX_KEYS, MAX_CELL = 100, 10, 300
"""Records, keys and characters in a cell of a table of data; larger data stays JSON."""

CELL = "white-space:pre-wrap;vertical-align:top;text-align"

DATA = f"white-space:pre-wrap;margin-bottom:1em;{MONO}"

CODE = re.compile("`(.+?)`")


def twin(result: RunResult, *, name: str = "axe_nb.last()") -> dict[str, str]:
    """The one bundle that a finished run leaves in a notebook: answer first, then the tree."""
    return page(Transcript.of(result).whole, name)


def twins(results: Sequence[RunResult], *, name: str = "results") -> dict[str, str]:
    """The one bundle of runs that a cell made side by side.

    Args:
        name: what the reader may have bound them to, as a list.
    """
    return page(group_of(results), name)


def page(root: Node, name: str) -> dict[str, str]:
    """The bundle of a tree."""
    outline = Outline(root, name)
    text = "\n".join(as_lines(outline))
    return {"text/html": write_tree(outline), "text/plain": text}


def waiting(root: Node, name: str, seconds: float) -> dict[str, str]:
    """The bundle of an unfinished run: what is known so far, and how to get the rest.

    It stays in notebooks that were saved in mid-run.

    Args:
        name: the expression that gives the result at the end.
    """
    row = make_row(root)
    known = (*row.facts, Fact(f"{seconds:.0f} s")) if seconds >= 1 else row.facts
    line = f"{_format_sign(row)} <b>{safe(row.who)}</b> {_format_facts(known)}"
    text = " · ".join((f"{row.look.sign} {row.who}", *map(str, known)))
    result = "" if root.is_group else f"Its result, once it has ended: `{name}`. "
    note = f"Still running when last seen. {result}After a kernel restart: `%axe history`"
    quoted = CODE.sub(r"<code>\1</code>", safe(note))
    return {
        "text/html": _wrap(f"<div>{line}</div><small>{quoted}</small>"),
        "text/plain": f"{text}\n{note.replace('`', '')}",
    }


def answer(result: RunResult) -> dict[str, str]:
    """The bundle of the answer alone; without one, of a line that says how the run ended."""
    root = Transcript.of(result).whole
    outline = Outline(root, "axe_nb.last()")
    block, sources = outline.answer(), outline.sources()
    if not block.text:
        line = f"(no answer: {make_row(root).asked})"
        return {"text/html": _wrap(safe(line)), "text/plain": line}
    text = f"{block.text}\n\nSources:\n{sources.text}" if sources.text else block.text
    return {"text/html": _wrap(_format_answer(outline)), "text/plain": text}


def write_tree(outline: Outline) -> str:
    """The HTML of an answer and its tree."""
    root = outline.tree
    drawing = Drawing(_choose_folds(root))
    steps = STEPS if any(entry.rows for entry in root.rows) or root.rows[1:] else ""
    tree = (
        f"<details{_format_open(root.row)} style=line-height:{LINE_HEIGHT};white-space:nowrap>"
        f"<summary>{format_head(outline.root, root.row)}{steps}</summary>"
        f"{_format_inside(outline, drawing, root)}</details>"
    )
    warnings = "".join(map(drawing.block, outline.warnings(outline.root)))
    return _wrap(_format_answer(outline) + tree + warnings)


def _wrap(inner: str) -> str:
    return f"<div class='{PLAIN}' style=overflow-wrap:break-word>{inner}</div>"


def _format_answer(outline: Outline) -> str:
    block = outline.answer()
    rest = f"<p>… {safe(block.rest)}</p>" if block.rest else ""
    is_data = block.label == "data"
    text = format_data(block.text, is_whole=not rest) if is_data else render(block.text)
    return text + rest + format_sources(outline.sources().links)


def safe(text: str) -> str:
    """Escaped for a text node; of such texts, only addresses are ever put into an attribute."""
    return escape(text, quote=False)


def _format_inside(outline: Outline, drawing: Drawing, entry: Entry) -> str:
    """The saved texts and rows that a row opens into."""
    again = ""
    if entry.place and outline.name.isidentifier():
        code = f"<code>%%axe --from {outline.name}@{entry.place}</code>"
        label = _format_muted("again from here")
        again = f"<div style=margin-left:{TEXT_MARGIN}>{label}{code}</div>"
    if not entry.rows:
        blocks = (*entry.before, *entry.after)
        alone = len(blocks) == 1 and not again
        return "".join(drawing.block(block, alone=alone) for block in blocks) + again
    column = find_column([inner.row.who for inner in entry.rows])
    rows = (
        f"<details{_format_open(inner.row)}><summary>"
        f"{format_line(inner.row, column, _format_bar(inner.row, outline.steps))}</summary>"
        f"{_format_inside(outline, drawing, inner)}</details>"
        for inner in entry.rows
    )
    more = f"<div>… {plural(entry.left_out, 'more row')}</div>" if entry.left_out else ""
    parts = (*map(drawing.block, entry.before), *rows, more, *map(drawing.block, entry.after))
    return f"<blockquote style='{LEVEL}'>{''.join(parts)}{again}</blockquote>"


def _format_open(row: Row) -> str:
    return " open" if row.is_open else ""


def _format_bar(row: Row, steps: int) -> str:
    """The bar of a row's place in the run, in steps; empty for a very short turn or call."""
    first, length = 100 * row.span.begin // steps, round(100 * row.span.length / steps)
    if length < SLIVER and row.kind != "run":
        return ""
    parts = ((TRACK, f"{first}%"), (row.look.colour, f"{first + length}%"), (TRACK, ""))
    return f"<i style='{BAR};background:{gradient(parts)}'></i>"


def _choose_folds(root: Entry) -> Set[int]:
    """The ids of the blocks whose whole text there is room for."""
    cut = [block for block in _list_blocks(root) if block.whole]
    cut.sort(key=lambda b: FIRST.index(b.label) if b.label in FIRST else len(FIRST))
    chosen, room = set(), ROOM
    for block in cut:
        size = len(safe(block.whole))
        if size <= room:
            chosen.add(id(block))
            room -= size
    return chosen


def _list_blocks(entry: Entry) -> Iterator[Block]:
    yield from entry.before
    for inner in entry.rows:
        yield from _list_blocks(inner)
    yield from entry.after


def format_head(root: Node, row: Row, clock: str = "") -> str:
    """The line of a root: its facts, its clock, and a strip of its sub-agents' states."""
    return (
        f"{_format_sign(row, is_live=bool(clock))} <b>{safe(row.who)}</b> "
        f"<span style=opacity:{MUTED};white-space:normal>{_format_facts(row.facts)}{clock}</span>"
        f"{_format_strip(states_of(root))}"
    )


def format_line(row: Row, column: int, bar: str, clock: str = "") -> str:
    """The line of any other row.

    Args:
        column: width of the names, as `find_column` returns it.
        bar: the bar, in steps or seconds.
        clock: of a live row.
    """
    ellipsis = ";text-overflow:ellipsis" if len(row.asked) > CLIPPED else ""
    task = TASK.format(ellipsis) if bar or column else f"flex:1;overflow:hidden{ellipsis}"
    who = cost = ""
    if column:
        # a name that is longer than its column takes the room that it needs
        width = "auto" if len(row.who) * WHO_CHARACTER > column else f"{column}em"
        who = f" style='flex:0 1 {width};overflow:hidden;text-overflow:ellipsis'"
        cost = " style='flex:0 2 auto;overflow:hidden'"
    return (
        f"<div style=display:inline-flex;width:96%;gap:{GAP}>"
        f"{_format_sign(row, is_live=bool(clock))} <b{who}>{safe(row.who)}</b> "
        f"<bdi style={task}>{safe(row.asked)}</bdi> "
        f"<small{cost}>{safe(row.cost)}{clock}</small>{bar}</div>"
    )


def find_column(names: Sequence[str]) -> int:
    """The width of the names in em, if rows of different names are listed below one another."""
    if len(names) == 1 or names[0].startswith("turn "):
        return 0
    return min(max(WHO_LEAST, ceil(max(map(len, names)) * WHO_CHARACTER)), WHO_MOST)


def _format_sign(row: Row, *, is_live: bool = False) -> str:
    heard = f" role=img aria-label='{row.state}'" if is_live else ""
    return f"<b style=color:{row.look.colour}{heard}>{row.look.sign}</b>"


def _format_facts(facts: Sequence[Fact]) -> str:
    """Facts in one line; parts that need a look have their colour."""
    return " · ".join(map(_format_fact, facts))


def _format_fact(fact: Fact) -> str:
    marks = ", ".join(
        f"<span style='{MARK} {COLOURS[tone]}'>{safe(words)}</span>" for words, tone in fact.marks
    )
    text = safe(fact.text)
    return f"{text} ({marks})" if text and marks else text or marks


def _format_strip(states: Sequence[State]) -> str:
    """The states of several sub-agents in call order, as colours."""
    if not 1 < len(states) <= MOST_STRIPES:
        return ""
    stops, at = [], 0.0
    for colour, run in groupby(LOOKS[state].colour for state in states):
        begin, at = at, at + STRIPE * len(list(run))
        stops.append(f"{colour} {begin:g}em {at:g}em")
    stops.append(f"{colour} 0")  # JupyterLab drops a gradient of one stop where it does not trust
    paint = f"background:linear-gradient(90deg,{','.join(stops)})"
    return f" <i style='{STRIP};width:{at:g}em;{paint}'></i>"


class Drawing:
    """Draws the texts of one tree."""

    def __init__(self, folds: Set[int] | None = None) -> None:
        """Begins a page.

        Args:
            folds: the ids of the texts that are whole in a fold; None = it is live.
        """
        self._is_live, self._folds = folds is None, folds or frozenset()
        self._thumbnails = Thumbnails()

    def block(self, block: Block, alone: bool = False) -> str:
        """A text with its pictures; a long one is folded below its beginning.

        Args:
            alone: True if nothing stands beside it.
        """
        urls = map(self._find_thumbnail, block.pictures)
        images = "".join(f"<img src='{url}' style='{PICTURE}'>" for url in urls if url)
        is_whole, fold = id(block) in self._folds, ""
        if block.label in (THOUGHT, THINKS):
            thought = replace(block, text=block.whole, more=0) if is_whole else block
            return _format_fold(block.label, thought)
        if is_whole and _is_short(block.whole):
            block = replace(block, text=block.whole, more=0)
        elif is_whole:
            name = NAMES.get(block.label, block.label)
            title = f"the whole {name}, {plural(len(block.whole), 'character')}"
            fold = _format_fold(title, Block("", block.whole))
            block = replace(block, more=0)
        shown = _format_block(block, alone and not (images or fold)) if block.text else ""
        return f"{shown}{fold}" + (f"<div>{images}</div>" if images else "")

    def _find_thumbnail(self, picture: Picture) -> str:
        """The URL of a picture's thumbnail; empty if there is no room, or it is saved above."""
        is_above = picture in self._thumbnails and not self._is_live
        return "" if is_above else self._thumbnails.find(picture)


def _is_short(text: str) -> bool:
    return len(text) <= FOLDED and text.count("\n") < LINES


def _format_fold(title: str, block: Block) -> str:
    """A text that a line is clicked for."""
    text = safe(block.text)
    rest = f"<small>… {safe(block.rest)}</small>" if block.rest else ""
    return (
        f"<details style=margin-left:{TEXT_MARGIN}><summary><small style=opacity:{MUTED}>"
        f"{title}</small></summary>"
        f"<pre{direction(text)} style='{TEXT}'>{text}</pre>{rest}</details>"
    )


def _format_muted(text: str) -> str:
    return f"<small style=opacity:{MUTED}>{text}</small> "


def _format_block(block: Block, alone: bool = False) -> str:
    """A text under its row."""
    label = "" if block.label == "result" else _format_muted(safe(block.label))
    if block.label == "warning":
        label = f"<b style=color:{COLOURS['limit']}>!</b> {label}"
    if block.links:
        return f"<div style=margin-left:{TEXT_MARGIN}>{label}{_format_links(block.links)}</div>"
    rest = f"<small>{'… ' if block.text else ''}{safe(block.rest)}</small>" if block.rest else ""
    text = safe(block.text)
    way = direction(text)
    quoted = f"<code{way} style=background:{SHADE}>{text}</code> " if text else ""
    if not block.is_line:
        quoted = f"<pre{way} style='{TEXT}'>{text}</pre>"
    elif len(text) <= SHORT:
        line = f"{INDENT}{label}{quoted}{rest}"
        return line if alone else f"<div>{line}</div>"
    return f"<div style=margin-left:{TEXT_MARGIN}>{label}{quoted}{rest}</div>"


def format_sources(pages: Sequence[Page]) -> str:
    """The list of pages below an answer; empty if there are none."""
    heading = f"<small style=opacity:{MUTED}>Sources</small>"
    return f"<div>{heading}{_format_links(pages)}</div>" if pages else ""


def _format_links(pages: Sequence[Page]) -> str:
    """A numbered list of links, beside each of which stands the host that it leads to."""
    items = "".join(f"<li>{_format_link(page)}</li>" for page in pages[:MAX_LISTED])
    more = f"<small>{count_more(pages)}</small>" if count_more(pages) else ""
    return f"<ol style='margin:0;white-space:normal'>{items}</ol>{more}"


def _format_link(page: Page) -> str:
    host = find_host(page)
    title = safe(one_line(page.title, TITLE) or host)
    link = f'<a href="{escape(page.url)}" rel="noopener noreferrer"{direction(title)}>{title}</a>'
    return f"{link} <small style=opacity:{MUTED}>{safe(host)}</small>"


def format_question(asked: PersonAsked) -> str:
    """An open question of a live row, with its diff and a button for each answer."""
    lines = "".join(
        f"<div dir=auto class='{_find_class(line)}'>{safe(line) or ' '}</div>"
        for line in clean(asked.diff).splitlines()
    )
    buttons = "".join(
        f"<button type=button class=axe-nb-answer value='{escape(letter)}'>"
        f"{safe(name)} <kbd>{safe(letter)}</kbd></button>"
        for letter, name in asked.choices
    )
    return (
        f'<div class=axe-nb-question data-prompt="{escape(asked.prompt)}" '
        f'data-arguments="{escape(asked.arguments)}"><pre dir=auto>{safe(clean(asked.text))}'
        f"</pre><div class=axe-nb-diff>{lines}</div><div class=axe-nb-answers>{buttons}</div></div>"
    )


def _find_class(line: str) -> str:
    """The class of a line of a diff: new, gone, or neither."""
    if line.startswith(("+++", "---")):
        return ""
    return {"+": "axe-nb-new", "-": "axe-nb-gone"}.get(line[:1], "")


def format_data(text: str, *, is_whole: bool) -> str:
    """A JSON text as it stands above a tree: as a table if it is one, else as it is.

    Args:
        is_whole: False = some of it is left out, so that it cannot be read.
    """
    table = make_table(text) if is_whole else ""
    return table or f"<pre style='{DATA}'>{safe(text)}</pre>"


def make_table(text: str) -> str:
    """The table of a JSON text; empty if that is not a list of flat records.

    Texts are on the left, numbers on the right; `null`, `true` and `false` are in italics, so that
    no value looks like another. A key that a record does not have is an empty cell.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(data, list) or not 0 < len(data) <= MAX_RECORDS:
        return ""
    if not all(isinstance(record, dict) and record for record in data):
        return ""
    keys = list(dict.fromkeys(key for record in data for key in record))
    values = (value for record in data for value in record.values())
    if len(keys) > MAX_KEYS or not all(map(_fits, (*keys, *values))):
        return ""
    numeric = {key for key in keys if all(_is_number(record.get(key, 0)) for record in data)}
    head = "".join(_format_cell("th", key, is_right=key in numeric) for key in keys)
    rows = (
        "".join(_format_cell("td", v, is_right=_is_number(v)) for v in (r.get(k, "") for k in keys))
        for r in data
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _fits(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CELL
    return value is None or isinstance(value, bool | int | float)


def _format_cell(tag: str, value: Any, *, is_right: bool) -> str:
    side = "right" if is_right else "left"
    shown = safe(value if isinstance(value, str) else json.dumps(value))
    if value is None or isinstance(value, bool):
        shown = f"<em>{shown}</em>"
    elif isinstance(value, str):
        shown = f"<bdi>{shown}</bdi>"
    return f"<{tag} style='{CELL}:{side}'>{shown}</{tag}>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
