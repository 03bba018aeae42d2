"""The difference of two trees as HTML that is kept in a saved notebook. Pure.

No script, no style element: styles are inline, and without any, `del` and `ins` still show what
changed.
Source: product.md "Notebook", "Runs are recordings".
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from axe_nb.diffs.outline import DIFFERS, SAME, Block, Outline, Part
from axe_nb.diffs.words import Piece
from axe_nb.views.appearance import COLOURS, GONE, LINE_HEIGHT, MUTED, NEW, SHADE, TEXT, TEXT_MARGIN
from axe_nb.views.html import LEVEL, PLAIN

TAGS = {"gone": ("del", GONE), "new": ("ins", NEW)}
"""Kind of a piece → its element and colour."""

_DIFFERS = f"<b style=color:{COLOURS['limit']}>{DIFFERS}</b>"


def format_html(outline: Outline) -> str:
    """Returns the difference as HTML."""
    sign = f"<b style=color:{COLOURS['good']}>{SAME}</b>" if outline.is_same else _DIFFERS
    return (
        f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'>"
        f"<div>{sign} <b>{_escape(outline.who)}</b> "
        f"<span style=opacity:{MUTED}>{_escape(outline.summary)}</span></div>"
        f"{_format_table(outline.rows)}"
        f"<div style=opacity:{MUTED}>{_escape(outline.same_figures)}</div>"
        f"{_format_parts(outline.parts)}</div>"
    )


def _escape(text: str) -> str:
    return escape(text, quote=False)


def _format_table(rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    (_, a, b, change), *figures = rows
    names = ((a, GONE), (b, NEW))
    heads = (f"<span style=background:{hue}>{_escape(name)}</span>" for name, hue in names)
    head = "".join(f"<th>{cell}</th>" for cell in ("", *heads, change))
    body = "".join(
        f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in row)}</tr>" for row in figures
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _format_parts(parts: Sequence[Part]) -> str:
    return "".join(map(_format_part, parts))


def _format_part(part: Part) -> str:
    if isinstance(part, str):
        return f"<div style=opacity:{MUTED}>{_escape(part)}</div>"
    if isinstance(part, Block):
        return _format_block(part)
    return (
        f"<details{' open' if part.is_open else ''}><summary>{_DIFFERS} <b>{_escape(part.who)}</b> "
        f"<small style=opacity:{MUTED}>{_escape(part.facts)}</small></summary>"
        f"<blockquote style='{LEVEL}'>{_format_parts(part.parts)}</blockquote></details>"
    )


def _format_block(block: Block) -> str:
    text = "".join(map(_tag, block.pieces))
    rest = f"<small>… {_escape(block.rest)}</small>" if block.rest else ""
    quoted = f"<pre style='{TEXT}'>{text}</pre>"
    if block.is_line:
        quoted = f" <code style=background:{SHADE};white-space:pre-wrap>{text}</code> "
    return (
        f"<div style=margin-left:{TEXT_MARGIN}><small style=opacity:{MUTED}>"
        f"{_escape(block.label)}</small>{quoted}{rest}</div>"
    )


def _tag(piece: Piece) -> str:
    if piece.kind == "same":
        return _escape(piece.text)
    name, colour = TAGS[piece.kind]
    return f"<{name} style=background:{colour}>{_escape(piece.text)}</{name}>"
