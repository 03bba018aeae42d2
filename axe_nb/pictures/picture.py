"""Pictures and PDF documents for models, and the markers that stand for pictures in texts.

A marker looks like `[picture 1: …]`; a forged marker can only move a picture to another position.
Format and size are read from the bytes alone, as file names and declared types may be wrong. A
library is never imported just to check whether a value is one of its pictures. Pillow, if it is
installed, scales pictures down.
"""

from __future__ import annotations

import binascii
import hashlib
import io
import os
import sys
import warnings
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from axe_nb.errors import ConfigError, words
from axe_nb.paths import open_real_file
from axe_nb.text import one_line, plural, printable

MAX_PIXELS, MAX_LENGTH = 80_000_000, 65_535
"""Maximum number of pixels in a picture, and maximum length of a side in pixels.

Larger pictures are rejected before unpacking: a kilobyte can unpack to a billion pixels, and
each row takes time."""

SUPPORTED = "supported formats are PNG, JPEG, GIF, WebP and PDF"

METHODS = ("_repr_png_", "_repr_jpeg_")
"""Methods that notebooks call to display an object as a picture."""

_MARKS = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF87a": "GIF", b"GIF89a": "GIF",
    b"%PDF-": "PDF",
}  # fmt: skip


def find_format(data: bytes) -> str:
    """Returns the picture format that a file's first bytes indicate; empty for other formats."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    return next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")


def _read_header(data: bytes, format: str) -> tuple[int, int, bool]:
    """Returns width and height in pixels (0 for a PDF), and whether the picture is complete."""

    def little(at: int, size: int = 2) -> int:
        return int.from_bytes(data[at : at + size], "little")

    match format, data[12:16]:
        case "PNG", _:
            is_whole = data[8:16] == b"\0\0\0\rIHDR" and b"IEND\xaeB`\x82" in data
            return int.from_bytes(data[16:20]), int.from_bytes(data[20:24]), is_whole
        case "GIF", _:
            return little(6), little(8), data.rstrip(b"\0").endswith(b";")
        case "WebP", b"VP8X":
            width, height = 1 + little(24, 3), 1 + little(27, 3)
        case "WebP", b"VP8L":
            bits = little(21, 4)
            width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case "WebP", b"VP8 ":
            width, height = little(26) & 0x3FFF, little(28) & 0x3FFF
        case "JPEG", _:
            at = 2
            for _ in range(100_000):  # a picture has far fewer segments
                if at + 4 > len(data) or data[at] != 0xFF:
                    break
                marker = data[at + 1]
                if marker == 0xFF:  # padding
                    at += 1
                elif marker == 0x01 or 0xD0 <= marker <= 0xD7:  # no segment follows
                    at += 2
                elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame
                    height = int.from_bytes(data[at + 5 : at + 7])
                    width = int.from_bytes(data[at + 7 : at + 9])
                    return width, height, b"\xff\xd9" in data[at:]
                else:
                    at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4]))
            return 0, 0, False
        case _:
            return 0, 0, format == "PDF"
    return width, height, len(data) >= 30 and 8 + little(4, 4) <= len(data)


class NoPicture(ConfigError):
    """Raised if a value or file is not a picture that can be sent; the message says why."""


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A PNG, JPEG, GIF, WebP or PDF to send to a model.

    The constructor raises NoPicture if the data has another format, is damaged, or is too large.
    """

    data: bytes
    digest: str = field(init=False, compare=False)
    """SHA-256 of the bytes, as 64 hexadecimal digits."""
    format: str = field(init=False, compare=False)
    """PNG, JPEG, GIF, WebP or PDF."""
    width: int = field(init=False, compare=False)
    height: int = field(init=False, compare=False)
    """Height in pixels; `height` and `width` are 0 for a PDF."""

    def __post_init__(self) -> None:
        name = find_format(self.data)
        if not name:
            message = "not a supported picture: its bytes have another format"
            raise NoPicture(message, hint=SUPPORTED)
        width, height, is_whole = _read_header(self.data, name)
        if not is_whole or (name != "PDF" and not (width and height)):
            told = f"the {name} is damaged: part of it is missing"
            raise NoPicture(told, hint="convert it to PNG or JPEG")
        if width * height > MAX_PIXELS or max(width, height) > MAX_LENGTH:
            most = f"at most {MAX_PIXELS:,} are supported, {MAX_LENGTH:,} on a side"
            told = f"the {name} has {width:,}×{height:,} pixels; {most}"
            raise NoPicture(told, hint="make it smaller")
        digest = hashlib.sha256(self.data).hexdigest()
        found = {"digest": digest, "format": name, "width": width, "height": height}
        for key, value in found.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        return f"Picture({self.shown})"

    @property
    def media_type(self) -> str:
        return "application/pdf" if self.is_document else f"image/{self.format.lower()}"

    @property
    def is_document(self) -> bool:
        return self.format == "PDF"

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def shown(self) -> str:
        pixels = "" if self.is_document else f"{self.width}×{self.height} "
        return f"{pixels}{self.format}, {format_bytes(self.size)}"

    @property
    def base64(self) -> str:
        return b64encode(self.data).decode()

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"

    @property
    def tokens(self) -> int:
        """Estimated number of tokens; capped, because servers scale large pictures down."""
        return 2000 if self.is_document else min(1600, 1 + self.width * self.height // 750)

    def mark(self, number: int) -> str:
        """Returns the marker for this picture as picture `number` of a text, counted from 1."""
        return f"[{'document' if self.is_document else 'picture'} {number}: {self.shown}]"


def format_bytes(count: int) -> str:
    if count < 1000:
        return plural(count, "byte")
    return f"{count / 1000:,.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


class Illustrated(NamedTuple):
    """A text with picture markers, and the pictures in the order of their markers."""

    text: str
    pictures: tuple[Picture, ...] = ()


def join_parts(parts: Iterable[str | Picture], separator: str = "") -> Illustrated:
    """Joins texts and pictures; a marker stands for each picture in the joined text."""
    pictures: list[Picture] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Picture):
            pictures.append(part)
            part = part.mark(len(pictures))
        texts.append(part)
    return Illustrated(separator.join(texts), tuple(pictures))


