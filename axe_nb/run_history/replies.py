"""The body of a reply beside its part: its stream folded, and where it is cut into its pieces.

Source: D-59, D-61; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from axe_nb.spelled import Folded, Run, unfold
from axe_nb.wire_log import MAX_SIZE, PackedPieces, pack, split

ZERO = ord("#")
"""Character for the number 0; no character between it and `\\` is escaped in JSON."""

MAX_IN_TEXT = 10_000
"""The first number that is not written as a character."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

NEWLINE = ord("\n")


def write_body(pieces: Sequence[bytes], body: bytes, folded: Folded) -> bytes:
    """Returns a body as it is kept: a line of JSON, and its texts.

    Args:
        pieces: those of the body.
        body: all of them together.
        folded: the same as text.
    """
    runs = folded.runs
    cuts = _write_cuts(pieces, body, by_lines=bool(runs)) if len(pieces) > 1 else {}
    if runs:
        cuts["runs"] = [[len(run.between), _write_numbers(run.sizes)] for run in runs]
        body = "".join([folded.body, *(text for run in runs for text in run[:2])]).encode()
    return b"%b\n%b" % (_encode(cuts).encode() if cuts else b"{}", body)


def _write_cuts(pieces: Sequence[bytes], body: bytes, *, by_lines: bool) -> dict[str, Any]:
    """Returns where a body is cut into its pieces, in lines if no piece ends within one."""
    sizes = pieces.sizes if isinstance(pieces, PackedPieces) else list(map(len, pieces))
    ends = list(accumulate(sizes))[:-1]
    if by_lines and all(body[end - 1] == NEWLINE for end in ends):
        lines = [body.count(b"\n", a, b) for a, b in pairwise([0, *ends])]
        return {"lines": _write_numbers(lines)}
    return {"sizes": _write_numbers(sizes)}


def _write_numbers(numbers: Sequence[int]) -> str | list[int]:
    """Returns numbers, each as a character if none is large: that is a third of their digits."""
    if max(numbers, default=0) < MAX_IN_TEXT:
        return "".join([chr(ZERO + number) for number in numbers])
    return list(numbers)


def _read_numbers(given: str | list[int]) -> list[int]:
    return [ord(one) - ZERO for one in given] if isinstance(given, str) else given


def read_body(kept: bytes) -> Sequence[bytes]:
    """Reverses `write_body`: returns the pieces.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it is damaged.
    """
    line, _, body = kept.partition(b"\n")
    cuts = json.loads(line)
    if "runs" in cuts:
        runs = [(between, _read_numbers(sizes)) for between, sizes in cuts["runs"]]
        lengths = [length for between, sizes in runs for length in (between, sum(sizes))]
        text = body.decode("utf-8", "surrogateescape")
        rest, *texts = _cut(text, [len(text) - sum(lengths), *lengths])
        betweens_and_texts = zip(texts[::2], texts[1::2], runs, strict=True)
        found = [Run(between, text, sizes) for between, text, (_, sizes) in betweens_and_texts]
        body = unfold(Folded(rest, found), MAX_SIZE).encode("utf-8", "surrogateescape")
    return _read_cuts(cuts, body)


def _read_cuts(cuts: Any, body: bytes) -> Sequence[bytes]:
    """Reverses `_write_cuts`."""
    if "lines" in cuts:
        ends = [0, *accumulate(len(line) + 1 for line in body.split(b"\n"))]
        at = [0, *(ends[line] for line in accumulate(_read_numbers(cuts["lines"]))), len(body)]
        return pack(body[a:b] for a, b in pairwise(at))
    if "sizes" in cuts:
        return pack(split(body, _read_numbers(cuts["sizes"])))
    return (body,)


def _cut(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yields the parts of a text."""
    at = 0
    for length in lengths:
        yield text[at : at + length]
        at += length
