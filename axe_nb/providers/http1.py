"""HTTP/1.1 without sockets: the bytes of a request, and a reply made of the bytes that arrive.

Imported on first use, as httpx and httptools are.
Source: D-8, D-23, D-70.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import httptools
import httpx

MAX_HEAD = 256 * 1024
"""Bytes of a reply before its body, interim replies included; and of what follows the body."""

FRAMED = frozenset({b"content-length", b"transfer-encoding"})
"""Headers of a reply whose end is known without the end of the connection."""

ODD = {"lenient_headers": True, "lenient_version": True, "lenient_chunked_length": True}
"""Leniencies of the parser for headers that are not quite HTTP/1.1."""

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_LENGTH = re.compile(rb"^content-length:([^\r\n]*)\r?\n", re.IGNORECASE | re.MULTILINE)


def format_head(start: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns a request as it is sent, up to its body.

    Raises:
        httpx.LocalProtocolError: the first line or a header has a line break in it.
    """
    lines = [start, *(b"%b: %b" % header for header in headers), b"", b""]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
        raise httpx.LocalProtocolError("a header of the request contains a line break")
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
        self._head: bytes | None = b""
        """Everything that has arrived, until it no longer needs to be read again."""
        self._overhead = 0
        """Bytes received since the last byte of the body."""
        self._is_odd = False
        """True if the headers are not quite HTTP/1.1."""
        self._parser: httptools.HttpResponseParser | None = None
        """While there is something to parse: it holds the reply in turn, and a cycle would have to
        wait for the garbage collector."""
        self._leniencies: dict[str, bool] = {}

    def _parse(self, data: bytes) -> None:
        """Passes data to the parser, which is lenient: servers of models are often small programs.

        Raises:
            httptools.HttpParserError: it is not HTTP/1.1.
        """
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
            self._parser.set_dangerous_leniencies(
                lenient_optional_cr_before_lf=True,
                lenient_spaces_after_chunk_size=True,
                **self._leniencies,
            )
        self._parser.feed_data(data)
        if self.is_whole:
            self._parser = None

    def receive(self, data: bytes) -> None:
        """Takes bytes from the server.

        Raises:
            httpx.RemoteProtocolError: they are not HTTP/1.1.
        """
        unread = self.unread
        try:
            self._feed(data)
        except httptools.HttpParserUpgrade:
            raise httpx.RemoteProtocolError("the server switched protocols") from None
        except httptools.HttpParserError as error:
            if not self.is_whole:  # else there is more than was asked for, which is ignored
                raise httpx.RemoteProtocolError(f"invalid HTTP: {error}") from None
            self.keeps_alive = False
        self._overhead = 0 if self.unread > unread else self._overhead + len(data)
        if self._overhead > MAX_HEAD and not self.is_whole:
            raise httpx.RemoteProtocolError("the headers of the reply are too long")

    def _feed(self, data: bytes) -> None:
        if self._head is None:
            self._parse(data)
            return
        searched = len(self._head)
        self._head += data
        if not self._is_odd:
            try:
                self._parse(data)
                return
            except httptools.HttpParserError:
                if self._head is None or not self._head.startswith(b"HTTP/"):
                    raise
                self._is_odd, searched = True, 0
        if end := _END_OF_HEAD.search(self._head, max(searched - 2, 0)):
            self._read_again(self._head[: end.end()], self._head[end.end() :])

    def _read_again(self, head: bytes, rest: bytes) -> None:
        """Reads odd headers as httpx and the vendors' SDKs do."""
        self._head = None
        self.reason = b""
        self.headers.clear()
        self._parser, self._leniencies = None, ODD
        self._parse(_unite_lengths(head) + rest)

    def end(self) -> None:
        """Takes the end of the connection, which is the end of a body of unknown length.

        Raises:
            httpx.RemoteProtocolError: the reply is not whole.
        """
        if not self.has_head:
            raise httpx.RemoteProtocolError(
                "the server closed the connection in the middle of the headers"
            )
        if any(name.lower() in FRAMED for name, _ in self.headers):
            raise httpx.RemoteProtocolError(
                "the server closed the connection in the middle of the body"
            )
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
        if not self.is_whole and self._parser is not None:
            self.status = self._parser.get_status_code()
            self.has_head = self.status >= 200
        if self.has_head:
            self._head = None

    def on_body(self, data: bytes) -> None:
        """Receives a piece of the body."""
        if not self.is_whole:
            self._pieces.append(data)
            self.unread += len(data)

    def on_message_complete(self) -> None:
        """Notes the end of the reply, or of an interim one."""
        if self.has_head:
            self.keeps_alive = (
                not self.is_whole
                and not self._is_odd
                and self._parser is not None
                and self._parser.should_keep_alive()
            )
            self.is_whole = True
        else:
            self.reason = b""
            self.headers.clear()


def _unite_lengths(head: bytes) -> bytes:
    """Returns the start of a reply with one Content-Length, if it has the same one repeatedly."""
    found = {value.strip() for field in _LENGTH.findall(head) for value in field.split(b",")}
    if len(found) != 1:
        return head
    start, line_feed, others = _LENGTH.sub(b"", head).partition(b"\n")
    return b"%b%bcontent-length: %b\r\n%b" % (start, line_feed, found.pop(), others)
