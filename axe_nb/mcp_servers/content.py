"""Content that a server sends, as text and pictures for a model.

Source: product.md "Models can do more than text" (MCP).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from axe_nb.pictures.parts import Illustrated, join_parts
from axe_nb.pictures.picture import NoPicture, Picture
from axe_nb.text import one_line
from axe_nb.tools.output import as_text

MAX_NAME = 200
"""Characters of names and addresses in notes."""


def read_result(result: Any) -> Illustrated:
    """Returns the result of a tool: its texts and pictures, else its data as JSON."""
    parts: list[str | Picture] = []
    for block in result.content:
        picture = _read_picture(block.data) if block.type == "image" else None
        parts += format_blocks([block]) if picture is None else [picture]
    found = join_parts(parts, "\n")
    if found.text or result.structured_content is None:
        return found
    return Illustrated(as_text(result.structured_content))


def _read_picture(data: str) -> Picture | None:
    """Returns a picture; None if it cannot be sent, so that a note stands in its place."""
    try:
        return Picture(base64.b64decode(data, validate=True))
    except (NoPicture, ValueError):
        return None


def format_blocks(blocks: Iterable[Any]) -> Iterable[str]:
    """Yields the text of each content block; a note if it has none."""
    for block in blocks:
        match block.type:
            case "text":
                yield block.text
            case "image" | "audio":
                yield format_media(block.type, block.mime_type, block.data)
            case "resource":
                yield format_resource(block.resource)
            case "resource_link":
                name = one_line(block.title or block.name, MAX_NAME)
                yield f"[a resource, {name}: {one_line(str(block.uri), MAX_NAME)}]"


def format_resource(resource: Any) -> str:
    """Returns the text of a resource; a note if it has none."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    return format_media("file", resource.mime_type or "", resource.blob)


def format_media(kind: str, media_type: str, data: str) -> str:
    """Returns a note that replaces content that is not sent to a model.

    Args:
        kind: image, audio or file.
        media_type: such as `image/png`.
        data: in base64.
    """
    called = {"image": "a picture", "audio": "an audio clip"}.get(kind, "a file")
    size = len(data) * 3 // 4
    shown = f"{size / 1000:.0f} kB" if size >= 1000 else f"{size} bytes"
    return f"[{', '.join(filter(None, (called, one_line(media_type, 80), shown)))}]"
