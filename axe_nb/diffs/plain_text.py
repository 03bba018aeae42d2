"""The difference of two trees as text: `[-gone-]{+new+}`, as `git diff --word-diff`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axe_nb.diffs.outline import DIFFERS, SAME, Block, Entry, Outline, Part
from axe_nb.diffs.words import Piece
from axe_nb.text import align_columns

NUMBERS = 3
"""Columns of numbers: of both trees, and the change."""

MARKS = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("{+", "+}")}


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
    text = "".join(map(_mark, block.pieces))
    if block.is_line:
        yield f"{indent}{block.label}: {text}".rstrip()
    else:
        yield f"{indent}{block.label}:"
        for line in text.split("\n"):
            yield f"{indent}  {line}".rstrip()
    if block.rest:
        yield f"{indent}  … {block.rest}"


def _mark(piece: Piece) -> str:
    begin, end = MARKS[piece.kind]
    return f"{begin}{piece.text}{end}"
