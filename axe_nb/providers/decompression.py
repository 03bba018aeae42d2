"""Compressed bodies of replies, decompressed a bounded piece at a time.

httpx's own decoders hand out as much at once as a bomb contains, and take a body that was cut for a
whole one.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from axe_nb.text import one_line

MAX_PIECE = 1024 * 1024
"""Maximum bytes of a body that are decompressed at once, as 300 kB may expand to 300 MB."""


class DecompressionError(ValueError):
    """Compressed data is corrupt, cut off, or compressed in a way that is not supported."""


async def decompress(pieces: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
    """Yields the parts of a body, whose Content-Encoding is `coding`, none longer than `MAX_PIECE`.

    Raises DecompressionError if it cannot be decompressed or was cut off.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        async for data in pieces:
            yield data
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise DecompressionError(f"it is compressed as {one_line(coding, 40)}, which is not known")
    decompressor: zlib._Decompress | None = None
    async for data in pieces:
        while data:
            if decompressor is None or decompressor.eof:
                if decompressor and data[0] != 0x1F:  # as each member of a gzip file begins
                    break
                decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either format
            try:
                part = decompressor.decompress(data, MAX_PIECE)
            except zlib.error as error:
                raise DecompressionError(f"corrupt compressed data: {error}") from None
            yield part
            data = decompressor.unconsumed_tail or decompressor.unused_data
        while decompressor and (part := decompressor.decompress(b"", MAX_PIECE)):
            yield part
    if decompressor and not decompressor.eof:
        raise DecompressionError("the compressed data was cut off")
