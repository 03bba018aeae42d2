"""The text of a run as the history keeps it: one compressed stream, a chunk for each transaction.

The text has a line of JSON for each event, and behind it the bodies of the replies that the line
tells of. A chunk ends where the compression is flushed, so it can be read as soon as it is kept;
all that the run said before is its dictionary. A header begins a stream: a run has one, and another
if the first was given up for its memory.
Source: D-61; goals.md "a run kept in memory and history".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from axe_nb.errors import ConfigError
from axe_nb.run_history.older_parts import OlderParts
from axe_nb.run_history.replies import read_body
from axe_nb.run_history.text import HEADER, Part, find_version, list_beside, parse_line
from axe_nb.wire_log import MAX_SIZE

LEVEL = 1
"""Compression level: higher ones gain little."""

TAIL = b"\0\0\xff\xff"
"""Ends what each flush yields, and is left out of the chunk."""

SUM = 4
"""Bytes of the checksum of its text that a chunk begins with."""


class Log:
    """Compresses the text of a run as it grows."""

    def __init__(self) -> None:
        self._stream: zlib._Compress | None = None

    def write(self, text: bytes) -> Iterator[str | bytes]:
        """Yields the rows that add a text, which is not empty."""
        if self._stream is None:
            self._stream = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
            yield HEADER
        packed = self._stream.compress(text) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        yield zlib.adler32(text).to_bytes(SUM, "big") + packed.removesuffix(TAIL)

    def rest(self) -> None:
        """Gives up the stream, which takes a quarter of a megabyte; the next text begins one."""
        self._stream = None


def read_parts(rows: Iterable[object]) -> Iterator[Part]:
    """Yields the parts of a run, of any version.

    Raises:
        ConfigError, LookupError, TypeError, ValueError, AttributeError: they are damaged, too
            large, or of a later major version.
    """
    older, stream, left = OlderParts(), None, MAX_SIZE
    for row in rows:
        if isinstance(row, bytes) and stream is not None:
            text = _inflate(stream, row, left)
            left -= len(text)
            yield from _split(text)
        elif find_version(row) < 3:
            yield older.parse(str(row))
        else:
            stream = zlib.decompressobj(-zlib.MAX_WBITS)


def _inflate(stream: zlib._Decompress, chunk: bytes, most: int) -> bytes:
    """Returns the text of a chunk.

    Raises:
        ConfigError: it is damaged, or larger than so many bytes.
    """
    try:
        text = stream.decompress(chunk[SUM:] + TAIL, most + 1)
    except zlib.error:
        raise ConfigError("part of it is damaged: it cannot be decompressed") from None
    if len(text) > most:
        raise ConfigError(f"it is larger than {MAX_SIZE} bytes")
    if zlib.adler32(text).to_bytes(SUM, "big") != chunk[:SUM]:
        raise ConfigError("part of it is damaged: its checksum is wrong")
    return text


def _split(text: bytes) -> Iterator[Part]:
    """Yields the parts of a text."""
    at = 0
    while at < len(text):
        end = text.find(b"\n", at) + 1
        data, at, bodies = parse_line(text[at:end].decode()), end, []
        for reply in list_beside(data):
            start, at = at, at + reply["beside"]
            if not start <= at <= len(text):
                raise ValueError("a reply is not where it should be")
            bodies.append(read_body(text[start:at]))
        yield Part(data, bodies)
