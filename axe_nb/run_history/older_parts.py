"""Parts of versions 1 and 2: each a text of its own, of which only replies are compressed.

Source: D-61.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from axe_nb.run_history.replies import read_body
from axe_nb.run_history.text import Part, parse_line
from axe_nb.wire_log import MAX_SIZE, PackedPieces

WINDOW = 32768
"""Bytes of what is known that a reply was compressed with."""

_FORMS = (
    json.JSONEncoder(ensure_ascii=False).encode, json.JSONEncoder(ensure_ascii=True).encode,
)  # fmt: skip
"""The forms in which version 1 left the text of a turn out of a reply."""


class OlderParts:
    """Reads the parts of one run, in order."""

    def __init__(self) -> None:
        self._known = b""
        """The latest reply, which the next one was compressed with."""

    def parse(self, text: str) -> Part:
        """Returns a part.

        Raises:
            ConfigError, LookupError, TypeError, ValueError, AttributeError: it is damaged.
        """
        _, line, *replies = text.split("\n")
        data, bodies = parse_line(line), []
        left = iter(replies)
        for exchange in data.get("exchanges", ()):
            reply = exchange.get("reply") or {}
            if reply == {"packed": True}:
                head, body = self._read_packed(next(left, ""), line)
                exchange["reply"] = {**json.loads(head), "beside": True}
                bodies.append(read_body(body))
            elif "packed" in reply or "around" in reply:
                reply["beside"] = True
                bodies.append(_read_first(reply, data))
        return Part(data, bodies)

    def _read_packed(self, packed: str, line: str) -> tuple[bytes, bytes]:
        """Returns a reply of version 2: all but its body as JSON, and its body."""
        reader = zlib.decompressobj(zdict=(self._known + line.encode())[-WINDOW:])
        try:
            self._known = reader.decompress(b64decode(packed, validate=True), MAX_SIZE)
        except zlib.error:
            raise ValueError("a reply cannot be decompressed") from None
        if not reader.eof:
            raise ValueError("a reply is incomplete, or too large")
        head, _, body = self._known.partition(b"\n")
        return head, body


def _read_first(reply: Mapping[str, Any], data: Mapping[str, Any]) -> Sequence[bytes]:
    """Returns the pieces of the body of a reply of version 1."""
    if "packed" in reply:
        packed, sizes = (b64decode(reply[n], validate=True) for n in ("packed", "packed_sizes"))
        return PackedPieces.of_packed(packed, sizes)
    before, after = reply["around"]
    said = data["turn"]["text"] if "turn" in data else ""
    body = f"{before}{_FORMS[reply['form']](said)[1:-1]}{after}"
    return (body.encode("utf-8", "surrogateescape"),)
