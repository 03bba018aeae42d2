"""Decoders of streamed replies: from pieces of bytes, cut anywhere, to events.

Lines end only where the formats say so: U+2028 and the like are data. Bytes are joined before they
are decoded, so a character may be cut as well.
Source: D-24, D-31.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

from axe_nb.errors import ProviderError

BOM = b"\xef\xbb\xbf"

MAX_EVENT = 32 * 1024 * 1024
"""Bytes of one event, or of one line."""

FIELDS = (b"", b"data", b"event", b"id", b"retry")
"""Fields of server-sent events; a comment has none."""

Event: TypeAlias = tuple[str, str]
"""(name, data); the name is empty if the server gives none."""


class Decoder(Protocol):
    """A decoder of one reply."""

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yields the events that end in this piece."""
        ...

    def rest(self) -> Event | None:
        """Returns what has arrived of an unfinished last event, once the reply has ended."""
        ...


class _Lines:
    """Splits pieces of bytes into lines, in linear time however small the pieces are."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def split(self, piece: bytes) -> list[bytes]:
        """Returns the lines that end in this piece, without their line feeds.

        Raises ProviderError if a line exceeds `MAX_EVENT`.
        """
        if b"\n" not in piece:
            self._keep(piece)
            return []
        lines = piece.split(b"\n")
        lines[0] = b"".join((*self._parts, lines[0]))
        self._parts.clear()
        self._size = 0
        self._keep(lines.pop())
        return lines

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
            _check_size(self._size)

    def rest(self) -> bytes:
        """Returns the beginning of an unfinished line."""
        return b"".join(self._parts)


class SSEDecoder:
    r"""Decodes server-sent events; lines end with \n, \r\n or \r.

    Deviates from the standard in three things: `rest` returns an event that no blank line ends;
    a JSON object that begins a line within a stream is an event, as some servers report errors so;
    a field `error`, in which llama.cpp reports its errors, is the data of an event of that name.
    """

    def __init__(self) -> None:
        self._lines = _Lines()
        self._is_first = True
        self._after_return = False
        self._is_stream = False
        self._is_object = False
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yields the events that end in this piece."""
        if self._after_return and piece:
            piece = piece.removeprefix(b"\n")  # the second half of \r\n
            self._after_return = False
        if b"\r" in piece:
            self._after_return = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for line in self._lines.split(piece):
            if line:
                self._read(line)
            elif event := self._finish():
                yield event

    def rest(self) -> Event | None:
        """Returns what has arrived of an unfinished last event, once the reply has ended."""
        if last := self._lines.rest():
            self._read(last)
        return self._finish()

    def _read(self, line: bytes) -> None:
        if self._is_first:
            line = line.removeprefix(BOM)
            self._is_first = False
        field, _, value = line.partition(b":")
        if field == b"data":
            self._keep(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"error":
            self._read(b"event:error")
            self._read(b"data:" + value)
        elif self._is_object or (self._is_stream and line.startswith(b"{") and not self._data):
            self._is_object = True
            self._keep(line)
        self._is_stream = self._is_stream or field in FIELDS

    def _keep(self, data: bytes) -> None:
        self._data.append(data)
        self._size += len(data) + 8  # of its place in the list
        _check_size(self._size)

    def _finish(self) -> Event | None:
        self._is_first = False
        name, data = self._name, self._data
        self._name, self._data, self._size = b"", [], 0
        self._is_object = False
        if not data:
            return None
        joined = data[0] if len(data) == 1 else b"\n".join(data)
        return name.decode("utf-8", "replace"), joined.decode("utf-8", "replace")


class NDJSONDecoder:
    r"""Decodes lines of JSON, which end with \n; blank ones are skipped. Events have no names."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._is_first = True

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yields the lines that end in this piece."""
        yield from self._decode(self._lines.split(piece))

    def rest(self) -> Event | None:
        """Returns what has arrived of an unfinished last line, once the reply has ended."""
        return next(self._decode([self._lines.rest()]), None)

    def _decode(self, lines: Iterable[bytes]) -> Iterator[Event]:
        for line in lines:
            if self._is_first:
                line = line.removeprefix(BOM)
                self._is_first = False
            if line and not line.isspace():
                yield "", line.decode("utf-8", "replace")


def _check_size(size: int) -> None:
    if size > MAX_EVENT:
        raise ProviderError("server", f"an event of the reply exceeds {MAX_EVENT >> 20} MiB")
