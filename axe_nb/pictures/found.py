"""Pictures among the values of Python, without importing the libraries that made them."""

from __future__ import annotations

import binascii
import io
import os
import sys
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from axe_nb.errors import ConfigError, words
from axe_nb.paths import open_real_file
from axe_nb.pictures.picture import (
    Illustrated,
    NoPicture,
    Picture,
    find_format,
    join_parts,
)
from axe_nb.text import one_line, printable

METHODS = ("_repr_png_", "_repr_jpeg_")
"""Methods by which objects show themselves as pictures in notebooks."""


def find_picture(value: object) -> Picture | None:
    """Returns the picture that a value is, if any; raises NoPicture if it cannot be sent."""
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
    """Returns the entries of a list with pictures, or a picture as a list; else an empty list."""
    entries = value if isinstance(value, list | tuple) else (value,)
    if isinstance(value, str) or len(entries) > 100:  # a list of data, not of pictures
        return []
    found = [find_picture(entry) for entry in entries]
    if not any(found):
        return []
    return [picture or entry for picture, entry in zip(found, entries, strict=True)]


def find_figure(value: object) -> Any:
    """Returns the matplotlib figure that a value is or belongs to; None if there is none."""
    for module, name in (("matplotlib.figure", "FigureBase"), ("matplotlib.axes", "Axes")):
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and issubclass(type(value), kind):
            return getattr(value, "figure", value)
    return None


def close_figure(value: object) -> None:
    """Removes a figure from those that the notebook shows below the cell on its own."""
    figure, pyplot = find_figure(value), sys.modules.get("matplotlib.pyplot")
    if figure is not None and pyplot is not None:
        pyplot.close(figure)


def read_picture(path: str | os.PathLike[str]) -> Picture:
    """Reads a picture from a file; raises NoPicture if it cannot, or models cannot read it."""
    shown = printable(one_line(Path(path).name, 100))
    try:
        with os.fdopen(open_real_file(Path(os.path.realpath(path))), "rb") as file:
            data = file.read(16)
            data += file.read() if find_format(data) else b""  # a film is not read
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NoPicture(f"cannot read the picture {shown}: {why}") from None
    try:
        return Picture(data)
    except NoPicture as error:
        raise NoPicture(f"{shown}: {error.message}", hint=error.hint) from None


def split_prompt(prompt: object) -> Illustrated:
    """Returns the text of a prompt with marks, and the pictures that they stand for.

    Of a list, each entry stands on lines of its own. Raises ConfigError for anything else.
    """
    if isinstance(prompt, str):
        return Illustrated(prompt)
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray | memoryview):
        raise ConfigError(
            f"prompt must be text or a list, not {type(prompt).__name__}",
            hint='put other values into a text, as in f"{data}"; '
            "with pictures, pass a list, as in [text, figure]",
        )
    parts: list[str | Picture] = []
    for number, part in enumerate(prompt, 1):
        if isinstance(part, str):
            parts.append(part)
            continue
        try:
            found = read_picture(part) if isinstance(part, os.PathLike) else find_picture(part)
        except NoPicture as error:
            message = f"part {number} of the prompt: {error.message}"
            raise NoPicture(message, hint=error.hint) from None
        if found is not None:
            parts.append(found)
        elif isinstance(part, bytes | bytearray | memoryview):
            raise NoPicture(
                f"part {number} of the prompt is not a supported picture",
                hint="supported formats are PNG, JPEG, GIF, WebP and PDF; "
                "decode bytes that are text",
            )
        else:
            raise ConfigError(
                f"part {number} of the prompt is neither text nor a picture: {type(part).__name__}",
                hint="pass text, bytes, a pathlib.Path, a figure or an image",
            )
    return join_parts(parts, "\n\n")
