"""Small pictures made by hand, whole and damaged, without a library."""

from __future__ import annotations

import struct
import zlib

from axe_nb.pictures.picture import Picture


def png(width: int = 4, height: int = 3, colour: int = 200, *, noise: bytes = b"") -> bytes:
    """A grey PNG; `noise` goes into a chunk that nobody reads, to make it large."""
    return _write(width, height, (b"\0" + bytes([colour]) * width) * height, noise)


def claimed_png(width: int, height: int) -> bytes:
    """A PNG of a kilobyte that says it is that large."""
    return _write(width, height, bytes(1000))


def _write(width: int, height: int, rows: bytes, noise: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), *([(b"noTe", noise)] if noise else [])]
    written = b"\x89PNG\r\n\x1a\n"
    for kind, data in [*chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]:
        check = struct.pack(">I", zlib.crc32(kind + data))
        written += struct.pack(">I", len(data)) + kind + data + check
    return written


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b0801e0028001011100ffd9")
"""The header of a JPEG of 640×480, and its end."""

GIF = b"GIF89a\x05\0\x07\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x05\0\x07\0\0\x02\x02D\x01\0;"

WEBP = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x09\x40\x02\0" + bytes(9)
"""10×10."""

PDF = b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n"

PNG = png()
FIRST, SECOND = Picture(png(40, 30)), Picture(png(64, 48, 90))
"""Two pictures that differ."""


class Shown:
    """An object that shows itself as a picture in notebooks."""

    def __init__(self, data: object = PNG) -> None:
        self.data = data

    def _repr_png_(self) -> object:
        return self.data

    def __repr__(self) -> str:
        return "<Shown at 0x7f0000000000>"
