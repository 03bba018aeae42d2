"""The body of a reply beside its part: folded, and compressed by what is known already.

A stream repeats what its other events have, a reply what its turn says, both what the reply before
them had. All of that is in the dictionary of the compression, so a body takes some hundred bytes.
Source: D-59, D-61; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from axe_nb.spelled import Folded, Run, unfold
from axe_nb.wire_log import MAX_SIZE, PackedPieces, WireReply, pack, split

LEVEL = 1
"""Of compression: higher ones find little more."""

NEWLINE = ord("\n")

WINDOW = 32768
"""Bytes of a dictionary that are used."""


def write_body(reply: WireReply, body: bytes, folded: Folded, known: bytes) -> tuple[str, bytes]:
    """Returns a body as text, and what is known of it for the next one.

    Args:
        reply: the reply.
        body: its body.
        folded: the same as text.
        known: what is known before it.
    """
    runs = folded.runs
    head: dict[str, Any] = {}
    if len(reply.pieces) > 1:
        head = _write_cuts(reply, body, by_lines=bool(runs))
    if runs:
        head["runs"] = [[len(run.between), run.sizes] for run in runs]
    texts = [folded.body, *(text for run in runs for text in run[:2])]
    plain = f"{json.dumps(head)}\n{''.join(texts)}".encode("utf-8", "surrogateescape")
    packer = zlib.compressobj(LEVEL, zdict=known[-WINDOW:])
    packed = packer.compress(plain) + packer.flush()
    return b64encode(packed).decode(), plain


def _write_cuts(reply: WireReply, body: bytes, *, by_lines: bool) -> dict[str, Any]:
    """Returns where a body is cut into its pieces, in lines if no piece ends within one."""
    pieces = reply.pieces
    sizes = pieces.sizes if isinstance(pieces, PackedPieces) else list(map(len, pieces))
    ends = list(accumulate(sizes))[:-1]
    if by_lines and all(body[end - 1] == NEWLINE for end in ends):
        return {"lines": [body.count(b"\n", a, b) for a, b in pairwise([0, *ends])]}
    return {"sizes": list(sizes)}


def read_body(text: str, known: bytes) -> tuple[Sequence[bytes], bytes]:
    """Reverses `write_body`: returns the pieces, and what is known of them for the next one.

    Raises:
        ValueError: it is damaged.
    """
    reader = zlib.decompressobj(zdict=known[-WINDOW:])
    try:
        plain = reader.decompress(b64decode(text, validate=True), MAX_SIZE)
    except zlib.error:
        plain = b""
    if not reader.eof:
        raise ValueError("a body is damaged, or too large")
    first, _, rest = plain.decode("utf-8", "surrogateescape").partition("\n")
    head = json.loads(first)
    sizes = head.get("runs", ())
    lengths = [length for between, ones in sizes for length in (between, sum(ones))]
    folded, *texts = _cut(rest, [len(rest) - sum(lengths), *lengths])
    betweens_and_texts = zip(texts[::2], texts[1::2], sizes, strict=True)
    runs = [Run(between, text, ones) for between, text, (_, ones) in betweens_and_texts]
    body = unfold(Folded(folded, runs), MAX_SIZE).encode("utf-8", "surrogateescape")
    if "lines" in head:
        ends = [0, *accumulate(len(line) + 1 for line in body.split(b"\n"))]
        at = [ends[line] for line in accumulate(head["lines"])]
        cuts = [end - start for start, end in zip([0, *at], [*at, len(body)], strict=True)]
    else:
        cuts = head.get("sizes", [len(body)])
    return pack(split(body, cuts)), plain


def _cut(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yields the parts of a text."""
    at = 0
    for length in lengths:
        yield text[at : at + length]
        at += length
