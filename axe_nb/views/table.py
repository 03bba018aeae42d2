"""Tables in notebooks, all with the same look; without their styles they are plain HTML tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from axe_nb.secrets import redact
from axe_nb.text import align_columns, clean, cut_chars, plural
from axe_nb.views.appearance import COLOURS, LINE, LOOKS, MUTED, TRACK
from axe_nb.views.html import PLAIN, hide

MOST_ROWS = 500
"""Maximum number of rows that are displayed."""

MOST_CHARS = 2_000
"""Maximum number of characters in a cell."""

MAX_TREES = 100_000
"""Maximum length of the trees and lists inside a table's rows, in characters."""

WIDE = "min-width:10em;overflow-wrap:anywhere"
FIT = "width:0;min-width:100%"  # takes the width of its cell, and never widens it
CUT = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
SIGNS = {look.sign: look.colour for look in reversed([*LOOKS.values()])}
"""Colour of each state's sign; the sign of several states has the first one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The output of a command: a table in a notebook, otherwise text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: int = 0
    """Number of columns with numbers, at the right end of the table."""
    wide: int = -1
    """Number of the column with the longest texts; -1 if no column is wider than its texts."""
    text: str = ""
    """Text shown outside a notebook; empty for the table as aligned text."""

    def __repr__(self) -> str:
        shown = self.rows[:MOST_ROWS]
        rows = ([cut_chars(redact(cell), MOST_CHARS, "…") for cell in row] for row in shown)
        lines = [*align_columns([self.head, *rows], self.right)]
        lines += count_left(len(self.rows))
        return clean(redact(self.text or "\n".join(lines)))

    def _repr_html_(self) -> str:
        rows, total = (map(format_cell, row) for row in self.rows), len(self.rows)
        table = format_table(self.head, rows, right=self.right, wide=self.wide, total=total)
        return f"<div class='{PLAIN}'>{table}</div>"


def format_cell(text: str) -> str:
    """Formats a text as HTML. A sign of a state at its start has the colour of the state."""
    shown = hide(cut_chars(redact(text), MOST_CHARS, "…")).replace("\n", "<br>")
    colour = SIGNS.get(shown[:1])
    return f"<span style=color:{colour}>{shown[0]}</span>{shown[1:]}" if colour else shown


def format_table(
    head: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    right: int = 0,
    wide: int = -1,
    total: int = 0,
    is_cut: bool = False,
) -> str:
    """Formats rows of HTML cells. `right` and `wide` are those of a Listing.

    Of `total` rows, those beyond the first `MOST_ROWS` are only counted. If `is_cut`, the column
    `wide` takes the width that the others leave.
    """
    styles = []
    for at in range(len(head)):
        side = "left" if at < len(head) - right else "right"
        room = WIDE if at == wide else "white-space:nowrap"
        room = "width:100%;min-width:8em;overflow-wrap:anywhere" if at == wide and is_cut else room
        styles.append(f"text-align:{side};vertical-align:top;padding:.4em .5em;{room}")

    def draw(tag: str, cells: Iterable[str], more: str) -> str:
        drawn = zip(cells, styles, strict=True)
        return "".join(f"<{tag} style='{style}{more}'>{cell}</{tag}>" for cell, style in drawn)

    body = "".join(f"<tr>{draw('td', row, '')}</tr>" for row in islice(rows, MOST_ROWS))
    more = "".join(f"<div style='opacity:{MUTED}'>{line}</div>" for line in count_left(total))
    full = ";width:100%;table-layout:auto" if is_cut else ""
    names = draw("th", head, f";font-weight:600;border-bottom:1px solid {LINE}")
    return (
        "<div style=overflow-x:auto>"
        f"<table style='font-variant-numeric:tabular-nums{full}'>"
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}</div>"
    )


def fold(cell: str, inner: str) -> str:
    box = f"<div style='width:28em;min-width:100%'>{inner}</div>"
    return f"<details><summary>{cell}</summary>{box}</details>" if inner else cell


def cut_line(html: str) -> str:
    return f"<div style='{CUT};{FIT}'>{html}</div>"


def count_left(total: int, where: str = ".rows has all rows") -> list[str]:
    """Returns a line that counts the rows that are not displayed; empty if all are."""
    return [f"… {plural(total - MOST_ROWS, 'more row')}: {where}"] if total > MOST_ROWS else []


def format_bar(share: float) -> str:
    """Draws a progress bar that is filled up to `share`, a number from 0 to 1."""
    stops = f"{COLOURS['running']} {share:.1%},{TRACK} 0"
    return (
        f"<div style='max-width:30em;height:.4em;background:linear-gradient(90deg,{stops})'></div>"
    )
