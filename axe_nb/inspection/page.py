"""A request as people see it: what fills its context, what is new in it, its body.

All of it has passed the filter for secrets. Plain text for terminals; HTML without scripts for
notebooks, always the same for the same request.
Source: product.md "Runs are recordings"; D-60.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any

from axe_nb.inspection.context import SOURCES, ContextTokens
from axe_nb.inspection.json_text import cut_texts, format_json, hide_pictures
from axe_nb.redaction import find_filter
from axe_nb.text import clean, plural
from axe_nb.views.appearance import GAP, HUES, LINE_HEIGHT, MUTED, SWATCH, TEXT, TEXT_MARGIN, TRACK
from axe_nb.views.html import PLAIN

MAX_TEXT = 1_000
"""Characters shown of one text of a body."""

MAX_BODY = 20_000
"""Characters shown of a body."""

MAX_CHANGES = 30
"""Changes that are listed."""

SCROLLS = "max-height:40em;overflow:auto;margin:0;line-height:1.3"
"""Style of a body in a notebook, which is often long."""

BAR = 30
"""Characters of the bar of a source that fills the whole context."""

COLOURS: Mapping[str, str] = dict(zip(SOURCES, HUES, strict=True))
"""Source → its colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One request, to be shown."""

    agent: str
    facts: Sequence[str]
    """Model, place, attempt."""
    note: str
    """The reason why the body is not one that was sent; empty if it is."""
    is_first: bool
    """True for the first turn of its run."""
    changed: Sequence[str]
    context: ContextTokens
    protocol: str
    body: Mapping[str, Any]
    size: int
    """Bytes of the body."""
    pointer: str
    """Expression for the whole body; empty = it is not cut."""

    def text(self) -> str:
        """Returns it as plain text."""
        head = " · ".join(filter(None, [self.agent, *self._list_facts()]))
        changes = [f"+ {change}" for change in self._list_changes()]
        parts = [head, *_draw_bars(self.context), "", f"{self._news}:", *changes, ""]
        return _make_safe("\n".join([*parts, f"{self._title}:", *self._format_body()]))

    def html(self) -> str:
        """Returns it as HTML."""
        facts = " · ".join(map(_escape, self._list_facts()))
        changes = "".join(f"<div>+ {_escape(change)}</div>" for change in self._list_changes())
        body = _escape("\n".join(self._format_body()))
        return (
            f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'><div><b>{_escape(self.agent)}"
            f"</b> <span style=opacity:{MUTED}>{facts}</span></div>{_draw_stripe(self.context)}"
            f"<details open><summary>{self._news}</summary>"
            f"<div style=margin-left:{TEXT_MARGIN}>{changes}</div></details>"
            f"<details open><summary>{self._title}</summary>"
            f"<pre style='{TEXT};{SCROLLS}'>{body}</pre></details></div>"
        )

    @property
    def _news(self) -> str:
        return "first turn" if self.is_first else "since the previous turn"

    @property
    def _title(self) -> str:
        return f"body ({self.protocol}, {plural(self.size, 'byte')})"

    def _list_facts(self) -> list[str]:
        return [*self.facts, self.context.size, *filter(None, [self.note])]

    def _list_changes(self) -> Iterator[str]:
        yield from self.changed[:MAX_CHANGES]
        if (more := len(self.changed) - MAX_CHANGES) > 0:
            yield f"{more:,} more"

    def _format_body(self) -> Iterator[str]:
        body = hide_pictures(find_filter().json(self.body))
        if not self.pointer:
            yield format_json(body)
            return
        short = cut_texts(body, MAX_TEXT)
        text = format_json(short)
        yield text[:MAX_BODY]
        if short != body or len(text) > MAX_BODY:
            yield f"… cut; in full: {self.pointer}"


def _make_safe(text: str) -> str:
    """Returns a text without secrets, and without what could harm a terminal."""
    return clean(find_filter().text(text))


def _escape(text: str) -> str:
    return escape(_make_safe(text), quote=False)


def _list_shares(context: ContextTokens) -> list[tuple[str, int]]:
    return [(source, count) for source, count in context.items() if count]


def _format_share(count: int, whole: int) -> str:
    return f"{count / whole:.0%}" if 100 * count >= whole else "<1%"


def _draw_bars(context: ContextTokens) -> Iterator[str]:
    """Yields a line with a bar for each source."""
    whole = max(context.total, 1)
    for source, count in _list_shares(context):
        bar = "█" * round(BAR * count / whole) or "▏"
        yield f"{source:<13}  {count:>9,}  {_format_share(count, whole):>4}  {bar}"


def _draw_stripe(context: ContextTokens) -> str:
    """Returns one bar of all sources, and the names of its colours."""
    shares, whole = _list_shares(context), max(context.total, 1)
    ends = accumulate(count for _, count in shares)
    stops = (
        f"{COLOURS[source]} 0 {round(100 * end / whole)}%"
        for (source, _), end in zip(shares, ends, strict=True)
    )
    names = "".join(
        f"<span style=white-space:nowrap;margin-right:{GAP}>"
        f"<b style=color:{COLOURS[source]}>{SWATCH}</b> {source} {count:,} "
        f"<small style=opacity:{MUTED}>{_escape(_format_share(count, whole))}</small></span> "
        for source, count in shares
    )
    colours = ",".join((*stops, f"{TRACK} 0"))
    return (
        f"<div style='height:.8em;margin:.2em 0;background:linear-gradient(90deg,{colours})'></div>"
        f"<div>{names}</div>"
    )
