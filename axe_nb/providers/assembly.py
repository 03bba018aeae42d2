"""Assembly of streamed replies: events become the JSON object that a whole reply has.

The same `parse` then makes the response of both, so both are equal.
Source: D-24, D-31.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import Any, Protocol

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, DeltaKind
from axe_nb.providers import wire
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.secrets import NO_SECRETS, Secrets

MAX_PARTS = 10_000
"""Blocks or calls of one reply."""

TEXTUAL = {
    "text": "text",
    "thinking": "thinking",
    "reasoning.text": "text",
    "reasoning.summary": "summary",
}
"""Type of a part that may arrive in pieces → key of its text."""

_HALF = re.compile("[\ud800-\udfff]")
"""A surrogate: half of a character, if the other half is in the next piece."""


class Deltas:
    """Passes the pieces of one reply on: whole characters, without secrets.

    Pieces that arrive together are passed on together. What may be the beginning of a character or
    of a secret is kept until the next piece.
    """

    def __init__(self, on_delta: OnDelta, secrets: Secrets = NO_SECRETS) -> None:
        self.secrets = secrets
        self._on_delta = on_delta
        self._text = StringIO()
        self._pieces: list[str] = []
        """Pieces not passed on yet, all of one kind and call."""
        self._kind: DeltaKind = "text"
        self._call = 0

    @property
    def text(self) -> str:
        """The text passed on so far."""
        return self._text.getvalue()

    def add(self, piece: str, kind: DeltaKind = "text", call: int = 0) -> None:
        """Adds a piece; `call` is the position of its call if it is of arguments."""
        if kind != self._kind or call != self._call:
            self.flush()
            self._kind, self._call = kind, call
        self._pieces.append(piece)

    def begin_call(self, call: int, name: object) -> None:
        """Passes the name of a call's tool on, before its arguments."""
        self.flush()
        if isinstance(name, str) and name:
            name = self.secrets.mask_text(join_halves(name))
            self._on_delta(Delta("", "arguments", call, name))

    def flush(self) -> None:
        """Passes on all that has been added: nothing continues it."""
        self.pass_on(is_last=True)

    def pass_on(self, *, is_last: bool = False) -> None:
        """Passes on what has been added, except a partial character or secret at its end."""
        piece = self.secrets.mask_text("".join(self._pieces))
        self._pieces.clear()
        if not is_last:
            end = self.secrets.find_beginning(piece)
            if "\ud800" <= piece[:end][-1:] <= "\udbff":
                end -= 1
            if end < len(piece):
                self._pieces.append(piece[end:])
                piece = piece[:end]
        if piece:
            piece = join_halves(piece)
            if self._kind == "text":
                self._text.write(piece)
            self._on_delta(Delta(piece, self._kind, self._call))


def join_halves(text: str) -> str:
    """Returns the text with surrogates joined to characters; lone ones are replaced."""
    if not text.isascii() and _HALF.search(text):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Assembly(Protocol):
    """The parts of one streamed reply; each event adds to them, and passes its deltas on."""

    is_complete: bool
    """True once the model has finished: the reply is complete even if the stream then breaks."""

    has_ended: bool
    """True once the last event has arrived; anything after it is ignored."""

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds an event.

        Raises ProviderError if it is malformed, reports an error, or is one part too many.
        """

    def end(self) -> None:
        """Notes the end mark `[DONE]`."""

    def reply(self) -> dict[str, Any]:
        """Returns the object that a whole reply has."""
        ...


def check_parts(count: int) -> None:
    """Raises ProviderError if a reply has too many parts."""
    if count > MAX_PARTS:
        raise ProviderError("server", f"the reply has more than {MAX_PARTS} parts")


def append_text(entry: dict[str, Any], key: str, piece: str) -> None:
    """Appends a piece to the text under a key, in constant time; `settle` makes strings of them."""
    held = entry.get(key)
    if not isinstance(held, StringIO):
        entry[key], first = StringIO(), held
        held = entry[key]
        held.write(first if isinstance(first, str) else "")
    held.write(piece)


def settle(value: Any) -> Any:
    """Returns the value with strings in place of growing texts."""
    if isinstance(value, StringIO):
        return value.getvalue()
    if isinstance(value, list):
        return [settle(entry) for entry in value]
    if isinstance(value, dict):
        return {key: settle(entry) for key, entry in value.items()}
    return value


def add_part(parts: list[Any], part: dict[str, Any]) -> None:
    """Adds a part to a list of typed parts, or to the last one if it continues that.

    Raises ProviderError if there are more parts than a reply may have.
    """
    last = parts[-1] if parts else {}
    if wire.text(part.get("type")) not in TEXTUAL or any(
        part.get(key) not in (None, last.get(key)) for key in ("type", "index", "id")
    ):
        check_parts(len(parts) + 1)
        parts.append(dict(part))
        return
    for key, value in part.items():
        if key in TEXTUAL.values() and isinstance(value, str):
            append_text(last, key, value)
        elif isinstance(value, list) and isinstance(last.get(key), list):
            for entry in wire.tables(value, key):
                add_part(last[key], entry)
        elif value is not None:
            last[key] = value
