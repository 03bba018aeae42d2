"""Format and size of a picture, read from its bytes alone: names and declared types may lie. Pure.

Source: product.md "Models can do more than text" (pictures); library-facts "Pictures and PDF".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MAX_STEPS = 100_000
"""Parts of a file that are looked at; a picture has far fewer."""

_NO_SIZE = frozenset({0xC4, 0xC8, 0xCC})
"""JPEG markers among those of frames that are none."""

_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})
"""JPEG markers without a segment."""


class Header(NamedTuple):
    """The facts that the bytes of a picture tell."""

    format: str
    """PNG, JPEG, GIF, WebP or PDF."""
    width: int = 0
    height: int = 0
    """In pixels; 0 for a PDF."""
    is_whole: bool = True
    """False if its end is missing."""


def find_format(data: bytes) -> str:
    """Returns the format that the first bytes name; empty if models read no such file."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    return next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")


def find_other_format(data: bytes) -> str:
    """Returns the format of a picture that no model reads; empty for all else."""
    start = data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<svg", b"<?xml", b"<!doctype svg")) and b"<svg" in start:
        return "SVG"
    if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"avis", b"heic", b"heix", b"mif1"):
        return "AVIF" if data[8:11] == b"avi" else "HEIC"
    others = {b"BM": "BMP", b"II*\0": "TIFF", b"MM\0*": "TIFF", b"\0\0\1\0": "ICO"}
    return next((name for mark, name in others.items() if data.startswith(mark)), "")


def read_header(data: bytes) -> Header | None:
    """Returns the header of a picture; None if it is in no format that models read."""
    read = _READERS.get(find_format(data))
    return read(data) if read else None


def _read_png(data: bytes) -> Header:
    if data[8:16] != b"\0\0\0\rIHDR" or len(data) < 33:
        return Header("PNG", is_whole=False)
    at = 8
    for _ in range(MAX_STEPS):
        kind = data[at + 4 : at + 8]
        at += 12 + _read_int(data, at, 4)
        if kind == b"IEND" or at >= len(data):
            break
    is_whole = kind == b"IEND" and at <= len(data)
    return Header("PNG", _read_int(data, 16, 4), _read_int(data, 20, 4), is_whole)


def _read_gif(data: bytes) -> Header:
    width, height = _read_int(data, 6, 2, "little"), _read_int(data, 8, 2, "little")
    return Header("GIF", width, height, data.rstrip(b"\0").endswith(b";"))


def _read_jpeg(data: bytes) -> Header:
    at = 2
    for _ in range(MAX_STEPS):
        if at + 4 > len(data) or data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:  # a byte that only fills
            at += 1
        elif marker in _NO_LENGTH:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            height, width = _read_int(data, at + 5, 2), _read_int(data, at + 7, 2)
            return Header("JPEG", width, height, b"\xff\xd9" in data[at:])
        else:
            at += 2 + max(2, _read_int(data, at + 2, 2))
    return Header("JPEG", is_whole=False)


def _read_webp(data: bytes) -> Header:
    is_whole = len(data) >= 30 and 8 + _read_int(data, 4, 4, "little") <= len(data)
    match data[12:16]:
        case b"VP8X":
            size = (1 + _read_int(data, 24, 3, "little"), 1 + _read_int(data, 27, 3, "little"))
        case b"VP8L":
            bits = _read_int(data, 21, 4, "little")
            size = (1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
        case b"VP8 ":
            words = (_read_int(data, 26, 2, "little"), _read_int(data, 28, 2, "little"))
            size = (words[0] & 0x3FFF, words[1] & 0x3FFF)
        case _:
            return Header("WebP", is_whole=False)
    return Header("WebP", *size, is_whole)


def _read_pdf(data: bytes) -> Header:
    return Header("PDF")


def _read_int(data: bytes, at: int, size: int, order: str = "big") -> int:
    return int.from_bytes(data[at : at + size], "little" if order == "little" else "big")


_MARKS = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"%PDF-": "PDF",
}
"""First bytes of a file → its format."""

_READERS: dict[str, Callable[[bytes], Header]] = {
    "PNG": _read_png, "JPEG": _read_jpeg, "GIF": _read_gif, "WebP": _read_webp, "PDF": _read_pdf,
}  # fmt: skip
