"""Converts streamed replies to the JSON objects that unstreamed replies would contain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from io import StringIO
from typing import Any, ClassVar, TypeAlias

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, DeltaKind, dump
from axe_nb.providers import wire
from axe_nb.providers.protocol import OnDelta
from axe_nb.providers.reply_errors import error_in_reply, find_message, masked_line

Event: TypeAlias = tuple[str, str]
"""Name and data of an event; the name is empty if the server sends none."""


class SSEDecoder:
    """Decodes server-sent events; the blank line after the last event may be missing.

    Extends the standard in two ways: a JSON object at the start of a line is an event, as some
    servers report errors that way, and the field `error` is an event named `error` (llama.cpp).
    """

    is_stream: bool | None = None
    """True if the first line of the reply belongs to a stream; None until that line arrives."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._after_return = False
        self._is_object = False
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[Event]:
        if self._after_return and piece:
            piece = piece.removeprefix(b"\n")  # the second half of \r\n
            self._after_return = False
        if b"\r" in piece:
            self._after_return = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for line in self._split(piece):
            if line:
                self._read(line)
            elif event := self._finish():
                yield event

    def rest(self) -> Event | None:
        """Returns the event left unfinished at the end of the reply, or None if there is none."""
        if last := self._join():
            self._read(last)
        return self._finish()

    def _split(self, piece: bytes) -> list[bytes]:
        """Returns the lines that this piece completes, and keeps the unfinished line."""
        first, *others = piece.split(b"\n")
        self._parts.append(first)
        if not others:
            return []
        lines = [self._join(), *others[:-1]]
        self._parts = [others[-1]]
        return lines

    def _join(self) -> bytes:
        line = b"".join(self._parts)
        return line.removeprefix(b"\xef\xbb\xbf") if self.is_stream is None else line

    def _read(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if self.is_stream is None and not line.isspace():  # a comment has no field
            self.is_stream = field in (b"", b"data", b"event", b"id", b"retry", b"error")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"error":
            self._name = field
            self._data.append(value)
        elif self._is_object or (line.startswith(b"{") and not self._data):
            self._is_object = True
            self._data.append(line)

    def _finish(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data, self._is_object = b"", [], False
        if not data or not self.is_stream:
            return None
        return name.decode("utf-8", "replace"), b"\n".join(data).decode("utf-8", "replace")


class NDJSONDecoder(SSEDecoder):
    r"""Decodes newline-delimited JSON, whose events have no names."""

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yields an event without a name for each line that this piece completes."""
        for line in self._split(piece):
            if self.is_stream is None and line.startswith(b"{"):
                self.is_stream = line.rstrip().endswith(b"}")
            if self.is_stream:
                yield "", line.decode("utf-8", "replace")

    def rest(self) -> Event | None:
        """Returns the unfinished last line as an event, or None if the reply is not a stream."""
        return next(self.feed(b"\n"), None) if self.is_stream else None


class Assembly:
    """Base class for collecting the events of a streamed reply and passing its deltas on."""

    decoder: ClassVar[type[SSEDecoder]] = SSEDecoder

    def __init__(self, on_delta: OnDelta | None) -> None:
        self.is_complete = False
        """True once the model has finished; a reply is then complete even if its stream breaks."""
        self.has_ended = False
        """True once the last event has arrived; anything after it is ignored."""
        self._on_delta = on_delta or (lambda delta: None)
        self._text = StringIO()

    def add(self, name: str, data: dict[str, Any]) -> None:
        """Adds an event, or ignores an unknown event. Raises ProviderError for an error event."""
        raise NotImplementedError

    def end(self) -> None:
        """Handles the end marker `[DONE]`, which has no meaning in most protocols."""

    def reply(self) -> dict[str, Any]:
        """Returns the JSON object of the equivalent unstreamed reply."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The reply text passed to `on_delta` so far."""
        return self._text.getvalue()

    def show(self, piece: str, kind: DeltaKind = "text", call: int = 0) -> None:
        """Passes a piece to `on_delta`; `call` is the tool call's position."""
        if not piece:
            return
        piece = _join_halves(piece)
        if kind == "text":
            self._text.write(piece)
        self._on_delta(Delta(piece, kind, call))

    def show_call(self, call: int, name: object) -> None:
        """Passes a call's tool name to `on_delta`, before any arguments of the call."""
        if isinstance(name, str) and name:
            self._on_delta(Delta("", "arguments", call, _join_halves(name)))


def _join_halves(text: str) -> str:
    """Joins surrogate pairs into characters and replaces lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check_parts(count: int) -> None:
    """Raises ProviderError if a reply has too many blocks or calls."""
    if count > 10_000:
        raise ProviderError("server", "the reply has more than 10000 parts")


def append_text(entry: dict[str, Any], key: str, piece: str) -> None:
    """Appends to the text `entry[key]` in constant time; call `settle` to get plain strings."""
    held = entry.get(key)
    if not isinstance(held, StringIO):
        entry[key], first = StringIO(), held
        held = entry[key]
        held.write(first if isinstance(first, str) else "")
    held.write(piece)


def settle(value: Any) -> Any:
    """Returns a value with the texts collected by `append_text` converted to strings."""
    if isinstance(value, StringIO):
        return value.getvalue()
    if isinstance(value, list):
        return [settle(entry) for entry in value]
    if isinstance(value, dict):
        return {key: settle(entry) for key, entry in value.items()}
    return value


class StreamedReply:
    """Reads a reply as it arrives, whether or not the server streams it."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._decoder = assembly.decoder()
        self._raw: list[bytes] = []
        """Pieces that were received before the reply proved to be a stream."""
        self._ignored = ""
        """The last event that was not JSON; empty if there was none."""
        self._last: dict[str, Any] = {}
        """The last JSON object that was received."""

    async def read(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Returns the reply's body; a stream is converted to the equivalent unstreamed body."""
        try:
            return await self._read(pieces)
        except ProviderError as error:
            error.partial_text = self._assembly.text
            raise

    async def _read(self, pieces: AsyncIterator[bytes]) -> bytes:
        while not self._assembly.has_ended:
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return self._finish()
            except Exception:  # a connection that breaks after the answer does not matter
                if not self._assembly.is_complete:
                    raise
                return self._finish()
            if not self._decoder.is_stream:
                self._raw.append(piece)
            if self._decoder.is_stream is False:
                continue
            for event in self._decoder.feed(piece):
                self._add(event)
                if self._assembly.has_ended:
                    break
        with suppress(Exception):
            async with asyncio.timeout(0.5):  # a reply read to its end frees its connection
                async for _ in pieces:
                    pass
        return self._finish()

    def _add(self, event: Event, *, is_cut: bool = False) -> None:
        name, data = event[0], event[1].strip()
        if not data or name == "ping":
            return
        if data.startswith("[DONE]"):
            self._assembly.end()
            return
        value = None
        with suppress(ValueError):
            value = wire.loads_part(data)
        if isinstance(value, dict):
            if value.get("error"):
                raise error_in_reply(value)
            if name == "error" or "error" in (value.get("type"), value.get("object")):
                raise error_in_reply({"error": value})
            self._last = value
            self._assembly.add(name, value)
        elif name == "error":
            raise ProviderError("server", masked_line(data))
        elif not data.startswith(("{", "[")):
            self._ignored = data  # gateways send `: keepalive` or `ping` while the model thinks
        elif not (self._assembly.is_complete or is_cut):
            words = masked_line(data, 60)
            raise ProviderError("server", f"an event of the stream is not a JSON object: {words}")

    def _finish(self) -> bytes:
        if not self._assembly.has_ended and (event := self._decoder.rest()):
            self._add(event, is_cut=True)
        if not self._decoder.is_stream:
            return b"".join(self._raw)
        if not self._assembly.is_complete:
            words = masked_line(find_message(self._last) or self._ignored)
            told = "the stream ended before the answer was complete" + (words and f": {words}")
            hint = "try again, or allow more retries with --retries (retries=)"
            raise ProviderError("server", told, hint=hint)
        try:
            return dump(settle(self._assembly.reply()))
        except (ValueError, RecursionError) as error:
            raise ProviderError("server", f"the reply is malformed: {error}") from None
