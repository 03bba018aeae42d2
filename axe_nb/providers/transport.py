"""A transport for httpx over asyncio, with connections that are kept for the next request.

httpx's own looks at all its connections for each request (4 ms with 1000 at once), and does not
tell if a connection broke before any byte of the reply. aiohttp's session would do, but takes
longer to import than httpx does, and makes SSL contexts for plain http too.
Imported on first use, as httpx is.
Source: D-8, D-23, D-25, D-70; goals.md "one tool-call turn", "new process to first answer".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import httpx

from axe_nb.providers.connect import connect, make_proxy_error
from axe_nb.providers.http1 import Reply, format_head
from axe_nb.providers.routes import Route, find_route
from axe_nb.providers.tcp import ClosedBeforeReply, Connection

IDLE_SECONDS = 60.0

PROXY_LOGIN = 407
"""The status of a proxy that wants a login."""

Timeouts = Mapping[str, float | None]
"""httpx's `connect` and `read`: seconds of silence; None = no limit."""


Place = tuple[object, Route]
"""The requests that may share a connection: those with one `pool` in their extensions."""


class Transport(httpx.AsyncBaseTransport):
    """The connections of one event loop, to all servers. Bodies of requests are sent whole."""

    def __init__(self, max_open: int) -> None:
        """Creates a transport.

        Args:
            max_open: number of connections above which none is kept for later requests.
        """
        self._max_open = max_open
        self._open: set[Connection] = set()
        self._connecting = 0
        self._idle: dict[Place, dict[Connection, None]] = {}
        """The most recently used last."""
        self._by_age: dict[Connection, tuple[float, Place]] = {}
        """The idle connections, with the end of their time; the oldest first."""
        self._timer: asyncio.TimerHandle | None = None
        """Closes those whose time is over; one for all, as each request would need one."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request and returns the reply once its headers have arrived.

        Raises:
            httpx.TransportError: there is no reply.
        """
        route = find_route(request.url)
        reply = await self.exchange(
            (request.extensions.get("pool"), route),
            _format_head(request, route),
            [await request.aread()],
            request.extensions.get("timeout", {}),
        )
        return httpx.Response(
            reply.status,
            headers=reply.headers,
            stream=reply,
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": reply.reason},
        )

    async def exchange(
        self, place: Place, head: bytes, body: Sequence[bytes], timeouts: Timeouts
    ) -> Body:
        """Sends a request and returns the reply once its headers have arrived; it must be closed.

        It is sent once more if a connection that was used before turns out to be closed before
        any byte of the reply: the server closed it for having been idle (D-23).

        Args:
            place: whose connections may carry it, and the way to the server.
            head: the request up to its body.
            body: its body, in pieces.
            timeouts: how long the connection, and the server, may be silent.

        Raises:
            httpx.TransportError: there is no reply.
        """
        used = self._take_idle(place)
        if used is not None:
            try:
                return await self._send(used, place, head, body, timeouts)
            except ClosedBeforeReply:
                pass
        fresh = await self._connect(place[1], timeouts.get("connect"))
        return await self._send(fresh, place, head, body, timeouts)

    async def _connect(self, route: Route, seconds: float | None) -> Connection:
        """Returns a new connection; the idle one that is the oldest of all makes room for it."""
        self._connecting += 1
        try:
            if self._by_age and len(self._open) + self._connecting > self._max_open:
                self._close(next(iter(self._by_age)))
                await asyncio.sleep(0)  # the loop closes sockets in its next turn
            connection = await connect(route, seconds)
        finally:
            self._connecting -= 1
        connection.when_lost = self._close
        self._open.add(connection)
        return connection

    async def _send(
        self,
        connection: Connection,
        place: Place,
        head: bytes,
        body: Sequence[bytes],
        timeouts: Timeouts,
    ) -> Body:
        seconds = timeouts.get("read")
        try:
            connection.send(head, body)
            reply = await connection.read_head(seconds)
            if reply.status == PROXY_LOGIN and is_whole_url_sent(place[1]):
                raise make_proxy_error(reply)
        except BaseException:
            self._close(connection)
            raise
        return Body(self, connection, place, seconds, reply)

    def release(self, connection: Connection, place: Place) -> None:
        """Keeps a connection for later, unless its reply was not read to the end."""
        if not connection.is_reusable() or len(self._open) + self._connecting > self._max_open:
            self._close(connection)
            return
        loop = asyncio.get_running_loop()
        self._idle.setdefault(place, {})[connection] = None
        self._by_age[connection] = loop.time() + IDLE_SECONDS, place
        if self._timer is None:
            self._timer = loop.call_later(IDLE_SECONDS, self._close_old, loop)

    def _close_old(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes the connections whose time is over."""
        self._timer = None
        for connection, (end, _) in list(self._by_age.items()):
            if end > loop.time():
                self._timer = loop.call_at(end, self._close_old, loop)
                return
            self._close(connection)

    async def aclose(self) -> None:
        """Closes all connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._open):
            self._close(connection)
        await asyncio.sleep(0)  # the loop closes sockets in its next turn

    def _take_idle(self, place: Place) -> Connection | None:
        """Returns the connection that was used last, if any."""
        while idle := self._idle.get(place):
            connection = next(reversed(idle))
            if connection.is_idle():
                self._withdraw(connection)
                return connection
            self._close(connection)
        return None

    def _withdraw(self, connection: Connection) -> None:
        """Makes sure that a connection is not idle."""
        _, place = self._by_age.pop(connection, (0.0, None))
        if place is None:
            return
        idle = self._idle[place]
        del idle[connection]
        if not idle:
            del self._idle[place]

    def _close(self, connection: Connection) -> None:
        self._withdraw(connection)
        self._open.discard(connection)
        connection.abort()


class Body(httpx.AsyncByteStream):
    """The body of a reply, in pieces as they arrive."""

    def __init__(
        self,
        transport: Transport,
        connection: Connection,
        place: Place,
        seconds: float | None,
        reply: Reply,
    ) -> None:
        self.status = reply.status
        self.reason = reply.reason
        self.headers = reply.headers
        self._transport = transport
        self._connection = connection
        self._place = place
        self._seconds = seconds
        self._is_closed = False

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._connection.read(self._seconds)
        if not piece:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Keeps the connection for later requests, unless the body was not read to its end."""
        if not self._is_closed:
            self._is_closed = True
            self._transport.release(self._connection, self._place)

    async def aclose(self) -> None:
        self.close()


def is_whole_url_sent(route: Route) -> bool:
    """True for plain http through a proxy, which may answer in the server's place."""
    return route.proxy is not None and route.context is None


def _format_head(request: httpx.Request, route: Route) -> bytes:
    headers = request.headers.raw
    if any(name.lower() == b"transfer-encoding" for name, _ in headers):
        raise httpx.LocalProtocolError("a request is sent whole, not in parts")
    return write_head(request.method, request.url, headers, route)


def write_head(
    method: str, url: httpx.URL, headers: Iterable[tuple[bytes, bytes]], route: Route
) -> bytes:
    """Returns a request up to its body; a proxy for plain http gets the whole URL."""
    target = url.raw_path
    if is_whole_url_sent(route):
        target = b"http://" + url.netloc + target
        headers = [*headers, *route.proxy_login]
    return format_head(b"%b %b HTTP/1.1" % (method.encode(), target), headers)
