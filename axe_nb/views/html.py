"""HTML of a run's tree, for saved notebooks and for the live display.

Both are drawn by the same functions, so that they cannot differ. Styles are inline, short and
without theme variables, so that they survive JupyterLab's sanitizer in an untrusted notebook.
Everything that comes from a model or a tool is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from html import escape
from itertools import groupby

from axe_nb.events import PersonAsked
from axe_nb.messages import Page
from axe_nb.pictures.picture import THUMBNAIL, Thumbnails
from axe_nb.results import RunResult
from axe_nb.secrets import redact
from axe_nb.text import clean, one_line, plural
from axe_nb.views.appearance import (
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
    SHADE,
    TEXT,
    TEXT_MARGIN,
    direction,
)
from axe_nb.views.markdown import render
from axe_nb.views.outline import (
    FIRST,
    MAX_LISTED,
    THINKS,
    THOUGHT,
    TITLE,
    Block,
    Entry,
    Outline,
    as_lines,
    count_more,
    find_host,
)
from axe_nb.views.rows import LINES, Fact, Row, make_row
from axe_nb.views.transcript import Node, Transcript

LEVEL = f"margin:0 0 0 {LEVEL_MARGIN};padding:0 0 0 {LEVEL_PADDING};border-left:1px solid {LINE}"
"""Style of a blockquote that indents a level and draws a thin line along it."""

BAR = f"flex:0 99 {BAR_WIDTH};height:.4em;margin:auto 0"
"""Style of a bar. In a narrow row, the bar shrinks first, then cost and name, and last the task."""

PLAIN = "mathjax_ignore tex2jax_ignore"
"""Classes of JupyterLab and nbconvert that keep dollar signs from being typeset."""

ROOM = 16_000
"""Maximum characters of HTML for the long texts that a saved tree keeps whole, in total."""


def twin(result: RunResult, *, name: str = "axe_nb.last()") -> dict[str, str]:
    """Returns the MIME bundle of a finished run for a saved notebook: its answer and its tree."""
    return page(Transcript.of(result).whole, name)


def page(root: Node, name: str) -> dict[str, str]:
    outline = Outline(root, name)
    text = "\n".join(as_lines(outline))
    return {"text/html": write_tree(outline), "text/plain": text}


def waiting(root: Node, name: str, seconds: float) -> dict[str, str]:
    """Returns the MIME bundle of an unfinished run; `name` is the expression for its result."""
    row = make_row(root)
    known = (*row.facts, Fact(f"{seconds:.0f} s")) if seconds >= 1 else row.facts
    line = f"{format_sign(row)} <b>{safe(row.who)}</b> {_format_facts(known)}"
    text = " · ".join((f"{row.look.sign} {row.who}", *map(str, known)))
    note = (
        f"Still running when last seen. Its result, once it has ended: `{name}`. "
        "After a kernel restart: `%axe history`"
    )
    quoted = re.sub("`(.+?)`", r"<code>\1</code>", safe(note))
    return {
        "text/html": _wrap(f"<div>{line}</div><small>{quoted}</small>"),
        "text/plain": f"{text}\n{note.replace('`', '')}",
    }


def answer(result: RunResult) -> dict[str, str]:
    """Returns the MIME bundle of the answer alone, or of a line that says why there is none."""
    root = Transcript.of(result).whole
    outline = Outline(root, "axe_nb.last()")
    block, sources = outline.answer(), outline.sources()
    if not block.text:
        line = f"(no answer: {make_row(root).asked})"
        return {"text/html": _wrap(safe(line)), "text/plain": line}
    text = f"{block.text}\n\nSources:\n{sources.text}" if sources.text else block.text
    return {"text/html": _wrap(_format_answer(outline)), "text/plain": text}


def write_tree(outline: Outline) -> str:
    """Returns the HTML of a run's answer and tree."""
    root = outline.tree
    cut = [block for block in _list_blocks(root) if block.whole]
    cut.sort(key=lambda b: FIRST.index(b.label) if b.label in FIRST else len(FIRST))
    whole, room = set[int](), ROOM
    for block in cut:
        if (size := len(safe(block.whole))) <= room:
            whole.add(id(block))
            room -= size
    drawing = Drawing(whole)
    tree = (
        f"<details{' open' * root.row.is_open} style=line-height:{LINE_HEIGHT};white-space:nowrap>"
        f"<summary>{format_head(outline.root, root.row)}</summary>"
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
    text = format_data(block.text) if is_data else render(block.text)
    return text + rest + format_sources(outline.sources().links)


def safe(text: str) -> str:
    """Escapes a text for an HTML text node; it is not safe in an attribute."""
    return escape(text, quote=False)


def hide(text: str) -> str:
    """Removes secrets and control characters, and escapes the text for an HTML text node."""
    return safe(clean(redact(text)))


def _format_inside(outline: Outline, drawing: Drawing, entry: Entry) -> str:
    again = ""
    if entry.place and outline.name.isidentifier():
        code = f"<code>%%axe --from {outline.name}@{entry.place}</code>"
        again = (
            f"<div style=margin-left:{TEXT_MARGIN}>{_format_muted('again from here')}{code}</div>"
        )
    if not entry.rows:
        return "".join(map(drawing.block, (*entry.before, *entry.after))) + again
    rows = (
        f"<details{' open' * inner.row.is_open}><summary>"
        f"{format_line(inner.row)}</summary>"
        f"{_format_inside(outline, drawing, inner)}</details>"
        for inner in entry.rows
    )
    more = f"<div>… {plural(entry.left_out, 'more row')}</div>" if entry.left_out else ""
    parts = (*map(drawing.block, entry.before), *rows, more, *map(drawing.block, entry.after))
    return f"<blockquote style='{LEVEL}'>{''.join(parts)}{again}</blockquote>"


def _list_blocks(entry: Entry) -> Iterator[Block]:
    yield from entry.before
    for inner in entry.rows:
        yield from _list_blocks(inner)
    yield from entry.after


def format_head(root: Node, row: Row, clock: str = "") -> str:
    """Formats the root's line: its facts, its clock, and a strip of its sub-agents' states."""
    calls = [call for turn in root.turns for call in turn.calls]
    strip, states = "", [child.state for call in calls for child in call.children]
    if 1 < len(states) <= 60:
        stops, at = [], 0.0
        for colour, run in groupby(LOOKS[state].colour for state in states):
            begin, at = at, at + 0.5 * len(list(run))
            stops.append(f"{colour} {begin:g}em {at:g}em")
        stops.append(f"{colour} 0")  # JupyterLab's sanitizer drops gradients with a single stop
        paint = f"background:linear-gradient(90deg,{','.join(stops)})"
        # the strip needs no text: the facts in front of it say the same as its colours
        strip = f" <i style='display:inline-block;height:.7em;width:{at:g}em;{paint}'></i>"
    return (
        f"{format_sign(row, is_live=bool(clock))} <b>{safe(row.who)}</b> "
        f"<span style=opacity:{MUTED};white-space:normal>{_format_facts(row.facts)}{clock}</span>"
        f"{strip}"
    )


def format_line(row: Row, bar: str = "", clock: str = "") -> str:
    """Formats the line of a row other than the root's, with a bar and a clock if it is live."""
    # a task too long for most windows ends in an ellipsis
    ellipsis = ";text-overflow:ellipsis" if len(row.asked) > 40 else ""
    who = cost = ""
    task = f"flex:1;overflow:hidden{ellipsis}"
    if row.kind != "turn":
        # names have one width, so that tasks are aligned; 40 characters of a task fit
        task = f"'flex:1 22em;overflow:hidden{ellipsis}'"
        who = " style='flex:0 1 9em;overflow:hidden;text-overflow:ellipsis'"
        cost = " style='flex:0 2 auto;overflow:hidden'"
    return (
        f"<div style=display:inline-flex;width:96%;gap:{GAP}>"
        f"{format_sign(row, is_live=bool(clock))} <b{who}>{safe(row.who)}</b> "
        f"<bdi style={task}>{safe(row.asked)}</bdi> "
        f"<small{cost}>{safe(row.cost)}{clock}</small>{bar}</div>"
    )


def format_sign(row: Row, *, is_live: bool = False) -> str:
    heard = f" role=img aria-label='{row.state}'" if is_live else ""
    return f"<b style=color:{row.look.colour}{heard}>{row.look.sign}</b>"


def _format_facts(facts: Sequence[Fact]) -> str:
    shown = []
    for fact in facts:
        marks = ", ".join(
            # no text colour has enough contrast in both light and dark themes
            f"<span style='border-bottom:2px solid {COLOURS[tone]}'>{safe(text)}</span>"
            for text, tone in fact.marks
        )
        text = safe(fact.text)
        shown.append(f"{text} ({marks})" if text and marks else text or marks)
    return " · ".join(shown)


class Drawing:
    """Draws the texts of one tree."""

    def __init__(self, whole: Set[int] | None = None) -> None:
        """`whole` contains the ids of the blocks to show whole; None means a live tree."""
        self._is_live, self._whole = whole is None, whole or frozenset()
        self._thumbnails = Thumbnails()

    def block(self, block: Block) -> str:
        """Draws a text with its pictures; a long text or reasoning is folded."""
        is_whole, is_thought = id(block) in self._whole, block.label in (THOUGHT, THINKS)
        if is_whole:
            block = replace(block, text=block.whole, more=0)
        is_long = len(block.text) > 300 or block.text.count("\n") >= LINES
        is_folded = is_thought or (is_whole and is_long)
        text, way, label = safe(block.text), direction(block.text), safe(block.label)
        rest = f"<small>… {safe(block.rest)}</small>" if block.rest else ""
        if block.links:
            shown = _format_links(block.links)
        elif block.is_line and not is_folded:
            shown = f"<code{way} style=background:{SHADE}>{text}</code> {rest}"
        else:
            shown = f"<pre{way} style='{TEXT}'>{text}</pre>{rest}"
        if is_folded:
            size = f"<small style=opacity:{MUTED}>{plural(len(block.text), 'character')}</small>"
            title = "" if is_thought else f"{safe(one_line(block.text, 60))} {size}"
            shown = (
                f"<details style=margin-left:{TEXT_MARGIN}><summary>{_format_muted(label)}{title}"
                f"</summary>{shown}</details>"
            )
        elif block.text:
            told = "" if block.label == "result" else _format_muted(label)
            if block.label == "warning":
                told = f"<b style=color:{COLOURS['limit']}>!</b> {told}"
            shown = f"<div style=margin-left:{TEXT_MARGIN}>{told}{shown}</div>"
        else:
            shown = ""
        # a saved page shows each picture once, if there is room for it
        new = (p for p in block.pictures if self._is_live or p not in self._thumbnails)
        urls = map(self._thumbnails.find, new)
        style = f"max-height:{THUMBNAIL}px;max-width:100%;margin:0 0 0 {TEXT_MARGIN}"
        images = "".join(f"<img src='{url}' style='{style}'>" for url in urls if url)
        return f"{shown}<div>{images}</div>" if images else shown


def _format_muted(text: str) -> str:
    return f"<small style=opacity:{MUTED}>{text}</small> "


def format_sources(pages: Sequence[Page]) -> str:
    heading = f"<small style=opacity:{MUTED}>Sources</small>"
    return f"<div>{heading}{_format_links(pages)}</div>" if pages else ""


def _format_links(pages: Sequence[Page]) -> str:
    items = ""
    for page in pages[:MAX_LISTED]:
        host = find_host(page)
        title = safe(one_line(page.title, TITLE) or host)
        attributes = f'href="{escape(page.url)}" rel="noopener noreferrer"{direction(title)}'
        where = f"<small style=opacity:{MUTED}>{safe(host)}</small>"
        items += f"<li><a {attributes}>{title}</a> {where}</li>"
    more = f"<small>{count_more(pages)}</small>" if count_more(pages) else ""
    return f"<ol style='margin:0;white-space:normal'>{items}</ol>{more}"


def format_question(asked: PersonAsked) -> str:
    """Formats an open question in a live row, with its diff and a button for each answer."""
    lines = ""
    for line in clean(asked.diff).splitlines():
        kind = {"+": "axe-nb-new", "-": "axe-nb-gone"}.get(line[:1], "")
        kind = "" if line.startswith(("+++", "---")) else kind
        lines += f"<div dir=auto class='{kind}'>{safe(line) or ' '}</div>"
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


def format_data(text: str) -> str:
    return f"<pre style='white-space:pre-wrap;margin-bottom:1em;{MONO}'>{safe(text)}</pre>"
