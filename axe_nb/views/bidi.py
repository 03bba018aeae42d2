"""Direction of texts: those with letters that are read from right to left take their own. Pure.

Source: design README (`dir="auto"`); jupyter-facts-2 §5 (the sanitizer keeps `dir`).
"""

from __future__ import annotations

import unicodedata

RIGHT_TO_LEFT = frozenset({"R", "AL"})


def is_mixed(text: str) -> bool:
    """True if a text has letters that are read from right to left."""
    if text.isascii():
        return False
    return any(unicodedata.bidirectional(char) in RIGHT_TO_LEFT for char in text)


def direction(text: str) -> str:
    """The attribute of the element that holds a text; empty if all of it is read left to right."""
    return " dir=auto" if is_mixed(text) else ""
