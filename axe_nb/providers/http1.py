"""HTTP/1.1 without sockets: the bytes of a request, and a reply made of the bytes that arrive.

Imported on first use, as httpx and httptools are.
Source: D-8, D-23, D-70.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import httptools
import httpx

MAX_HEAD = 256 * 1024
"""Bytes of a reply before its body, interim replies included."""

MAX_PIECE = 1024 * 1024
"""Bytes of a body that are decompressed at once: what is sent as 300 kB may be 300 MB."""

FRAMED = frozenset({b"content-length", b"transfer-encoding"})
"""Headers of a reply whose end is known without the end of the connection."""


def format_head(start: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns a request as it is sent, up to its body.

    Raises:
        httpx.LocalProtocolError: the first line or a header has a line break in it.
    """
    lines = [start, *(b"%b: %b" % header for header in headers), b"", b""]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
        raise httpx.LocalProtocolError("a line break in a header of the request")
    return head


class Reply:
    """A reply as it arrives; httptools calls the `on_…` methods."""

    def __init__(self) -> None:
        self.status = 0
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_head = False
        self.is_whole = False
        self.keeps_alive = False
        """True if the connection may carry another exchange, once the reply is whole."""
        self.unread = 0
        """Bytes of the body that wait to be taken."""
        self._pieces: list[bytes] = []
        self._size_of_head = 0
        self._parser = httptools.HttpResponseParser(self)
        # servers of models are often small programs, which httpx and the vendors' SDKs understand
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def receive(self, data: bytes) -> None:
        """Takes bytes from the server.

        Raises:
            httpx.RemoteProtocolError: they are not HTTP/1.1.
        """
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise httpx.RemoteProtocolError("the server switched protocols") from None
        except httptools.HttpParserError as error:
            if not self.is_whole:  # else there is more than was asked for, which is ignored
                raise httpx.RemoteProtocolError(f"invalid HTTP: {error}") from None
            self.keeps_alive = False
        if not self.has_head:
            self._size_of_head += len(data)
            if self._size_of_head > MAX_HEAD:
                raise httpx.RemoteProtocolError("the headers of the reply are too long")

    def end(self) -> None:
        """Takes the end of the connection, which is the end of a body of unknown length.

        Raises:
            httpx.RemoteProtocolError: the reply is not whole.
        """
        if not self.has_head:
            raise httpx.RemoteProtocolError("the server closed the connection within the headers")
        if any(name.lower() in FRAMED for name, _ in self.headers):
            raise httpx.RemoteProtocolError("the server closed the connection within the body")
        self.is_whole = True

    def take(self) -> bytes:
        """Returns the part of the body that has arrived since the last time."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self.unread = 0
        return data

    def on_message_begin(self) -> None:
        """Notes a second reply, which no request asked for."""
        if self.is_whole:
            self.keeps_alive = False

    def on_status(self, reason: bytes) -> None:
        """Receives the reason phrase, or a part of it."""
        if not self.is_whole:
            self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receives a header; those after the body are dropped."""
        if not self.has_head:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Notes the end of the headers, but for those of an interim reply."""
        if not self.is_whole:
            self.status = self._parser.get_status_code()
            self.has_head = self.status >= 200

    def on_body(self, data: bytes) -> None:
        """Receives a piece of the body."""
        if not self.is_whole:
            self._pieces.append(data)
            self.unread += len(data)

    def on_message_complete(self) -> None:
        """Notes the end of the reply, or of an interim one."""
        if self.has_head:
            self.keeps_alive = not self.is_whole and self._parser.should_keep_alive()
            self.is_whole = True
        else:
            self.reason = b""
            self.headers.clear()


class Decompressor:
    """Decompresses a body that is compressed without having been asked for, as gateways may do."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip and zlib
        self._is_new = True
        self._has_more = False

    @classmethod
    def of(cls, reply: Reply) -> Decompressor | None:
        """Returns what a body needs, or None; the reply is then as if it were not compressed.

        Raises:
            httpx.DecodingError: it is compressed in a way that is not supported.
        """
        codings = [value for name, value in reply.headers if name.lower() == b"content-encoding"]
        coding = b", ".join(codings).strip().lower()
        if coding in (b"", b"identity"):
            return None
        if coding not in (b"gzip", b"x-gzip", b"deflate"):
            shown = coding.decode("ascii", "replace")
            raise httpx.DecodingError(f"compressed ({shown}), which was not asked for")
        dropped = (b"content-encoding", b"content-length")
        reply.headers = [pair for pair in reply.headers if pair[0].lower() not in dropped]
        return cls()

    def take(self, data: bytes = b"") -> bytes:
        """Returns the next part of the body, empty if more data is needed.

        Args:
            data: what arrived; empty as long as the last call returned something.

        Raises:
            httpx.DecodingError: the data is corrupt.
        """
        if not data and not self._has_more:
            return b""
        if self._is_new and data[0] & 15 != 8 and data[:1] != b"\x1f":
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # "deflate", as old servers have it
        self._is_new = False
        if self._zlib.eof:  # whatever follows does not count
            return b""
        try:
            part = self._zlib.decompress(data or self._zlib.unconsumed_tail, MAX_PIECE)
        except zlib.error as error:
            raise httpx.DecodingError(f"corrupt compressed data: {error}") from None
        self._has_more = bool(self._zlib.unconsumed_tail) or len(part) == MAX_PIECE
        return part
