"""Pictures made smaller by Pillow, which the extra `images` installs; it is never required."""

from __future__ import annotations

import io
import warnings
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from typing import Any

from axe_nb.pictures.picture import NoPicture, Picture, format_bytes

MAX_SIDE = 8000
"""Maximum pixels of a side that servers accept."""

THUMBNAIL = 96
"""Height of a thumbnail in CSS pixels."""

SMALL = 20_000
"""Maximum bytes of a picture that is its own thumbnail."""

ROOM = 250_000
"""Bytes available for the thumbnails of one page; 1000 pixels to unpack take one of them, too."""


def fit(picture: Picture, limit: int) -> Picture:
    """Returns the picture, scaled down to at most `limit` bytes (0 = any) and a server's pixels.

    Raises NoPicture if it cannot be scaled down.
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
        raise NoPicture(
            what, hint="make it smaller, or have it scaled down: pip install 'axe-nb[images]'"
        )
    share = sqrt(limit / picture.size) if limit else 1.0
    side = int(min(MAX_SIDE, longest, longest * share))
    while side >= THUMBNAIL:
        data = _resize(picture, (side, side), "JPEG" if picture.format == "JPEG" else "PNG")
        if data is None:
            raise NoPicture(f"{what}; it cannot be unpacked", hint="convert it to PNG or JPEG")
        picture = Picture(data)  # the next copy is made of this one, which takes less time
        if not limit or picture.size <= limit:
            return picture
        side = int(side * 0.8)
    raise NoPicture(what, hint="make it smaller")


class Thumbnails:
    """The thumbnails of one page, as many as fit into its room and time."""

    def __init__(self) -> None:
        self._room = ROOM
        self._urls: dict[str, str] = {}
        """Digest → data URL; empty if there was no room."""

    def __contains__(self, picture: Picture) -> bool:
        return picture.digest in self._urls

    def find(self, picture: Picture) -> str:
        """Returns a small copy as a data URL; empty if there is none, or no room for it."""
        if picture not in self:
            effort = picture.width * picture.height // 1000
            url = make_thumbnail(picture) if effort <= self._room else ""
            if len(url) > self._room:
                url = ""
            else:
                self._room -= max(len(url), effort)
            self._urls[picture.digest] = url
        return self._urls[picture.digest]


def make_thumbnail(picture: Picture) -> str:
    """Returns a small copy as a data URL; empty if there is none."""
    if picture.is_document:
        return ""
    if picture.size > SMALL // 4 and find_spec("PIL"):
        height = 2 * THUMBNAIL  # good screens have two pixels for one of CSS
        data = _resize(picture, (4 * height, height), "WEBP")
        if data is not None and len(data) < min(picture.size, SMALL):
            return Picture(data).url
    is_light = picture.width * picture.height <= 4_000_000  # for the browser to unpack
    return picture.url if picture.size <= SMALL and is_light else ""


def _resize(picture: Picture, box: tuple[int, int], format: str) -> bytes | None:
    """Returns a copy that fits into the box; None if the picture cannot be unpacked."""
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
