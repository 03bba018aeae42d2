"""The difference of two texts, word by word, in bounded time whatever the texts are.

Lines are aligned first, then the words of changed lines. A text of one long line, as JSON often is,
is compared by words alone. What is shown are the parts around what changed, as far as there is
room.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from axe_nb.text import count_common
from axe_nb.views.rows import POINTER

MAX_LINES = 2_000
"""Lines between the equal beginning and end; if there are more, all of them are one change."""

MAX_CHARS = 8_000
"""Characters of changed lines that are compared by words; the lines after them are shown whole."""

LONGEST = 40
"""Characters of one word; longer ones are compared in parts."""

_WORD = re.compile(
    # scripts without spaces: each character is a word
    rf"[\u3040-\u30ff\u3400-\u9fff]|\d{{1,20}}[.,]\d{{1,20}}|[^\W\u3040-\u30ff\u3400-\u9fff]{{1,{LONGEST}}}"
    rf"|\n|[^\S\n]{{1,{LONGEST}}}|[^\w\s]"
)

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

_FIRST_WORD, _LAST_WORD = re.compile(r"\A[\w.,]*"), re.compile(r"[\w.,]*\Z")

LEAST, CONTEXT = 200, 60
"""Characters shown of one text, at least, and of what is the same beside a change."""

MAX_SHOWN = 12
"""Lines shown of a text that is there on one side only."""

_BLANKS = str.maketrans({" ": "␣", "\t": "⇥", "\n": "↵\n"})
"""Blanks as they are shown where nothing else changed."""

PieceKind: TypeAlias = Literal["same", "gone", "new"]


class Piece(NamedTuple):
    """A part of two texts."""

    kind: PieceKind
    text: str


class Hunk(NamedTuple):
    """A change, and the text after it that is the same."""

    gone: str
    new: str
    same: str


def compare_texts(before: str, after: str) -> list[Piece]:
    """Returns the parts of two texts in order; those that are not `new` make up the first."""
    start, end = _find_equal_ends(before, after)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    pieces = [Piece("same", before[:start])]
    for hunk in _merge(_compare_lines(old, new)):
        pieces += (Piece("gone", hunk.gone), Piece("new", hunk.new), Piece("same", hunk.same))
    pieces.append(Piece("same", before[len(before) - end :]))
    whole = groupby((piece for piece in pieces if piece.text), key=lambda piece: piece.kind)
    return [Piece(kind, "".join(piece.text for piece in some)) for kind, some in whole]


def _find_equal_ends(before: str, after: str) -> tuple[int, int]:
    """Returns the characters that are equal at the begin and at the end, without parts of words."""
    start = count_common(before, after)
    start -= _count(_LAST_WORD, before[max(0, start - LONGEST) : start])
    end = count_common(before[start:][::-1], after[start:][::-1])
    rest = len(before) - end
    return start, end - _count(_FIRST_WORD, before[rest : rest + LONGEST])


def _count(word: re.Pattern[str], text: str) -> int:
    """Returns the length of a word at an end of a text; 0 if it may be longer than the text."""
    found = word.search(text)
    size = len(found[0]) if found else 0
    return size if size < LONGEST else 0


def _compare_lines(old: str, new: str) -> Iterator[Hunk]:
    """Yields the changes, by words in the first of the changed lines."""
    if max(old.count("\n"), new.count("\n")) > MAX_LINES:
        yield Hunk(old, new, "")
        return
    room = MAX_CHARS
    for hunk in _find_hunks(_LINE.findall(old), _LINE.findall(new)):
        room -= len(hunk.gone) + len(hunk.new)
        if room < 0 or not (hunk.gone and hunk.new):
            yield hunk
            continue
        yield from _find_hunks(_WORD.findall(hunk.gone), _WORD.findall(hunk.new))
        yield Hunk("", "", hunk.same)


def _find_hunks(a: Sequence[str], b: Sequence[str]) -> Iterator[Hunk]:
    """Yields the changes between two sequences of lines or words; the first may be empty."""
    gone = new = ""
    for kind, first, end, first_b, end_b in SequenceMatcher(None, a, b).get_opcodes():
        if kind == "equal":
            yield Hunk(gone, new, "".join(a[first:end]))
            gone = new = ""
        else:
            gone, new = "".join(a[first:end]), "".join(b[first_b:end_b])
    yield Hunk(gone, new, "")


def _merge(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Returns the changes, joined if hardly anything between two is the same.

    Words such as `the` are the same in any two sentences.
    """
    merged: list[Hunk] = []
    for hunk in hunks:
        last = merged[-1] if merged else None
        size = max(len(hunk.gone), len(hunk.new))
        if not size and last:
            merged[-1] = last._replace(same=last.same + hunk.same)
        elif last and 2 * len(last.same.strip()) <= min(size, max(len(last.gone), len(last.new))):
            gone, new = last.gone + last.same + hunk.gone, last.new + last.same + hunk.new
            merged[-1] = Hunk(gone, new, hunk.same)
        else:
            merged.append(hunk)
    return merged


def reveal(piece: Piece) -> Piece:
    """Returns a piece with its blanks shown, if it has nothing else that changed."""
    if piece.kind == "same" or not piece.text.isspace():
        return piece
    return piece._replace(text=piece.text.translate(_BLANKS))


def shorten(pieces: Sequence[Piece], room: int) -> tuple[list[Piece], int]:
    """Returns the pieces that fit, and how many changed characters are left out."""
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
    return text[:size] if len(lines) <= MAX_SHOWN + 1 else "\n".join(lines[:MAX_SHOWN])
