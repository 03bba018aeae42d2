"""The parts of two compared texts that are shown: around what changed, and as far as there is room.

Source: design README.
"""

from __future__ import annotations

from collections.abc import Sequence

from axe_nb.diffs.words import Piece
from axe_nb.views.rows import POINTER

LEAST = 200
"""Characters of one text, at least."""

CONTEXT = 60
"""Characters that are the same, shown beside a change."""

MAX_LINES = 12
"""Lines shown of a text that is there on one side only."""

_BLANKS = str.maketrans({" ": "␣", "\t": "⇥", "\n": "↵\n"})
"""Blanks as they are shown where nothing else changed."""


def reveal(piece: Piece) -> Piece:
    """Returns a piece with its blanks shown, if it has nothing else that changed."""
    if piece.kind == "same" or not piece.text.isspace():
        return piece
    return piece._replace(text=piece.text.translate(_BLANKS))


def shorten(pieces: Sequence[Piece], room: int) -> tuple[list[Piece], int]:
    """Returns the pieces that fit, and how many changed characters are left out.

    Args:
        pieces: those of two texts.
        room: characters.
    """
    shown: list[Piece] = []
    left = 0
    for number, piece in enumerate(pieces):
        if room <= 0:
            left += len(piece.text) if piece.kind != "same" else 0
            continue
        if piece.kind == "same":
            text = _cut_same(piece.text, number > 0, number < len(pieces) - 1)
        else:
            text = _cut_changed(piece.text, max(room // 2, LEAST // 2))
            left += len(piece.text) - len(text)
            text += "…" if len(text) < len(piece.text) else ""
        shown.append(Piece(piece.kind, text))
        room -= len(text)
    return shown, left


def _cut_same(text: str, is_after: bool, is_before: bool) -> str:
    """Returns the text beside changes, without its middle; whole words, unless they are huge."""
    if len(text) <= (is_after + is_before + 1) * CONTEXT:
        return text
    head = text[:CONTEXT] if is_after else ""
    tail = text[-CONTEXT:] if is_before else ""
    first, last = head.rfind(" "), tail.find(" ")
    if first > CONTEXT // 2:
        head = head[: first + 1]
    if 0 <= last < CONTEXT // 2:
        tail = tail[last:]
    return f"{head}…{tail}"


def _cut_changed(text: str, size: int) -> str:
    """Returns the beginning of a text; all of it if hardly more would be left out."""
    if len(text) <= size + POINTER:
        size = len(text)
    lines = text[:size].split("\n")
    return text[:size] if len(lines) <= MAX_LINES + 1 else "\n".join(lines[:MAX_LINES])
