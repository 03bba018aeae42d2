"""Requests to models' servers, and their replies.

Source: B-4, B-5, D-8, D-30.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote, urlsplit

from axe_nb.errors import ProviderError
from axe_nb.messages import Request
from axe_nb.providers.connections import make_connection_error, open_reply
from axe_nb.providers.protocol import Server
from axe_nb.providers.reply_errors import (
    SHORTEST_KEY,
    Headers,
    read_reply,
    refuses_tools,
    without_tools,
)

MAX_REPLY = 32 * 1024 * 1024
"""Bytes of a reply's body."""


BREATH = 50
"""Pieces of a reply between two that let other tasks run; each takes some 50 µs."""

SMALL_PIECE = 16
"""Bytes; a model's token is larger, with what a stream has around it."""

MAX_SMALL_PIECES = 100_000
"""Pieces of a reply that may be smaller on average: 5 s of the processor."""


async def post(server: Server, path: str, body: bytes, request: Request) -> dict[str, Any]:
    """Sends a POST and returns the JSON object of the reply; cancelling closes the connection.

    Args:
        server: the server.
        path: below its base URL.
        body: the request as the server takes it.
        request: the same in no provider's format, for the error if its model does not support
            tools (D-30).

    Raises:
        ProviderError: the server is unreachable, refuses, fails or sends an invalid reply.
    """
    return await _send(server, "POST", path, body, request.model if request.tools else "")


async def get(server: Server, path: str) -> dict[str, Any]:
    """Sends a GET and returns the JSON object of the reply; cancelling closes the connection.

    Raises:
        ProviderError: the server is unreachable, refuses, fails or sends an invalid reply.
    """
    return await _send(server, "GET", path, b"", "")


async def _send(
    server: Server, method: str, path: str, body: bytes, tools_of: str
) -> dict[str, Any]:
    try:
        return await _send_and_read(server, method, path, body, tools_of)
    except ProviderError as error:
        # its frames and the errors of httpx hold the key, and URLs with passwords
        error.__cause__ = error.__context__ = None
        raise error.with_traceback(None) from None


async def _send_and_read(
    server: Server, method: str, path: str, body: bytes, tools_of: str
) -> dict[str, Any]:
    try:
        status, headers, reply = await _exchange(server, method, path, body)
    except ProviderError:
        raise
    except Exception as error:  # httpx and its backends raise more than httpx.HTTPError
        raise make_connection_error(server, error) from None
    try:
        reply = _without_password(server.base_url, reply)
        return read_reply(server.info, status, headers, reply, server.key)
    except ProviderError as error:
        if tools_of and refuses_tools(error):
            raise without_tools(error, tools_of) from None
        raise


async def _exchange(
    server: Server, method: str, path: str, body: bytes
) -> tuple[int, Headers, bytes]:
    """Sends one request; returns (status, headers, body) of the reply."""
    parts: list[bytes] = []
    size = 0
    async with open_reply(server, method, path, body) as response:
        async for part in response.aiter_bytes():
            size += len(part)
            if size > MAX_REPLY:
                raise ProviderError("server", f"the reply exceeds {MAX_REPLY >> 20} MiB")
            parts.append(part)
            if len(parts) % BREATH == 0:
                # pieces that have already arrived are read without ever suspending
                await asyncio.sleep(0)
                if size < len(parts) * SMALL_PIECE and len(parts) > MAX_SMALL_PIECES:
                    raise ProviderError("server", "the reply arrives in too many tiny pieces")
    return response.status_code, response.headers, b"".join(parts)


def _without_password(base_url: str, reply: bytes) -> bytes:
    """Returns a reply without the password of the base URL, which the server may repeat."""
    password = unquote(urlsplit(base_url).password or "").encode()
    return reply.replace(password, b"***") if len(password) >= SHORTEST_KEY else reply
