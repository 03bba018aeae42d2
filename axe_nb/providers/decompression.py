"""Compressed bodies of replies, decompressed a bounded piece at a time.

httpx's own decoders read the first member of several, take a body that was cut for a whole one, and
hand out as much at once as a bomb contains.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator

MAX_PIECE = 1024 * 1024
"""Bytes of a body that are decompressed at once: what is sent as 300 kB may be 300 MB."""

CODINGS = ("gzip", "x-gzip", "deflate")
"""Values of Content-Encoding that can be decompressed."""

GZIP = b"\x1f\x8b"
"""The beginning of each member of a gzip file."""


class DecompressionError(ValueError):
    """Compressed data is corrupt, cut off, or compressed in a way that is not supported."""


def find_coding(content_encoding: str) -> str:
    """Returns the compression of a body; empty if it is not compressed."""
    coding = content_encoding.strip().lower()
    return "" if coding == "identity" else coding


class Decompressor:
    """Decompresses gzip, of one member or several, and deflate, with zlib's header or without."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip and zlib
        self._is_new = True
        self._is_gzip = False
        self._next = b""
        """The beginning of what follows a member, too short to tell whether it is another one."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the parts of the body that end in these bytes, none longer than `MAX_PIECE`.

        Raises DecompressionError if the data is corrupt.
        """
        if self._is_new and data:
            self._is_new, self._is_gzip = False, data[:1] == GZIP[:1]
            if not self._is_gzip and data[0] & 15 != 8:
                self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # "deflate", as old servers do it
        while data:
            if self._zlib.eof and not (data := self._begin_member(data)):
                return
            try:
                part = self._zlib.decompress(data, MAX_PIECE)
            except zlib.error as error:
                raise DecompressionError(f"corrupt compressed data: {error}") from None
            data = self._zlib.unconsumed_tail or self._zlib.unused_data
            if part:
                yield part
            while len(part) == MAX_PIECE and not data and not self._zlib.eof:
                if part := self._zlib.decompress(b"", MAX_PIECE):  # what zlib itself holds back
                    yield part

    def _begin_member(self, data: bytes) -> bytes:
        """Returns data that begins another member; nothing if what follows a body is ignored."""
        data = (self._next + data).lstrip(b"\0")  # padding
        self._next = b""
        if self._is_gzip and data.startswith(GZIP):
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 16)
            return data
        self._is_gzip = self._is_gzip and GZIP.startswith(data)
        self._next = data if self._is_gzip else b""
        return b""

    def end(self) -> None:
        """Takes the end of the data. Raises DecompressionError if the data was cut off."""
        if not self._is_new and not self._zlib.eof:
            raise DecompressionError("the compressed data was cut off")


async def decompress(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the parts of a body that arrives compressed, none longer than `MAX_PIECE`.

    Raises DecompressionError if it is corrupt or cut off.
    """
    decompressor = Decompressor()
    async for piece in pieces:
        for part in decompressor.feed(piece):
            yield part
    decompressor.end()
