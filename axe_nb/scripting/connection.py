"""One HTTP connection to a script server: requests, replies and detection of disconnects.

Uses h11, which httpx depends on; sans-io, so that a disconnect is noticed while the reply is still
pending.
Source: D-8.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass
from http.client import responses
from typing import Any, TypeVar

import h11

T = TypeVar("T")

MAX_BODY = 32 * 1024 * 1024
"""Bytes of one request's body."""

CHUNK = 64 * 1024
"""Maximum number of bytes per read."""


class Unreadable(Exception):
    """The data is not an HTTP request that this server accepts; the text says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ClientGone(Exception):
    """The client closed the connection before it had its reply."""


class BrokenOff(Exception):
    """The server is to close the connection in the middle of a chunk."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One complete request."""

    method: str
    path: str
    """The path without the query."""
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpReply:
    """One reply."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    """The whole body; or its chunks as they are made, which may raise BrokenOff."""
    kind: str = "application/json"
    """Content type of the body."""
    retry_after: float | None = None
    """Seconds; None = the header is not sent."""


class HttpConnection:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def next_request(self) -> HttpRequest | None:
        """Returns the next request; None if the client has no more.

        Raises Unreadable if it is too large, or not HTTP.
        """
        head: h11.Request | None = None
        body = bytearray()
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise Unreadable(error.error_status_hint, str(error)) from None
            match event:
                case h11.NEED_DATA:
                    self._http.receive_data(await self._reader.read(CHUNK))
                case h11.Request():
                    head = event
                case h11.Data():
                    body += event.data
                    if len(body) > MAX_BODY:
                        raise Unreadable(413, f"the request is larger than {MAX_BODY} bytes")
                case h11.EndOfMessage() if head:
                    path = head.target.decode("ascii", "replace").partition("?")[0]
                    return HttpRequest(head.method.decode("ascii"), path, bytes(body))
                case _:
                    return None

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of the work.

        Raises ClientGone if the client disconnected; the work was cancelled.
        """
        working = asyncio.create_task(work)
        leaving = asyncio.create_task(self._wait_for_disconnect())
        both = (working, leaving)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ClientGone
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)

    async def _wait_for_disconnect(self) -> None:
        """Returns when the client closes the connection; what it sends meanwhile is received."""
        received = 0
        with contextlib.suppress(ConnectionError):
            while (data := await self._reader.read(CHUNK)) and received <= MAX_BODY:
                received += len(data)
                self._http.receive_data(data)

    async def send(self, reply: HttpReply) -> bool:
        """Sends the reply; returns True if another request may follow on this connection.

        Raises ClientGone if the client disconnected, and a write was the first to notice.
        """
        headers = [("content-type", reply.kind)]
        if reply.retry_after is not None:
            headers.append(("retry-after", f"{reply.retry_after:g}"))
        if isinstance(reply.body, bytes):
            headers.append(("content-length", str(len(reply.body))))
        else:
            headers += [("cache-control", "no-cache"), ("transfer-encoding", "chunked")]
        reason = responses.get(reply.status, "").encode()
        head = h11.Response(status_code=reply.status, headers=headers, reason=reason)
        if isinstance(reply.body, bytes):
            await self._write(head, h11.Data(data=reply.body), h11.EndOfMessage())
        else:
            await self._write(head)
            try:
                async with contextlib.aclosing(reply.body) as chunks:
                    async for chunk in chunks:
                        await self._write(h11.Data(data=chunk))
            except BrokenOff:
                await self._write_bytes(b"400\r\ndata: {")
                return False
            await self._write(h11.EndOfMessage())
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _write(self, *events: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        await self._write_bytes(b"".join(self._http.send(event) or b"" for event in events))

    async def _write_bytes(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            raise ClientGone from None
