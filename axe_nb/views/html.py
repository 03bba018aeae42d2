"""Draws a run's tree as HTML, for saved notebooks and for the live display.

Both trees use the same functions for rows and texts, so that they look alike. Styles are inline and
short, so that they survive JupyterLab's sanitizer in an untrusted notebook. Text from models and
tools is escaped; answers are rendered as Markdown, in which HTML is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set
from dataclasses import replace
from html import escape

from axe_nb.events import PersonAsked
from axe_nb.messages import Page
from axe_nb.pictures.picture import THUMBNAIL, Thumbnails
from axe_nb.results import RunResult
from axe_nb.secrets import redact
from axe_nb.text import clean, one_line, plural
from axe_nb.views.appearance import (
    COLOURS,
    GAP,
    LEAF_MARGIN,
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
    gradient,
)
from axe_nb.views.markdown import render, render_blocks
from axe_nb.views.outline import (
    FIRST,
    MAX_LISTED,
    SHORT,
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
from axe_nb.views.rows import LINE as WORDS
from axe_nb.views.rows import LINES, Fact, Row, indent_json, make_row, word_question
from axe_nb.views.transcript import Node, State, Transcript

LEVEL = f"margin:0 0 0 {LEVEL_MARGIN};padding:0 0 0 {LEVEL_PADDING};border-left:1px solid {LINE}"
"""Style of a blockquote that indents one level and draws a thin line along it."""

PLAIN = "mathjax_ignore tex2jax_ignore"
"""CSS classes that keep JupyterLab and nbconvert from rendering dollar signs as mathematics."""

BUDGET = 49_000
"""Maximum size of a saved tree's HTML and text in a notebook file, in bytes, without pictures."""

MIN_NAME, MAX_NAME = 11, 15
"""Width of the names in a tree, in em. Longer names are broken into lines."""

PROSE = frozenset(("task", "text so far", "said", "error", "warning", "next", "asked"))
"""Labels of prose texts, which are not set in a code font."""


def twin(result: RunResult, *, name: str = "axe_nb.last()") -> dict[str, str]:
    """Returns the MIME bundle of a finished run's answer and tree, for a saved notebook."""
    return page(Transcript.of(result).whole, name)


