"""Requests to models' servers, and their replies.

Source: B-4, B-5, D-8, D-30.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Request
from axe_nb.providers.connection_errors import make_connection_error, name_proxy
from axe_nb.providers.connections import open_reply
from axe_nb.providers.protocol import OnDelta, Server
from axe_nb.providers.reply_errors import Headers, read_reply
from axe_nb.providers.secrets import Secrets
from axe_nb.providers.streamed_reply import StreamedReply, Streaming, is_stream
from axe_nb.wire_log import WireLog, play

if TYPE_CHECKING:
    import httpx

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
    is_asked_for = stream is not None and stream.is_asked_for
    limit = MAX_STREAM if is_asked_for else MAX_REPLY
    async with _open(server, method, path, body, log, limit) as (status, headers, pieces):
        is_success = 200 <= status < 300
        if stream and is_asked_for and is_success:
            reply = await stream.read(pieces)
        else:
            reply = b"".join([piece async for piece in pieces])
    if stream and not is_asked_for and is_success and is_stream(reply):
        reply = await stream.read(_once(reply))
    if len(reply) > MAX_REPLY:
        raise _too_large(MAX_REPLY)
    return status, headers, reply


@asynccontextmanager
async def _open(
    server: Server, method: str, path: str, body: bytes, log: WireLog | None, limit: int
) -> AsyncIterator[tuple[int, Headers, AsyncIterator[bytes]]]:
    """Yields (status, headers, pieces of the body) of a reply, recorded or from the server."""
    if log and (recorded := log.recorded):
        async with aclosing(play(recorded, log)) as played:
            if not recorded.status:
                await anext(played, b"")
            yield recorded.status, recorded.headers, played
        return
    log = log or WireLog()
    log.begin()
    async with AsyncExitStack() as stack:
        try:
            response = await stack.enter_async_context(open_reply(server, method, path, body))
        except ProviderError as error:
            raise log.fail(error) from None
        log.start(response.status_code, response.headers)
        bounded = _bound(server, _get_body(response), limit, log)
        pieces = await stack.enter_async_context(aclosing(bounded))
        yield response.status_code, response.headers, pieces


def _get_body(response: httpx.Response) -> AsyncIterator[bytes]:
    """Returns the pieces of a body, which the transport has decompressed.

    `aiter_bytes` would add two generators, which a turn would notice.
    """
    stream: Any = response.stream
    return aiter(stream)


async def _once(reply: bytes) -> AsyncGenerator[bytes, None]:
    yield reply


async def _bound(
    server: Server, pieces: AsyncIterator[bytes], limit: int, log: WireLog
) -> AsyncGenerator[bytes, None]:
    """Yields the pieces of a reply, of at most so many bytes; other tasks run between them."""
    size = 0
    number = 0
    while True:
        try:
            piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except Exception as error:  # SSL raises more than httpx.HTTPError
            raise log.fail(make_connection_error(server, error)) from None
        size += len(piece)
        number += 1
        if size > limit:
            raise log.fail(_too_large(limit))
        log.add(piece)
        yield piece
        if number % BREATH == 0:
            # pieces that have already arrived are read without ever suspending
            await asyncio.sleep(0)
            if size < number * SMALL_PIECE and number > MAX_SMALL_PIECES:
                raise log.fail(ProviderError("server", "the reply arrives in too many tiny pieces"))


def _too_large(limit: int) -> ProviderError:
    return ProviderError("server", f"the reply exceeds {limit >> 20} MiB")
