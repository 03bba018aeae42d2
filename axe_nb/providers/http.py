"""Requests to models' servers, and their replies.

Source: B-4, B-5, D-8, D-30.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from axe_nb.errors import ConfigError, ProviderError
from axe_nb.messages import Delta, Request, WireLog, WireReply, play
from axe_nb.providers.connection_errors import make_connection_error, name_proxy
from axe_nb.providers.connections import find_loop, list_headers, read_body
from axe_nb.providers.key_command import fill_in_key, forget_key
from axe_nb.providers.protocol import OnDelta, Server
from axe_nb.providers.reply_errors import Headers, read_reply
from axe_nb.providers.secrets import Secrets
from axe_nb.providers.streamed_reply import StreamedReply, Streaming, is_stream

MAX_REPLY = 32 * 1024 * 1024
"""Bytes of a reply's body."""

MAX_STREAM = 4 * MAX_REPLY
"""Maximum bytes of a streamed reply, most of which are the envelopes of its pieces."""

BREATH = 50
"""Pieces of a reply between two that let other tasks run."""

EXPIRED = 401
"""Status of a server that does not accept the key, or not any more."""

Received = tuple[int, Headers, bytes]
"""(status, headers, body) of a reply."""


async def ask_server(
    server: Server,
    path: str,
    body: bytes = b"",
    request: Request | None = None,
    streaming: Streaming | None = None,
    on_delta: OnDelta | None = None,
) -> dict[str, Any]:
    """Sends a POST, or a GET if there is no body, and returns the JSON object of the reply.

    Cancelling closes the connection. Raises ProviderError if the server is unreachable, refuses,
    fails or sends an invalid reply, or its stream is cut or reports an error. It has the text so
    far.

    Args:
        request: the same in no provider's format, for the error if its model does not support tools
            (D-30).
        streaming: how the protocol streams; a server may do so although it is not asked to. None =
            it does not.
        on_delta: takes the pieces of the stream that `body` asks for; the server may answer with a
            whole reply all the same. None = it asks for a whole reply.
    """
    try:
        return await _ask_and_read(server, path, body, request, streaming, on_delta)
    except ProviderError as error:
        # its frames and the errors of httpx hold the key, and URLs with passwords
        error.__cause__ = error.__context__ = None
        raise error.with_traceback(None) from None


async def _ask_and_read(
    server: Server,
    path: str,
    body: bytes,
    request: Request | None,
    streaming: Streaming | None,
    on_delta: OnDelta | None,
) -> dict[str, Any]:
    log = (request.log if request else None) or WireLog()
    if log.recorded:
        received = await _play(server, log.recorded, log, streaming, on_delta)
    else:
        server = await fill_in_key(server)
        received = await _receive(server, path, body, log, streaming, on_delta)
        if received[0] == EXPIRED and server.info.key_command:
            server = await fill_in_key(forget_key(server))
            received = await _receive(server, path, body, log, streaming, on_delta)
    status, headers, reply = received
    try:
        return read_reply(server.info, status, headers, reply, Secrets.of(server), request)
    except ProviderError as error:
        raise name_proxy(error, server, headers) from None


async def _play(
    server: Server,
    recorded: WireReply,
    log: WireLog,
    streaming: Streaming | None,
    on_delta: OnDelta | None,
) -> Received:
    async with aclosing(play(recorded, log)) as played:
        if not recorded.status:
            await anext(played, b"")
        reply = await _read(server, played, recorded.status, streaming, on_delta)
    return recorded.status, recorded.headers, reply


async def _receive(
    server: Server,
    path: str,
    body: bytes,
    log: WireLog,
    streaming: Streaming | None,
    on_delta: OnDelta | None,
) -> Received:
    log.begin()
    loop = await find_loop()
    async with loop.slots:
        try:
            response = await loop.send(server, path, body)
        except ConfigError:
            raise
        except Exception as error:  # SSL and mocks raise more than httpx.HTTPError
            raise log.fail(make_connection_error(server, error)) from None
        try:
            status, headers = response.status_code, list_headers(response)
            log.start(status, headers)
            limit = MAX_STREAM if on_delta else MAX_REPLY
            pieces = _bound(server, read_body(response), limit, log)
            return status, headers, await _read(server, pieces, status, streaming, on_delta)
        finally:
            await response.aclose()


async def _bound(
    server: Server, pieces: AsyncIterator[bytes], limit: int, log: WireLog
) -> AsyncGenerator[bytes, None]:
    """Yields the pieces of a reply, and notes them.

    Raises ProviderError if the connection breaks, or the reply is too large.
    """
    size = number = 0
    try:
        async for piece in pieces:
            size += len(piece)
            number += 1
            if number % BREATH == 0:  # many may have arrived at once
                await asyncio.sleep(0)
            if size > limit:
                raise _too_large(limit)
            log.add(piece)
            yield piece
    except ProviderError as error:
        raise log.fail(error) from None
    except Exception as error:
        raise log.fail(make_connection_error(server, error)) from None


async def _read(
    server: Server,
    pieces: AsyncIterator[bytes],
    status: int,
    streaming: Streaming | None,
    on_delta: OnDelta | None,
) -> bytes:
    """Returns the body of a reply, or the body that a whole reply would have."""
    if streaming is None or not 200 <= status < 300:
        return _check_size(b"".join([piece async for piece in pieces]))
    if on_delta is None:
        reply = b"".join([piece async for piece in pieces])
        if not is_stream(reply):
            return _check_size(reply)
        pieces = _once(reply)
    stream = StreamedReply(streaming, on_delta or _ignore, Secrets.of(server))
    try:
        return _check_size(await stream.read(pieces))
    except ProviderError as error:
        error.partial_text = stream.partial_text
        raise


def _ignore(_: Delta) -> None:
    """Ignores the pieces of a stream that no view shows."""


def _check_size(reply: bytes) -> bytes:
    if len(reply) > MAX_REPLY:
        raise _too_large(MAX_REPLY)
    return reply


async def _once(reply: bytes) -> AsyncGenerator[bytes, None]:
    yield reply


def _too_large(limit: int) -> ProviderError:
    return ProviderError("server", f"the reply exceeds {limit >> 20} MiB")
