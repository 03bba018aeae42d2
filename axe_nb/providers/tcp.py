"""One connection to a server, and the exchanges on it, one after the other.

Imported on first use, as httpx is.
Source: D-8, D-23; goals.md "one tool-call turn".
"""

from __future__ import annotations

import asyncio
import select
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx

from axe_nb.providers.http1 import Reply, format_request
from axe_nb.providers.routes import PORTS, Route

if TYPE_CHECKING:
    import ssl

MAX_UNREAD = 256 * 1024
"""Bytes of a body that wait to be read; beyond that the server has to wait."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds before the first probe of a silent connection and between two, and their number: a
router on the way would forget a connection that is silent while the model thinks."""


NEXT_ADDRESS_SECONDS = 0.25
"""Delay before the next address of a host is tried beside the one before it (RFC 8305)."""


class ClosedBeforeReply(httpx.RemoteProtocolError):
    """The server closed the connection before the first byte of a reply."""


class Connection(asyncio.Protocol):
    """A connection. An exchange is `send`, `read_head`, and `read` until it returns nothing."""

    def __init__(self) -> None:
        self.is_open = False
        self.expiry: asyncio.TimerHandle | None = None
        """Closes it once it has been idle for too long."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._reply = Reply()
        self._error: Exception | None = None
        self._is_silent = True
        """False once a byte of the reply has arrived."""
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets up the socket; asyncio calls it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True
        sock = transport.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEP_ALIVE.items():
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def data_received(self, data: bytes) -> None:
        """Takes bytes from the server; asyncio calls it."""
        self._is_silent = False
        try:
            self._reply.receive(data)
        except httpx.RemoteProtocolError as error:
            self._error = error
            self.abort()
        if self._reply.unread > MAX_UNREAD and self._transport and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake(True)

    def eof_received(self) -> None:
        """Closes the connection that the server has closed; asyncio calls it."""
        if self._transport is not None:
            self._transport.abort()  # close() would wait until the request is sent

    def connection_lost(self, error: Exception | None) -> None:
        """Notes the end of the connection; asyncio calls it."""
        self.is_open = False
        if not self._reply.is_whole and self._error is None:
            self._error = self._explain(error)
        self._wake(True)

    def _explain(self, loss: Exception | None) -> Exception | None:
        """Returns the error that the loss of the connection means for the exchange, if any."""
        error: Exception
        if self._is_silent:
            error = ClosedBeforeReply("the server closed the connection without a reply")
        elif loss is not None:
            error = httpx.ReadError(str(loss) or type(loss).__name__)
        else:
            try:
                self._reply.end()
            except httpx.RemoteProtocolError as unfinished:
                return unfinished
            return None
        error.__cause__ = loss
        return error

    def abort(self) -> None:
        """Closes the connection at once, whatever is still to be sent or read."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def is_reusable(self) -> bool:
        """True if its exchange is over and another one may follow."""
        assert self._transport is not None
        is_sent = not self._transport.get_write_buffer_size()
        return self.is_open and self._reply.keeps_alive and is_sent

    def is_idle(self) -> bool:
        """True if the server has neither closed the idle connection nor sent anything.

        Asks the socket: the loop knows only what came before a long cell blocked it.
        """
        if not self.is_reusable():
            return False
        assert self._transport is not None
        number = self._transport.get_extra_info("socket").fileno()
        if not hasattr(select, "poll"):  # Windows
            return not select.select([number], [], [], 0)[0]
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return not poll.poll(0)

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Continues over TLS, through the tunnel that a proxy has opened.

        Raises:
            OSError: the handshake fails.
        """
        assert self._transport is not None
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None:
            raise ConnectionResetError("the connection was closed")
        self._transport = transport

    def send(self, request: bytes) -> None:
        """Sends a request, and with it begins an exchange.

        Raises:
            ClosedBeforeReply: the connection is closed.
        """
        if not self.is_open or self._transport is None:
            raise ClosedBeforeReply("the connection is closed")
        self._reply, self._is_silent = Reply(), True
        self._transport.write(request)

    async def read_head(self, seconds: float | None) -> Reply:
        """Returns the reply once its headers are there.

        Args:
            seconds: silence after which it is given up; None = no limit.

        Raises:
            httpx.TransportError: the connection breaks, or the server is silent.
        """
        while not self._reply.has_head:
            await self._wait(seconds)
        return self._reply

    async def read(self, seconds: float | None) -> bytes:
        """Returns what has arrived of the body, one byte at least; nothing at its end.

        Args:
            seconds: silence after which it is given up; None = no limit.

        Raises:
            httpx.TransportError: the connection breaks, or the server is silent.
        """
        reply = self._reply
        while not reply.unread and not reply.is_whole:
            await self._wait(seconds)
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return reply.take()

    async def _wait(self, seconds: float | None) -> None:
        """Waits for news of the server."""
        if self._error is not None:
            raise self._error
        if not self.is_open or self._transport is None:
            raise httpx.ReadError("the connection is closed")
        unsent = self._transport.get_write_buffer_size()
        while not await self._has_news(seconds):
            before, unsent = unsent, self._transport.get_write_buffer_size()
            if unsent >= before:  # else a long request is on its way
                raise httpx.ReadTimeout("the server is silent")

    async def _has_news(self, seconds: float | None) -> bool:
        """Waits for news; returns False after so many seconds."""
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake, False) if seconds else None
        try:
            return await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self, has_news: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(has_news)


async def connect(route: Route, seconds: float | None) -> Connection:
    """Returns a new connection, ready for requests.

    Args:
        route: the way to the server.
        seconds: time limit; None = none.

    Raises:
        httpx.TransportError: there is no connection; the proxy's errors are `httpx.ProxyError`.
    """
    try:
        async with asyncio.timeout(seconds):
            connection = await _connect_to_first_hop(route)
            try:
                if route.proxy is not None and route.context is not None:
                    await _open_tunnel(connection, route, route.context)
            except BaseException:
                connection.abort()
                raise
            return connection
    except TimeoutError as error:
        raise httpx.ConnectTimeout("no connection in time") from error
    except (OSError, UnicodeError) as error:  # the second: a name that cannot be looked up
        raise httpx.ConnectError(str(error)) from error


async def _connect_to_first_hop(route: Route) -> Connection:
    """Connects to the server or, if there is one, to its proxy."""
    loop = asyncio.get_running_loop()
    host, port, context = route.host, route.port, route.context
    if route.proxy is not None:
        url = route.proxy.url
        host, port = url.raw_host.decode(), url.port or PORTS[url.scheme]
        context = route.proxy_context
    try:
        _, connection = await loop.create_connection(
            Connection, host, port, ssl=context, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS
        )
    except (OSError, UnicodeError) as error:
        if route.proxy is None or isinstance(error, TimeoutError):
            raise
        raise httpx.ProxyError(str(error)) from error
    return connection


async def _open_tunnel(connection: Connection, route: Route, context: ssl.SSLContext) -> None:
    """Has the proxy connect to the server, and starts TLS with the server."""
    address = route.address.encode()
    headers = [(b"host", address), *route.proxy_login]
    try:
        connection.send(format_request(b"CONNECT %b HTTP/1.1" % address, headers, b""))
        reply = await connection.read_head(None)
    except httpx.TransportError as error:
        raise httpx.ProxyError(str(error)) from error
    if not 200 <= reply.status < 300:
        reason = reply.reason.decode("ascii", "replace")
        raise httpx.ProxyError(f"it answers {reply.status} {reason}")
    await connection.start_tls(context, route.host)
