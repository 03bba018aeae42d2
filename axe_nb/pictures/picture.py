"""One picture, or a document that models read as one.

Source: product.md "Models can do more than text" (pictures).
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass, field

from axe_nb.errors import ConfigError
from axe_nb.pictures.header import find_other_format, read_header
from axe_nb.text import plural

MEDIA_TYPES = {
    "PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp",
    "PDF": "application/pdf",
}  # fmt: skip
"""Format → its media type."""

MAX_PIXELS = 80_000_000
"""A picture with more is refused unseen: a kilobyte can hold a billion of them."""

MAX_LENGTH = 65_535
"""Pixels of a side; only PNG can have more. Rows take time to unpack, however short they are."""

_CONVERT = "convert it to PNG or JPEG"

PIXELS_OF_TOKEN = 750
"""Pixels of a token, in the middle of what servers count."""

MAX_TOKENS = 1600
"""Tokens of one picture, which servers scale down to a size like this."""

TOKENS_OF_PDF = 2000
"""Tokens of a document, roughly: a page or two."""


class NoPicture(ConfigError):
    """A picture that cannot be sent; the message says why."""


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A picture for a model: PNG, JPEG, GIF, WebP, or a PDF. What it is follows from its bytes.

    Raises:
        NoPicture: the bytes are none of these, are cut off, or have too many pixels.
    """

    data: bytes
    digest: str = field(init=False, compare=False)
    """SHA-256 of the bytes, as 64 hexadecimal digits."""
    format: str = field(init=False, compare=False)
    """PNG, JPEG, GIF, WebP or PDF."""
    width: int = field(init=False, compare=False)
    height: int = field(init=False, compare=False)
    """In pixels; 0 for a PDF."""

    def __post_init__(self) -> None:
        header = read_header(self.data)
        if header is None:
            other = find_other_format(self.data)
            what = f"it is {other}" if other else "its bytes are of another format"
            raise NoPicture(
                f"not a supported picture: {what}",
                hint=_CONVERT if other else "supported formats are PNG, JPEG, GIF, WebP and PDF",
            )
        name, width, height, is_whole = header
        if not is_whole or (name != "PDF" and not (width and height)):
            raise NoPicture(f"the {name} is damaged: part of it is missing", hint=_CONVERT)
        if width * height > MAX_PIXELS or max(width, height) > MAX_LENGTH:
            raise NoPicture(
                f"the {name} has {width:,}×{height:,} pixels; at most {MAX_PIXELS:,} are "
                f"supported, {MAX_LENGTH:,} on a side",
                hint="make it smaller",
            )
        digest = hashlib.sha256(self.data).hexdigest()
        values = {"digest": digest, "format": name, "width": width, "height": height}
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        return f"Picture({self.shown})"

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def media_type(self) -> str:
        """Its media type, such as `image/png`."""
        return MEDIA_TYPES[self.format]

    @property
    def is_document(self) -> bool:
        """True if it is a PDF."""
        return self.format == "PDF"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.data)

    @property
    def shown(self) -> str:
        """Its pixels, format and size in a few words: `640×480 PNG, 23 kB`."""
        pixels = "" if self.is_document else f"{self.width}×{self.height} "
        return f"{pixels}{self.format}, {format_bytes(self.size)}"

    @property
    def base64(self) -> str:
        """Its bytes in base64."""
        return b64encode(self.data).decode()

    @property
    def url(self) -> str:
        """Its bytes as a data URL."""
        return f"data:{self.media_type};base64,{self.base64}"

    @property
    def tokens(self) -> int:
        """The tokens that it takes, estimated."""
        if self.is_document:
            return TOKENS_OF_PDF
        return min(MAX_TOKENS, 1 + self.width * self.height // PIXELS_OF_TOKEN)

    def mark(self, number: int) -> str:
        """The words in a text that stand for it: `[picture 1: 640×480 PNG, 23 kB]`.

        Args:
            number: its position among the pictures of the text, from 1.
        """
        return f"[{'document' if self.is_document else 'picture'} {number}: {self.shown}]"


def format_bytes(count: int) -> str:
    """Formats a size for people: `23 kB`."""
    if count < 1000:
        return plural(count, "byte")
    return f"{count / 1000:,.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