def split_parts(text: str, pictures: Sequence[Picture]) -> Iterator[str | Picture]:
    """Splits a text after each picture marker, adding missing ones; yields texts and pictures."""
    for number, picture in enumerate(pictures, 1):
        mark = picture.mark(number)
        before, found, text = text.partition(mark)
        if before + found:
            yield before + found
        if not found:
            yield mark
        yield picture
    if text:
        yield text


def find_picture(value: object) -> Picture | None:
    """Converts a value to a picture, or returns None if the value cannot be displayed as a picture.

    Raises NoPicture if the conversion of a figure or other picture fails.
    """
    if isinstance(value, Picture):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return Picture(bytes(value)) if find_format(bytes(value[:16])) else None
    if (figure := find_figure(value)) is not None:
        file = io.BytesIO()
        try:
            figure.savefig(file, format="png", bbox_inches="tight")
        except Exception as error:
            raise _make_error("the figure", error) from None
        return Picture(file.getvalue())
    kind = type(value)
    for method in (getattr(kind, name, None) for name in METHODS):
        try:
            answer = method(value) if callable(method) else None
            data = answer[0] if isinstance(answer, tuple) and answer else answer
            data = b64decode(data) if isinstance(data, str) else data
        except binascii.Error:
            continue
        except Exception as error:
            raise _make_error(kind.__name__, error) from None
        if isinstance(data, bytes | bytearray):
            return Picture(bytes(data))
    return None


