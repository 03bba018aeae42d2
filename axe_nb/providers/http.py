"""Requests to models' servers, and their replies.

Source: B-4, B-5, D-8, D-30.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Request
from axe_nb.providers.connection_errors import make_connection_error, name_proxy
from axe_nb.providers.connections import open_reply
from axe_nb.providers.protocol import OnDelta, Server
from axe_nb.providers.reply_errors import Headers, read_reply
from axe_nb.providers.secrets import Secrets
from axe_nb.providers.streamed_reply import StreamedReply, Streaming, is_stream
from axe_nb.wire_log import WireLog, play

MAX_REPLY = 32 * 1024 * 1024
"""Bytes of a reply's body."""


MAX_STREAM = 4 * MAX_REPLY
"""Bytes of a streamed reply, most of which are the envelopes of its pieces."""

BREATH = 50
"""Pieces of a reply between two that let other tasks run; each takes some 50 µs."""

SMALL_PIECE = 16
"""Bytes; a model's token is larger, with what a stream has around it."""

MAX_SMALL_PIECES = 100_000
"""Pieces of a reply that may be smaller on average: 5 s of the processor."""


async def post(
    server: Server,
    path: str,
    body: bytes,
    request: Request,
    streaming: Streaming | None = None,
) -> dict[str, Any]:
    """Sends a POST and returns the JSON object of the reply; cancelling closes the connection.

    Args:
        server: the server.
        path: below its base URL.
        body: the request as the server takes it.
        request: the same in no provider's format, for the error if its model does not support
            tools (D-30).
        streaming: how the protocol streams, for a server that does so although it is not asked to.

    Raises:
        ProviderError: the server is unreachable, refuses, fails or sends an invalid reply.
    """
    stream = None
    if streaming:
        stream = StreamedReply(streaming, _ignore, Secrets.of(server), is_asked_for=False)
    return await _send(server, "POST", path, body, request, stream)


def _ignore(_: Delta) -> None:
    """Takes the pieces of a stream that no one watches."""


async def post_stream(
    server: Server,
    path: str,
    body: bytes,
    request: Request,
    streaming: Streaming,
    on_delta: OnDelta,
) -> dict[str, Any]:
    """Sends a POST that asks for a stream; returns the same object as `post`.

    The server may answer with a whole reply all the same.

    Raises:
        ProviderError: as in `post`; or the stream is cut or reports an error. It has the text so
            far.
    """
    stream = StreamedReply(streaming, on_delta, Secrets.of(server))
    try:
        return await _send(server, "POST", path, body, request, stream)
    except ProviderError as error:
        error.partial_text = stream.partial_text
        raise error.with_traceback(None) from None


async def get(server: Server, path: str) -> dict[str, Any]:
    """Sends a GET and returns the JSON object of the reply; cancelling closes the connection.

    Raises:
        ProviderError: the server is unreachable, refuses, fails or sends an invalid reply.
    """
    return await _send(server, "GET", path, b"")


async def _send(
    server: Server,
    method: str,
    path: str,
    body: bytes,
    request: Request | None = None,
    stream: StreamedReply | None = None,
) -> dict[str, Any]:
    try:
        return await _send_and_read(server, method, path, body, request, stream)
    except ProviderError as error:
        # its frames and the errors of httpx hold the key, and URLs with passwords
        error.__cause__ = error.__context__ = None
        raise error.with_traceback(None) from None


async def _send_and_read(
    server: Server,
    method: str,
    path: str,
    body: bytes,
    request: Request | None,
    stream: StreamedReply | None,
) -> dict[str, Any]:
    log = request.log if request else None
    status, headers, reply = await _receive(server, method, path, body, stream, log)
    try:
        return read_reply(server.info, status, headers, reply, Secrets.of(server), request)
    except ProviderError as error:
        raise name_proxy(error, server, headers) from None


async def _receive(
    server: Server,
    method: str,
    path: str,
    body: bytes,
    stream: StreamedReply | None,
    log: WireLog | None,
) -> tuple[int, Headers, bytes]:
    """Sends one request, or plays a recorded reply; returns (status, headers, body)."""
    if log and (recorded := log.recorded):
        async with aclosing(play(recorded, log)) as played:
            if not recorded.status:
                await anext(played, b"")
            reply = await _read(played, recorded.status, stream)
        return recorded.status, recorded.headers, reply
    log = log or WireLog()
    log.begin()
    try:
        opened = await open_reply(server, method, path, body)
    except ProviderError as error:
        raise log.fail(error) from None
    try:
        log.start(opened.status, opened.headers)
        limit = MAX_STREAM if stream and stream.is_asked_for else MAX_REPLY
        reply = await _read(_Bounded(server, opened.body, limit, log), opened.status, stream)
    finally:
        opened.close()
    return opened.status, opened.headers, reply


async def _read(pieces: AsyncIterator[bytes], status: int, stream: StreamedReply | None) -> bytes:
    """Returns the body of a reply, or the body that a whole reply would have."""
    is_success = 200 <= status < 300
    if stream and stream.is_asked_for and is_success:
        reply = await stream.read(pieces)
    else:
        reply = b"".join([piece async for piece in pieces])
    if stream and not stream.is_asked_for and is_success and is_stream(reply):
        reply = await stream.read(_once(reply))
    if len(reply) > MAX_REPLY:
        raise _too_large(MAX_REPLY)
    return reply


async def _once(reply: bytes) -> AsyncGenerator[bytes, None]:
    yield reply


class _Bounded:
    """The pieces of a reply, of at most so many bytes; other tasks run between them."""

    def __init__(
        self, server: Server, pieces: AsyncIterator[bytes], limit: int, log: WireLog
    ) -> None:
        self._server = server
        self._pieces = pieces
        self._limit = limit
        self._log = log
        self._size = 0
        self._number = 0

    def __aiter__(self) -> _Bounded:
        return self

    async def __anext__(self) -> bytes:
        if self._number and self._number % BREATH == 0:
            await self._let_others_run()
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            raise
        except Exception as error:  # SSL raises more than httpx.HTTPError
            raise self._log.fail(make_connection_error(self._server, error)) from None
        self._size += len(piece)
        self._number += 1
        if self._size > self._limit:
            raise self._log.fail(_too_large(self._limit))
        self._log.add(piece)
        return piece

    async def _let_others_run(self) -> None:
        """Suspends: pieces that have already arrived are read without ever doing so."""
        await asyncio.sleep(0)
        if self._size < self._number * SMALL_PIECE and self._number > MAX_SMALL_PIECES:
            many = ProviderError("server", "the reply arrives in too many tiny pieces")
            raise self._log.fail(many)


def _too_large(limit: int) -> ProviderError:
    return ProviderError("server", f"the reply exceeds {limit >> 20} MiB")
