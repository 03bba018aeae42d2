"""The pictures in saved data: their bytes once, by content, beside the data that refers to them.

Source: product.md "Models can do more than text" (pictures), "Runs are recordings"; D-60.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, TypeAlias

from axe_nb.errors import ConfigError
from axe_nb.pictures.picture import Picture
from axe_nb.text import one_line, quote

Shelf: TypeAlias = dict[str, Picture]
"""Digest → picture."""

TABLE = "picture_bytes"
"""Key of a table, digest → bytes in base64, beside the data that refers to it."""

_DIGEST = "sha256"

_shelf: ContextVar[Shelf | None] = ContextVar("axe_nb_pictures", default=None)


class use_shelf:
    """Within it, pictures are kept in the shelf as they are written, and found there when read.

    Each part of a history is written within one; `contextmanager` would be noticed.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def __enter__(self) -> Shelf:
        self._before = _shelf.set(self._shelf)
        return self._shelf

    def __exit__(self, *_: object) -> None:
        _shelf.reset(self._before)


def write_picture(picture: Picture) -> dict[str, str]:
    """Returns what refers to a picture."""
    shelf = _shelf.get()
    if shelf is not None:
        shelf[picture.digest] = picture
    return {_DIGEST: picture.digest}


def read_picture(value: Any, at: str) -> Picture:
    """Returns the picture that is referred to.

    Raises:
        ConfigError: it is not there.
    """
    digest = value.get(_DIGEST) if isinstance(value, dict) else None
    found = (_shelf.get() or {}).get(digest) if isinstance(digest, str) else None
    if found is None:
        raise ConfigError(f"the bytes of the picture {quote(one_line(at, 200))} are missing")
    return found


def write_table(shelf: Mapping[str, Picture]) -> dict[str, str]:
    """Returns the bytes of pictures."""
    return {digest: picture.base64 for digest, picture in shelf.items()}


def read_table(table: Any) -> Shelf:
    """Reverses `write_table`.

    Raises:
        ConfigError: the bytes are not those that the digest names, or no picture.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{quote(TABLE)} must be an object")
    return {digest: _read_bytes(digest, text) for digest, text in table.items()}


def _read_bytes(digest: str, text: Any) -> Picture:
    try:
        picture = Picture(b64decode(text, validate=True))
    except (ConfigError, TypeError, ValueError) as error:
        raise ConfigError(f"a picture in {quote(TABLE)} is damaged: {error}"[:200]) from None
    if picture.digest != digest:
        raise ConfigError(f"a picture in {quote(TABLE)} does not match its digest")
    return picture
