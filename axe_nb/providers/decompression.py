"""Decompresses replies in limited pieces; unlike httpx, rejects truncated replies."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from axe_nb.text import one_line

MAX_PIECE = 1024 * 1024
"""Maximum size of a decompressed piece, in bytes; 300 kB could otherwise become 300 MB at once."""


class DecompressionError(ValueError):
    """Raised if compressed data is corrupt, truncated or in an unsupported format."""


async def decompress(pieces: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
    """Yields the pieces of a body, decompressed if the body is compressed with gzip or deflate."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        async for data in pieces:
            yield data
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise DecompressionError(f"unsupported compression {one_line(coding, 40)}")
    decompressor: zlib._Decompress | None = None
    async for data in pieces:
        while data:
            if decompressor is None or decompressor.eof:
                if decompressor and data[0] != 0x1F:  # not another member of a gzip file
                    break
                decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib
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
