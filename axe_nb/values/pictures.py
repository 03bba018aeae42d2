"""Recognises pictures among values; no picture is ever written as text.

Source: product.md "Models can do more than text" (pictures).
"""

from __future__ import annotations

from axe_nb.pictures.found import METHODS, find_figure
from axe_nb.pictures.header import find_format


def find_picture(value: object) -> str:
    """Returns the kind of picture that a value is, as in `PNG` or `Figure`; empty for all else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return find_format(bytes(value[:16]))
    kind = type(value)
    shows_itself = any(callable(getattr(kind, name, None)) for name in METHODS)
    return kind.__name__ if shows_itself or find_figure(value) is not None else ""
