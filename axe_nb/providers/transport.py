"""A transport for httpx over asyncio, with connections that are kept for the next request.

httpx's own looks at all its connections for each request (4 ms with 1000 at once), and does not
tell if a connection broke before any byte of the reply. aiohttp's session would do, but takes
longer to import than httpx does, and makes SSL contexts for plain http too.
Imported on first use, as httpx is.
Source: D-8, D-23, D-25, D-70; goals.md "one tool-call turn", "new process to first answer".
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

import httpx

from axe_nb.providers.connect import connect
from axe_nb.providers.http1 import Decompressor, format_head
from axe_nb.providers.routes import Route, find_route
from axe_nb.providers.tcp import ClosedBeforeReply, Connection

IDLE_SECONDS = 60.0

Message = tuple[bytes, bytes]
"""A request up to its body, and the body."""

Timeouts = Mapping[str, float | None]
"""httpx's `connect` and `read`: seconds of silence; None = no limit."""


class Transport(httpx.AsyncBaseTransport):
    """The connections of one event loop to one server. Bodies of requests are sent whole."""

    def __init__(self, max_idle: int) -> None:
        """Creates a transport.

        Args:
            max_idle: maximum number of connections kept for later requests.
        """
        self._max_idle = max_idle
        self._idle: dict[Route, list[Connection]] = defaultdict(list)
        self._open: set[Connection] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request and returns the reply once its headers are there.

        It is sent once more if a connection that was used before turns out to be closed before
        any byte of the reply: the server closed it for having been idle (D-23).

        Raises:
            httpx.TransportError: there is no reply.
        """
        route = find_route(request.url)
        message = _format_head(request, route), await request.aread()
        timeouts: Timeouts = request.extensions.get("timeout", {})
        used = self._take_idle(route)
        if used is not None:
            try:
                return await self._exchange(used, route, message, timeouts)
            except ClosedBeforeReply:
                pass
        fresh = await connect(route, timeouts.get("connect"))
        return await self._exchange(fresh, route, message, timeouts)

    async def _exchange(
        self, connection: Connection, route: Route, message: Message, timeouts: Timeouts
    ) -> httpx.Response:
        self._open.add(connection)
        seconds = timeouts.get("read")
        try:
            connection.send(*message)
            reply = await connection.read_head(seconds)
            decompressor = Decompressor.of(reply)
        except BaseException:
            self._close(connection)
            raise
        return httpx.Response(
            reply.status,
            headers=reply.headers,
            stream=_Body(self, connection, route, seconds, decompressor),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": reply.reason},
        )

    def release(self, connection: Connection, route: Route) -> None:
        """Keeps a connection for later, unless its reply was not read to the end."""
        if connection.is_reusable() and sum(map(len, self._idle.values())) < self._max_idle:
            loop = asyncio.get_running_loop()
            connection.expiry = loop.call_later(IDLE_SECONDS, self._expire, connection, route)
            self._idle[route].append(connection)
        else:
            self._close(connection)

    async def aclose(self) -> None:
        """Closes all connections."""
        for connection in list(self._open):
            self._close(connection)
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes sockets in its next turn

    def _take_idle(self, route: Route) -> Connection | None:
        """Returns the connection that was used last, if any."""
        idle = self._idle.get(route)
        while idle:
            connection = idle.pop()
            if connection.is_idle():
                if connection.expiry is not None:
                    connection.expiry.cancel()
                return connection
            self._close(connection)
        return None

    def _expire(self, connection: Connection, route: Route) -> None:
        self._idle[route].remove(connection)
        self._close(connection)

    def _close(self, connection: Connection) -> None:
        if connection.expiry is not None:
            connection.expiry.cancel()
        self._open.discard(connection)
        connection.abort()


class _Body(httpx.AsyncByteStream):
    """The body of a reply, in pieces as they arrive."""

    def __init__(
        self,
        transport: Transport,
        connection: Connection,
        route: Route,
        seconds: float | None,
        decompressor: Decompressor | None,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._route = route
        self._seconds = seconds
        self._decompressor = decompressor
        self._is_closed = False

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        piece = b""
        if self._decompressor is not None:
            piece = self._decompressor.take()
        while not piece:
            piece = await self._connection.read(self._seconds)
            if not piece:
                raise StopAsyncIteration
            if self._decompressor is not None:
                piece = self._decompressor.take(piece)
        return piece

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._transport.release(self._connection, self._route)


def _format_head(request: httpx.Request, route: Route) -> bytes:
    """Returns a request up to its body; a proxy for plain http gets the whole URL."""
    headers, target = request.headers.raw, request.url.raw_path
    if "transfer-encoding" in request.headers:
        raise httpx.LocalProtocolError("a request is sent whole, not in parts")
    if route.proxy is not None and route.context is None:
        target = b"http://" + request.url.netloc + target
        headers = [*headers, *route.proxy_login]
    return format_head(b"%b %b HTTP/1.1" % (request.method.encode(), target), headers)
