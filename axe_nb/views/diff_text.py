"""The difference of two trees as text: `[-gone-]{+new+}`, as `git diff --word-diff`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axe_nb.diffs.run_diff import RunDiff
from axe_nb.diffs.words import Piece
from axe_nb.views.diff_outline import (
    DIFFERS,
    SAME,
    Block,
    Entry,
    Part,
    describe,
    describe_same,
    list_rows,
    make_outline,
)  # fmt: skip

MARKS = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("{+", "+}")}


def format_diff(diff: RunDiff, *, whole: bool = False, times: bool = False) -> str:
    """Returns the difference as text.

    Args:
        diff: the difference.
        whole: if True, nothing is left out.
        times: if True, with the seconds.
    """
    outline = make_outline(diff, whole=whole)
    same = describe_same(diff, times=times)
    sign = DIFFERS if diff.changes else SAME
    lines = [
        f"{sign} {outline.who}: {describe(diff)}",
        *_format_table(list_rows(diff, times=times)),
        *([f"  {same}"] if same else []),
        "",
        *_format_parts(outline.parts if diff.changes else (), ""),
    ]
    return "\n".join(lines).rstrip("\n")


def _format_table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *numbers in rows:
        cells = (f"{text:>{width}}" for text, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join([f"  {first:<{widths[0]}}", *cells]).rstrip()


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