def _make_error(what: str, error: Exception) -> NoPicture:
    why = one_line(f"{type(error).__name__}: {words(error)}", 200)
    return NoPicture(f"{what} cannot be drawn: {why}")


def find_parts(value: object) -> list[object]:
    """Converts a picture, or a list with pictures, to a list; returns [] for other values.

    Pictures become `Picture` objects. A list of more than 100 entries is not searched for pictures.
    """
    entries = value if isinstance(value, list | tuple) else (value,)
    if isinstance(value, str) or len(entries) > 100:  # a list of data, not of pictures
        return []
    found = [find_picture(entry) for entry in entries]
    if not any(found):
        return []
    return [picture or entry for picture, entry in zip(found, entries, strict=True)]


def find_figure(value: object) -> Any:
    """Returns a matplotlib figure, or the figure of matplotlib axes; None for other values."""
    for module, name in (("matplotlib.figure", "FigureBase"), ("matplotlib.axes", "Axes")):
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and issubclass(type(value), kind):
            return getattr(value, "figure", value)
    return None


def close_figure(value: object) -> None:
    """Closes a matplotlib figure, so that the notebook does not also display it below the cell."""
    figure = find_figure(value)
    if figure is not None and (pyplot := sys.modules.get("matplotlib.pyplot")):
        pyplot.close(figure)


def read_picture(path: str | os.PathLike[str]) -> Picture:
    """Reads a picture from a file. Raises NoPicture if the file cannot be read or sent."""
    shown = printable(one_line(Path(path).name, 100))
    try:
        with os.fdopen(open_real_file(Path(os.path.realpath(path))), "rb") as file:
            data = file.read(16)
            data += file.read() if find_format(data) else b""  # other files may be huge
        return Picture(data)
    except NoPicture as error:
        raise NoPicture(f"{shown}: {error.message}", hint=error.hint) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NoPicture(f"cannot read the picture {shown}: {why}") from None


def split_prompt(prompt: object) -> Illustrated:
    """Converts a prompt to a text with picture markers, and a list of the pictures.

    Raises ConfigError if the prompt is neither text nor a list, or if a part of the list is neither
    text nor a picture.
    """
    if isinstance(prompt, str):
        return Illustrated(prompt)
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray | memoryview):
        told = f"prompt must be text or a list, not {type(prompt).__name__}"
        step = "with pictures, pass a list, as in [text, figure]"
        raise ConfigError(told, hint='put other values into a text, as in f"{data}"; ' + step)
    parts: list[str | Picture] = []
    for number, part in enumerate(prompt, 1):
        where = f"part {number} of the prompt"
        if isinstance(part, str):
            parts.append(part)
            continue
        try:
            found = read_picture(part) if isinstance(part, os.PathLike) else find_picture(part)
        except NoPicture as error:
            raise NoPicture(f"{where}: {error.message}", hint=error.hint) from None
        if found is None and isinstance(part, bytes | bytearray | memoryview):
            hint = f"{SUPPORTED}; decode bytes that are text"
            raise NoPicture(f"{where} is not a supported picture", hint=hint)
        if found is None:
            told = f"{where} is neither text nor a picture: {type(part).__name__}"
            raise ConfigError(told, hint="pass text, bytes, a pathlib.Path, a figure or an image")
        parts.append(found)
    return join_parts(parts, "\n\n")


MAX_SIDE = 8000
"""Maximum length of a picture's side that servers accept, in pixels."""

THUMBNAIL = 96
"""Height of a thumbnail in CSS pixels."""

SMALL = 20_000
"""Maximum size in bytes of a thumbnail, or of a picture that is used unscaled as a thumbnail."""

ROOM = 250_000
"""Maximum total length of a page's thumbnail data URLs, in characters."""


