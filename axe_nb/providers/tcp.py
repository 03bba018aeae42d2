"""One connection to a server, and the exchanges on it, one after the other.

Imported on first use, as httpx is.
Source: D-8, D-23; goals.md "one tool-call turn".
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import httpx

from axe_nb.providers.http1 import Reply

if TYPE_CHECKING:
    import ssl

MAX_UNREAD = 256 * 1024
"""Bytes of a body that wait to be read; beyond that the server has to wait."""

LONG = 64 * 1024
"""Bytes from which a piece is not copied; shorter ones in a row leave in one packet."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds before the first probe of a silent connection and between two, and their number: a
router on the way would forget a connection that is silent while the model thinks."""


class ClosedBeforeReply(httpx.RemoteProtocolError):
    """The server closed the connection before the first byte of a reply."""


class Connection(asyncio.Protocol):
    """A connection. An exchange is `send`, `read_head`, and `read` until it returns nothing."""

    def __init__(self) -> None:
        self.is_open = False
        self.when_lost: Callable[[Connection], None] | None = None
        """Called when the connection ends, even if it is idle."""
        self._loop = asyncio.get_running_loop()
        self._poll: select.poll | None = None
        """Shows whether data has arrived; None where `poll` does not exist (Windows)."""
        self._number = -1
        """File descriptor of its socket."""
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        """Time on the loop's clock at which the server has been silent for too long."""
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._reply = Reply()
        self._error: Exception | None = None
        self._is_silent = True
        """False once a byte of the reply has arrived."""
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets up the socket; asyncio calls it."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self.is_open = True
        sock = transport.get_extra_info("socket")
        self._number = sock.fileno()
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._number, select.POLLIN)
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
        self._cancel_timer()
        if error is not None:
            self._read_left()
        if not self._reply.is_whole and self._error is None:
            self._error = self._explain(error)
        if self.when_lost is not None:
            self.when_lost(self)
        self._wake(True)

    def _read_left(self) -> None:
        """Takes the reply that was there when sending failed.

        A server may refuse a long request before it has read all of it, and close the connection.
        """
        transport = self._transport
        if transport is None or transport.get_extra_info("sslcontext") is not None:
            return
        number = transport.get_extra_info("socket").fileno()  # -1 if it is closed already
        with suppress(OSError):
            while not self._reply.is_whole and (data := os.read(number, LONG)):
                self.data_received(data)

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
        """Closes the connection at once, without sending or reading the rest."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def is_reusable(self) -> bool:
        """True if its exchange is over and another one may follow."""
        assert self._transport is not None
        is_sent = not self._transport.get_write_buffer_size()
        return self.is_open and self._reply.keeps_alive and is_sent and not self._is_paused

    def is_idle(self) -> bool:
        """True if the server has neither closed the idle connection nor sent anything.

        Asks the socket: the loop knows only what came before a long cell blocked it.
        """
        if not self.is_reusable():
            return False
        if self._poll is None:
            return not select.select([self._number], [], [], 0)[0]
        return not self._poll.poll(0)

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

    def send(self, head: bytes, body: Sequence[bytes] = ()) -> None:
        """Sends a request, and with it begins an exchange.

        Args:
            head: the request up to its body.
            body: its body, in pieces.

        Raises:
            ClosedBeforeReply: the connection is closed.
        """
        if not self.is_open or self._transport is None:
            raise ClosedBeforeReply("the connection is closed")
        self._reply, self._is_silent = Reply(), True
        for buffer in _join_short([head, *body]):
            self._transport.write(buffer)

    async def read_head(self, seconds: float | None) -> Reply:
        """Returns the reply once its headers have arrived.

        Args:
            seconds: silence after which the reply is given up; None = no limit.

        Raises:
            httpx.TransportError: the connection breaks, or the server is silent.
        """
        while not self._reply.has_head:
            await self._wait(seconds)
        return self._reply

    async def read(self, seconds: float | None) -> bytes:
        """Returns what has arrived of the body, one byte at least; nothing at its end.

        Args:
            seconds: silence after which the reply is given up; None = no limit.

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
        """Waits for data from the server, or for its end."""
        if self._error is not None:
            raise self._error
        if not self.is_open or self._transport is None:
            raise httpx.ReadError("the connection is closed")
        unsent, has_news = self._transport.get_write_buffer_size(), False
        while not has_news:
            self._waiter = self._loop.create_future()
            self._set_timer(seconds)
            try:
                has_news = await self._waiter
            finally:
                self._waiter = None
            before, unsent = unsent, self._transport.get_write_buffer_size()
            if not has_news and unsent >= before:  # else a long request is on its way
                raise httpx.ReadTimeout("the server sent no data")

    def _set_timer(self, seconds: float | None) -> None:
        """Makes sure that the waiter wakes up in time; a timer that is running is made use of."""
        if not seconds:
            self._cancel_timer()
            return
        self._deadline = self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._deadline:
            self._cancel_timer()
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check_silence)

    def _check_silence(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._check_silence)
        else:
            self._wake(False)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self, has_news: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(has_news)


def _join_short(pieces: Sequence[bytes]) -> Iterator[bytes | memoryview]:
    """Yields pieces of a request, those that are short joined."""
    if max(map(len, pieces)) < LONG:
        yield b"".join(pieces)
        return
    short: list[bytes] = []
    for piece in pieces:
        if len(piece) < LONG:
            short.append(piece)
            continue
        yield b"".join(short)
        yield memoryview(piece)
        short.clear()
    yield b"".join(short)
