"""Messages to and from a server that runs elsewhere, over HTTP.

The address comes from the user's settings or from an agent that the user trusts. A redirect to
another host is refused.
Source: product.md "Models can do more than text" (MCP); D-46, D-50.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from axe_nb.agents.servers import McpServer

MAX_REPLY = 16 * 1024 * 1024
"""Bytes of one reply; of a stream of events, of one event."""

CONNECT, READ = 30.0, 300.0
"""Seconds to connect, and between two parts of a reply."""


@asynccontextmanager
async def open_address(server: McpServer, own: Mapping[str, str]) -> AsyncIterator[Any]:
    """Connects to a server; yields the streams of its messages.

    Args:
        server: its table.
        own: headers of each request.
    """
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: Any = None,
        auth: Any = None,
    ) -> Any:
        return _make_client({**own, **(headers or {})}, timeout, auth)

    if server.transport == "sse":
        async with sse_client(
            server.url, timeout=CONNECT, sse_read_timeout=READ, httpx_client_factory=make_client
        ) as streams:
            yield streams
        return
    async with (
        make_client() as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_REPLY
        ) as streams,
    ):
        yield streams


def format_address(url: str) -> str:
    """Returns an address for display, without a password or key in it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _make_client(headers: Mapping[str, str], timeout: Any, auth: Any) -> Any:
    import httpx2

    return httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        timeout=timeout or httpx2.Timeout(CONNECT, read=READ),
        auth=auth,
        event_hooks={"response": [_bound]},
    )


async def _bound(response: Any) -> None:
    """Bounds the body of a reply; the package itself bounds the events of a stream."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        await response.aclose()
        raise httpx2.DecodingError("the server sent a compressed reply, which was not requested")
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return
    body = response.stream

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in body:
                size += len(chunk)
                if size > MAX_REPLY:
                    raise httpx2.ReadError(f"the reply is larger than {MAX_REPLY >> 20} MB")
                yield chunk

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = Bounded()