def fit(picture: Picture, limit: int) -> Picture:
    """Scales a picture down to at most `limit` bytes, and to sides of at most MAX_SIDE pixels.

    A `limit` of 0 allows any number of bytes. Raises NoPicture if scaling is not possible.
    """
    longest = max(picture.width, picture.height)
    if longest <= MAX_SIDE and not 0 < limit < picture.size:
        return picture
    most = f"{MAX_SIDE} pixels on a side" if longest > MAX_SIDE else format_bytes(limit)
    kind = "document" if picture.is_document else "picture"
    what = f"the {kind} ({picture.shown}) is too large: at most {most}"
    if picture.is_document:
        raise NoPicture(what, hint="send fewer pages, or raise limits.max_picture_bytes")
    if find_spec("PIL") is None:
        hint = "make it smaller, or have it scaled down: pip install 'axe-nb[images]'"
        raise NoPicture(what, hint=hint)
    share = sqrt(limit / picture.size) if limit else 1.0
    side = int(min(MAX_SIDE, longest, longest * share))
    while side >= THUMBNAIL:
        data = _resize(picture, (side, side), "JPEG" if picture.format == "JPEG" else "PNG")
        if data is None:
            raise NoPicture(f"{what}; it cannot be decoded", hint="convert it to PNG or JPEG")
        picture = Picture(data)  # the next copy is made from this one, which is faster
        if not limit or picture.size <= limit:
            return picture
        side = int(side * 0.8)
    raise NoPicture(what, hint="make it smaller")


class Thumbnails:
    """Makes the thumbnails of one page, and limits their total size and the work of making them."""

    def __init__(self) -> None:
        self._room = ROOM
        self._urls: dict[str, str] = {}
        """Data URLs of thumbnails, keyed by picture digest; empty if there is no thumbnail."""

    def __contains__(self, picture: Picture) -> bool:
        return picture.digest in self._urls

    def find(self, picture: Picture) -> str:
        """Returns a picture's thumbnail as a data URL.

        The URL is empty if the thumbnail cannot be made, or would exceed the page's remaining
        allowance for thumbnail size or work.
        """
        if picture not in self:
            effort = picture.width * picture.height // 1000  # even a tiny file may take a second
            url = make_thumbnail(picture) if effort <= self._room else ""
            url = url if len(url) <= self._room else ""
            self._room -= max(len(url), effort) if url else 0
            self._urls[picture.digest] = url
        return self._urls[picture.digest]


def make_thumbnail(picture: Picture) -> str:
    """Returns a picture's thumbnail as a data URL; empty if the thumbnail cannot be made."""
    if picture.is_document:
        return ""
    if picture.size > SMALL // 4 and find_spec("PIL"):
        # high-resolution screens have two pixels for each CSS pixel
        data = _resize(picture, (8 * THUMBNAIL, 2 * THUMBNAIL), "WEBP")
        if data is not None and len(data) < min(picture.size, SMALL):
            return Picture(data).url
    is_light = picture.width * picture.height <= 4_000_000  # quickly unpacked by a browser
    return picture.url if picture.size <= SMALL and is_light else ""


def _resize(picture: Picture, box: tuple[int, int], format: str) -> bytes | None:
    """Returns the data of a copy scaled down to fit `box`; None if decoding the picture fails."""
    file = io.BytesIO()
    try:
        image: Any = import_module("PIL.Image")
        turned: Any = import_module("PIL.ImageOps").exif_transpose
        with (
            warnings.catch_warnings(action="ignore"),
            image.open(io.BytesIO(picture.data), formats=(picture.format.upper(),)) as opened,
        ):
            opened.draft("RGB", box)
            small = turned(opened)
            small.thumbnail(box)
            is_plain = format == "JPEG" or small.mode not in ("RGB", "RGBA", "L", "LA")
            clear = "A" in small.getbands() or "transparency" in small.info
            mode = "RGBA" if clear and format != "JPEG" else "RGB"
            (small.convert(mode) if is_plain else small).save(file, format, quality=80)
    except Exception:  # a damaged picture has many ways to fail
        return None
    return file.getvalue()
