"""JSON that people read: short lists and objects on one line, long texts cut. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from axe_nb.conversion.jsonable import change_texts
from axe_nb.text import cut_chars

MAX_COLUMNS = 100
"""Lists and objects that fit are written on one line."""

_PICTURE = re.compile(
    r"(?:data:[\w/.+-]{1,40};base64,)?(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|JVBERi)"
    r"(?=[A-Za-z0-9+/]{16,}={0,2}\Z)"
)
"""Beginning of the bytes of a PNG, JPEG, GIF, WebP or PDF in base64."""

_encode = json.JSONEncoder(ensure_ascii=False).encode


def format_json(value: Any, margin: str = "\n") -> str:
    """Returns JSON data as text.

    Args:
        value: the data.
        margin: line break and indentation of the line that it begins on.
    """
    inner = f"{margin}  "
    if isinstance(value, dict) and value:
        parts = [f"{_encode(key)}: {format_json(entry, inner)}" for key, entry in value.items()]
        return _join("{}", parts, margin)
    if isinstance(value, list) and value:
        return _join("[]", [format_json(entry, inner) for entry in value], margin)
    return _encode(value)


def _join(brackets: str, parts: list[str], margin: str) -> str:
    size = len(margin) + sum(len(part) + 2 for part in parts)
    if size <= MAX_COLUMNS and not any("\n" in part for part in parts):
        return f"{brackets[0]}{', '.join(parts)}{brackets[1]}"
    inner = f"{margin}  "
    return f"{brackets[0]}{inner}{f',{inner}'.join(parts)}{margin}{brackets[1]}"


def hide_pictures(value: Any) -> Any:
    """Returns JSON data with the bytes of pictures left out, which tell a reader nothing."""

    def hide(text: str) -> str:
        found = _PICTURE.match(text)
        return f"{found[0]}… ({len(text):,} characters of base64)" if found else text

    return change_texts(value, hide)


def cut_texts(value: Any, limit: int) -> Any:
    """Returns JSON data with all texts of more than `limit` characters cut."""
    note = "… ({more:,} more characters)"
    return change_texts(value, lambda text: cut_chars(text, limit, note))
