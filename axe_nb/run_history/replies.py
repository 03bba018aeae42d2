"""A reply beside its part: its stream folded, and compressed by what is known already.

A reply repeats what its turn says and what the reply before it had. Both are in the dictionary of
the compression, so a reply takes some hundred bytes.
Source: D-59, D-61; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from axe_nb.records.convert import from_json
from axe_nb.spelled import Folded, Run, unfold
from axe_nb.wire_log import MAX_SIZE, PackedPieces, WireReply, pack, split

LEVEL = 1
"""Compression level: higher ones gain little."""

ZERO = ord("#")
"""Character for the number 0; no character between it and `\\` is escaped in JSON."""

MAX_IN_TEXT = 10_000
"""The first number that is not written as a character."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

NEWLINE = ord("\n")

WINDOW = 32768
"""Bytes of a dictionary that are used."""


def write_reply(
    reply: WireReply, head: str, body: bytes, folded: Folded, known: bytes
) -> tuple[str, bytes]:
    """Returns a reply as text, and what is known of it for the next one.

    Args:
        reply: the reply.
        head: all of it but its body, as JSON.
        body: its body.
        folded: the same as text.
        known: what is known before it.
    """
    runs = folded.runs
    cuts = _write_cuts(reply, body, by_lines=bool(runs)) if len(reply.pieces) > 1 else {}
    if runs:
        cuts["runs"] = [[len(run.between), _write_numbers(run.sizes)] for run in runs]
    texts = [folded.body, *(text for run in runs for text in run[:2])]
    plain = f"{head}\n{_encode(cuts) if cuts else '{}'}\n{''.join(texts)}".encode(
        "utf-8", "surrogateescape"
    )
    packer = zlib.compressobj(LEVEL, zdict=known[-WINDOW:])
    packed = packer.compress(plain) + packer.flush()
    return b64encode(packed).decode(), plain


def _write_cuts(reply: WireReply, body: bytes, *, by_lines: bool) -> dict[str, Any]:
    """Returns where a body is cut into its pieces, in lines if no piece ends within one."""
    pieces = reply.pieces
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


def read_reply(text: str, known: bytes) -> tuple[WireReply, bytes]:
    """Reverses `write_reply`: returns a reply, and what is known of it for the next one.

    Raises:
        ValueError, LookupError, TypeError, ConfigError: it is damaged.
    """
    reader = zlib.decompressobj(zdict=known[-WINDOW:])
    try:
        plain = reader.decompress(b64decode(text, validate=True), MAX_SIZE)
    except zlib.error:
        plain = b""
    if not reader.eof:
        raise ValueError("a reply is damaged, or too large")
    head, cuts, rest = plain.decode("utf-8", "surrogateescape").split("\n", 2)
    reply, given = from_json(WireReply, json.loads(head)), json.loads(cuts)
    runs = [(between, _read_numbers(sizes)) for between, sizes in given.get("runs", ())]
    lengths = [length for between, sizes in runs for length in (between, sum(sizes))]
    folded, *texts = _cut(rest, [len(rest) - sum(lengths), *lengths])
    betweens_and_texts = zip(texts[::2], texts[1::2], runs, strict=True)
    found = [Run(between, text, sizes) for between, text, (_, sizes) in betweens_and_texts]
    body = unfold(Folded(folded, found), MAX_SIZE).encode("utf-8", "surrogateescape")
    return replace(reply, pieces=_read_cuts(given, body)), plain


def _read_cuts(given: Any, body: bytes) -> Sequence[bytes]:
    """Reverses `_write_cuts`."""
    if "lines" in given:
        ends = [0, *accumulate(len(line) + 1 for line in body.split(b"\n"))]
        at = [0, *(ends[line] for line in accumulate(_read_numbers(given["lines"]))), len(body)]
        return pack(body[a:b] for a, b in pairwise(at))
    if "sizes" in given:
        return pack(split(body, _read_numbers(given["sizes"])))
    return (body,)


def _cut(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yields the parts of a text."""
    at = 0
    for length in lengths:
        yield text[at : at + length]
        at += length