def page(root: Node, name: str) -> dict[str, str]:
    outline = Outline(root, name)
    while True:
        text = "\n".join(as_lines(outline))
        html = write_tree(outline, BUDGET - _measure(text))
        size = _measure(html, text)
        if size <= BUDGET or (outline.max_rows == 1 and outline.max_chars < 9):
            return {"text/html": html, "text/plain": text}
        rows, said = min(outline.max_rows, outline.count), outline.answer().text
        told = _measure(_format_answer(outline), said)
        if outline.max_line > 100:
            outline.max_line = max(100, outline.max_line * 4 // 5)
        elif rows > 30:
            outline.max_rows = max(30, rows * BUDGET // size - 1)
        elif told > BUDGET // 2 and len(said) > outline.max_chars:  # the tree keeps the other half
            outline.max_answer = len(said) * max(told + BUDGET - size, BUDGET // 2) // told - 9
        else:
            outline.max_rows = max(1, rows * BUDGET // size)
            outline.max_chars = outline.max_chars * BUDGET // size


def _measure(*texts: str) -> int:
    """Returns the size of texts in a notebook file, which has 14 bytes for the end of a line."""
    lines = [re.sub("<img src='[^']*", "", text).replace("\n", 14 * " ") for text in texts]
    return len(json.dumps(lines, ensure_ascii=False).encode())


def waiting(
    root: Node, name: str, seconds: float, asked: PersonAsked | None = None
) -> dict[str, str]:
    """Returns the MIME bundle of an unfinished run; `name` is an expression for its result."""
    row = make_row(root)
    known = (*row.facts, Fact(f"{seconds:.0f} s")) if seconds >= 1 else row.facts
    line = f"{format_sign(row)} <b>{safe(row.who)}</b> {_format_facts(known)}"
    text = " · ".join((f"{row.look.sign} {row.who}", *map(str, known)))
    note = (
        f"Still running when last seen. Its result, once it has ended: `{name}`. "
        "After a kernel restart: `%axe history`"
    )
    quoted = re.sub("`(.+?)`", r"<code>\1</code>", safe(note))
    words = "\n".join((asked.text, asked.diff)) if asked else ""
    question = f"<pre style='{TEXT}'>{safe(clean(words))}</pre>" if asked else ""
    return {
        "text/html": _wrap(f"<div>{line}</div>{question}<small>{quoted}</small>"),
        "text/plain": f"{text}\n{note.replace('`', '')}",
    }


def answer(result: RunResult) -> dict[str, str]:
    """Returns the MIME bundle of the answer, or of a line that says why there is no answer."""
    outline = Outline(Transcript.of(result).whole, "axe_nb.last()")
    block, sources = outline.answer(), outline.sources()
    if not block.text:
        line = f"(no answer: {make_row(outline.root).asked})"
        return {"text/html": _wrap(safe(line)), "text/plain": line}
    text = f"{block.text}\n\nSources:\n{sources.text}" if sources.text else block.text
    return {"text/html": _wrap(_format_answer(outline)), "text/plain": text}


def write_tree(outline: Outline, room: int = BUDGET) -> str:
    """Formats a run's answer and tree as HTML. Shows as many texts whole as `room` bytes allow."""
    root, warnings = outline.tree, outline.warnings(outline.root)

    def draw(drawing: Drawing) -> str:
        drawing.name = min(max(MIN_NAME, 0.65 * _measure_names(root.rows)), MAX_NAME)
        tree = (
            f"<details{' open' * root.row.is_open} style=line-height:{LINE_HEIGHT}>"
            f"<summary>{format_head(root.row)}</summary>{_format_inside(drawing, root)}</details>"
        )
        return _wrap(_format_answer(outline) + tree + "".join(map(drawing.block, warnings)))

    first = Drawing(frozenset(), outline.max_line)
    html, cut = draw(first), first.cut
    for line in (outline.max_line, 160, 100) if sum(len(b.whole) for b in cut) < room else ():
        if _measure(drawn := draw(Drawing({*map(id, cut)}, line))) <= room:
            return drawn
    room -= _measure(html)
    cut.sort(key=lambda b: FIRST.index(b.label) if b.label in FIRST else len(FIRST))
    whole = set[int]()
    for block in cut:
        if len(block.whole) <= room:
            long, short = (_measure(Drawing({key}).block(block)) for key in (id(block), 0))
            if long - short <= room:
                whole.add(id(block))
                room -= long - short
    return draw(Drawing(whole, outline.max_line)) if whole else html


def _measure_names(entries: Sequence[Entry]) -> int:
    sizes = (max(len(one.row.who), _measure_names(one.rows)) for one in entries)
    return max(sizes, default=0)


def _wrap(inner: str) -> str:
    return f"<div class='{PLAIN}' style=overflow-wrap:break-word>{inner}</div>"


def _format_answer(outline: Outline) -> str:
    block = outline.answer()
    rest = f"<p>… {safe(block.rest)}</p>" if block.rest else ""
    text = format_data(block.text) if block.label == "data" else render(block.text)
    return text + rest + format_sources(outline.sources().links)


def safe(text: str) -> str:
    """Escapes a text for an HTML text node; the result is not safe in an attribute."""
    return escape(text, quote=False)


def hide(text: str) -> str:
    """Removes secrets and control characters from a text, and escapes it for an HTML text node."""
    return safe(clean(redact(text)))


def _format_inside(drawing: Drawing, entry: Entry) -> str:
    rows = (
        f"<details{' open' * inner.row.is_open}><summary>{drawing.row(inner.row)}</summary>"
        f"{_format_inside(drawing, inner)}</details>"
        for inner in entry.rows
    )
    more = f"<div>… {plural(entry.left_out, 'more row')}</div>" if entry.left_out else ""
    margin = TEXT_MARGIN if entry.rows else LEAF_MARGIN
    before, after = ([drawing.block(b, margin) for b in s] for s in (entry.before, entry.after))
    inside = "".join((*before, *rows, more, *after))
    return f"<blockquote style='{LEVEL}'>{inside}</blockquote>" if entry.rows else inside


def format_head(row: Row, clock: str = "") -> str:
    """Formats the root run's row as HTML, with a clock if the row is live."""
    return (
        f"{format_sign(row)} <b>{safe(row.who)}</b> "
        f"<span style=opacity:{MUTED}>{_format_facts(row.facts)}{clock}</span>"
    )


def format_line(row: Row, bar: str = "", clock: str = "", *, name: float = MIN_NAME) -> str:
    """Formats a row below the root as HTML, with a bar and a clock if the row is live.

    Names are `name` em wide, so that the texts beside them are aligned.
    """
    if row.kind == "rest":
        return f"<span style=opacity:{MUTED}>{safe(row.who)}, {safe(row.asked)}</span>"
    # a failure is read whole; other words that are too long for a window end in an ellipsis
    ellipsis = ";overflow:hidden;text-overflow:ellipsis"
    cut = ";white-space:normal" if row.is_failed else ellipsis * (len(row.asked) > SHORT)
    # on a phone, the text is below the name, and both are beside the sign; signs differ in width
    sign = format_sign(row, "" if clock else ";display:inline-block;width:1em")
    styles = (
        f"display:inline-flex;flex-wrap:wrap;width:calc(100% - 3.5em);gap:0 {GAP}"
        ";white-space:nowrap",
        f"flex:1 0 {name:g}em;max-width:100%;white-space:normal", f"flex:9999 12em{cut}",
        f"flex:none;margin-left:auto{f';max-width:30%{ellipsis}' * (len(row.cost) > 18)}",
    )  # fmt: skip
    # the live tree has them in its style sheet
    line, who, asked, edge = ("" if clock else f" style='{style}'" for style in styles)
    number = f" <small style=font-weight:normal;opacity:{MUTED}>{row.number}</small>"
    retry = f" · <span style=display:inline-block>retry <code>{safe(row.retry)}</code></span>"
    cost, title = safe(row.cost) + clock, f" title={row.place}" * bool(row.place)
    return (
        f"{sign} <span{line}><b{title}{who}>{safe(row.who)}{number * bool(row.number)}</b> "
        f"<bdi{asked}>{safe(row.asked)}{retry * bool(row.retry)}{_format_states(row.states)}</bdi>"
        f"{f' <small{edge}>{cost}</small>' * bool(cost)}{bar}</span>"
    )


def _format_states(states: Sequence[State]) -> str:
    """Draws a small square for each sub-agent, in the colour of its state; any failure is red."""
    looks = (LOOKS["error"] if LOOKS[state].tone == "limit" else LOOKS[state] for state in states)
    parts = [
        (colour, f"{at + end:g}em")
        for at, look in enumerate(looks)
        for colour, end in ((look.colour, 0.8), ("#0000", 1))
    ]
    style = f"display:inline-block;font-size:.6em;height:1em;width:{len(states)}em"
    return f" <i style='{style};background:{gradient(parts)}'></i>" if states else ""


def format_sign(row: Row, style: str = "") -> str:
    look = row.look
    return f"<b role=img title='{look.word}' style='color:{look.colour}{style}'>{look.sign}</b>"


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
    """Draws the rows and texts of one tree as HTML."""

    def __init__(self, whole: Set[int] | None = None, line: int = WORDS) -> None:
        """Creates a drawing of a saved tree, or of a live tree if `whole` is None.

        `whole` contains the `id()` of each text to show whole. Texts of rows are cut to `line`
        characters.
        """
        self._is_live, self._whole, self._line = whole is None, whole or frozenset(), line
        self.name: float = MIN_NAME
        self.cut: list[Block] = []
        """Blocks drawn so far whose texts are cut and could be whole."""
        self._thumbnails = Thumbnails()

    def row(self, row: Row) -> str:
        is_whole = row.is_failed or row.kind == "rest"
        asked = row.asked if is_whole else one_line(row.asked, self._line)
        return format_line(replace(row, asked=asked), name=self.name)

    def block(self, block: Block, margin: str = TEXT_MARGIN) -> str:
        """Draws a text and its pictures. Reasoning and long texts other than answers are folded."""
        is_thought, label = block.label in (THOUGHT, THINKS), safe(block.label)
        if id(block) in self._whole:
            block = replace(block, text=block.whole, more=0)
        elif block.whole and not self._is_live:
            self.cut.append(block)
        is_seen = block.in_row and (len(block.text) <= SHORT or block.label == "error")
        is_long = len(block.text) > 300 or block.text.count("\n") >= LINES
        is_folded = is_thought or (is_long and block.label != "answer")
        first, _, text = block.text.partition("\n")
        if is_thought or not is_folded or not text or len(first) > 100:
            text = block.text  # the first line alone does not say what follows
        way = direction(block.text)
        rest = f"<small>… {safe(block.rest)}</small>" if block.rest else ""
        style = f"margin-left:{margin}"
        if block.links:
            shown = _format_links(block.links)
        elif block.label == "answer" and text:
            blocks = render_blocks(text)  # a single paragraph is drawn next to its label
            is_line = len(blocks) == 1 and blocks[0].startswith("<p>")
            shown = (blocks[0].strip()[3:-4] if is_line else "".join(blocks)) + f" {rest}"
        elif block.label in PROSE:
            lines = " style=white-space:pre-wrap" if "\n" in text or "  " in text else ""
            shown = f"<bdi{lines}>{safe(text)}</bdi> {rest}"
        elif block.is_line and not is_folded:
            shown = f"<code{way} style=background:{SHADE}>{safe(text)}</code> " * bool(text) + rest
        else:
            shown = f"<pre{way} style='{TEXT}'>{safe(text)}</pre>{rest}"
        told = _format_muted(label) if is_folded or block.label != "result" else ""
        if is_seen or not (block.text or block.rest):
            shown = ""
        elif is_folded:
            size = len(block.text) + block.more
            size_told = f"<small style=opacity:{MUTED}>{plural(size, 'character')}</small>"
            title = "" if is_thought else f"{safe(one_line(first, 100))} {size_told}"
            shown = f"<details style={style}><summary>{told}{title}</summary>{shown}</details>"
        else:
            if block.label == "warning":
                told = f"<b style=color:{COLOURS['limit']}>!</b> {told}"
            shown = f"<div style={style}>{told}{shown}</div>"
        # a saved page shows each picture once, if there is room for it
        new = (p for p in block.pictures if self._is_live or p not in self._thumbnails)
        urls = map(self._thumbnails.find, new)
        style = f"max-height:{THUMBNAIL}px;max-width:100%;margin:0 0 0 {TEXT_MARGIN}"
        images = "".join(f"<img src='{url}' style='{style}'>" for url in urls if url)
        return f"{shown}<div>{images}</div>" if images else shown


def _format_muted(text: str) -> str:
    return f"<small style=opacity:{MUTED}>{text}</small> "


def format_sources(pages: Sequence[Page]) -> str:
    return f"<div>{_format_muted('Sources')}{_format_links(pages)}</div>" if pages else ""


def _format_links(pages: Sequence[Page]) -> str:
    items = ""
    for page in pages[:MAX_LISTED]:
        host = find_host(page)
        title = safe(one_line(page.title, TITLE) or host)
        attributes = f'href="{escape(page.url)}" rel="noopener noreferrer"{direction(title)}'
        items += f"<li><a {attributes}>{title}</a> {_format_muted(safe(host))}</li>"
    more = f"<small>{count_more(pages)}</small>" if count_more(pages) else ""
    return f"<ol style='margin:0;white-space:normal'>{items}</ol>{more}"


def format_question(asked: PersonAsked) -> str:
    """Formats a question to the user in a live row, with its diff, buttons and text fields."""
    # one line has the name of the file and the first place
    named = r"\A(\(.*\n)?--- .+\n\+\+\+ b/(.+)\n@@ "
    lines = ""
    for line in re.sub(named, r"\1@@ \2, ", clean(asked.diff)).splitlines():
        kind = {"+": "axe-nb-new", "-": "axe-nb-gone", "@": "axe-nb-place"}.get(line[:1], "")
        shown = re.sub(r"^@@ (.*)-\S+ \+(\d+)\S* @@$", r"\1line \2", line)
        lines += f"<div dir=auto class='{kind}'>{safe(shown) or ' '}</div>"
    buttons = "".join(
        f"<button type=button class=axe-nb-answer value='{escape(letter)}'>"
        f"{safe(name)} <kbd>{safe(letter)}</kbd></button>"
        for letter, name in asked.choices
    )
    letters = dict(asked.choices)
    call, _, why = clean(asked.text).partition("\n") if lines else ("", "", clean(asked.text))
    given, label = asked.arguments, "arguments"
    if letters and not asked.call_id:  # a request; it can be read, not edited
        call, given, label = given, "", "look at the request"
    more = f"<details><summary>{label}</summary><pre dir=auto>{safe(call)}</pre></details>"
    sends, leaves = ("Use this", "Back") if letters else ("Use this reply", "Leave unchanged")
    has_line = "r" in letters or not (letters or given)
    hidden, given = " hidden" * bool(letters), safe(indent_json(given))
    edit = (
        f"<form class=axe-nb-edit{hidden}><textarea rows={min(given.count(chr(10)) + 1, 16)} "
        f"aria-label=JSON spellcheck=false>{given}</textarea><small role=alert></small>"
        f"<div class=axe-nb-answers><button class=axe-nb-answer>{sends}</button>"
        f"<button type=button class=axe-nb-answer value=''>{leaves}</button></div></form>"
    )
    reply = (
        f"<form class=axe-nb-reply{hidden}><input aria-label=Answer>"
        "<button class=axe-nb-answer>Answer</button></form>"
    )
    return (
        f'<div class=axe-nb-question role=group aria-label="{escape(word_question(asked))}" '
        f'data-prompt="{escape(asked.prompt)}">'
        f"{f'<pre dir=auto>{safe(why)}</pre>' if why else ''}"
        f"<div class=axe-nb-diff>{lines}</div>{more if call else ''}"
        f"<div class=axe-nb-answers>{buttons}</div>{edit if given else ''}"
        f"{reply if asked.prompt and has_line else ''}</div>"
    )


def format_data(text: str) -> str:
    return f"<pre style='white-space:pre-wrap;margin-bottom:1em;{MONO}'>{safe(text)}</pre>"
