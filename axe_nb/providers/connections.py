"""Connections to models' servers, shared by all runs of an event loop.

Source: D-8, D-23, D-25; goals.md "HTTP clients and SSL contexts".
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from axe_nb.limits import Slots
from axe_nb.providers.connection_errors import (
    CONNECT_SECONDS,
    make_connection_error,
    make_setup_error,
    without_login,
)
from axe_nb.providers.decompression import CODINGS, Decompressed, find_coding
from axe_nb.providers.protocol import Server
from axe_nb.providers.stock_http import StockClients, StockReply, send, uses_httpx

if TYPE_CHECKING:
    import httpx

    from axe_nb.provider_table import ProviderInfo
    from axe_nb.providers.routes import Route
    from axe_nb.providers.transport import Body, Transport

logger = logging.getLogger(__name__)

OF_EVERY_REQUEST = {b"accept": b"*/*", b"accept-encoding": b"identity", b"user-agent": b"axe-nb"}
"""Headers; what is not compressed can neither be held back nor be a bomb."""

MOST_IN_FLIGHT = 4096
"""Upper limit of concurrent requests per event loop, regardless of the limit of open files."""


MAX_HEADS = 100
"""Heads of requests that are kept for the next ones to a base URL."""


class OpenReply:
    """A reply whose headers have arrived and whose body is still to be read; it must be closed."""

    def __init__(self, reply: Body | StockReply, slots: Slots) -> None:
        """Creates a reply; it is then as if it were not compressed.

        An error keeps its status even if its body cannot be read.

        Raises:
            DecompressionError: it is compressed in a way that is not supported.
        """
        self.status = reply.status
        self.headers = join_headers(reply.headers)
        """Name in lower case → value."""
        self.body: AsyncIterator[bytes] = reply
        """The pieces of the body, decompressed, as they arrive."""
        self._reply = reply
        self._slots = slots
        if coding := find_coding(self.headers.get("content-encoding", "")):
            for name in ("content-encoding", "content-length"):
                self.headers.pop(name, None)
            is_readable = coding in CODINGS or self.status < 300
            self.body = Decompressed(reply, coding) if is_readable else _nothing()

    async def close(self) -> None:
        """Ends the exchange; its connection is closed if the body was not read to its end."""
        try:
            await self._reply.aclose()
        finally:
            self._slots.release()


async def _nothing() -> AsyncGenerator[bytes, None]:
    return
    yield b""


async def open_reply(server: Server, method: str, path: str, body: Sequence[bytes]) -> OpenReply:
    """Sends a request and returns the reply once its headers have arrived.

    Cancelling closes the connection.

    Raises:
        ProviderError: the server is unreachable, or the connection breaks before the reply.
        ConfigError: AXE_NB_HTTP in the environment is invalid.
    """
    stock = uses_httpx()
    clients = _of_loop.get(asyncio.get_running_loop()) or await _make_loop_clients()
    client = clients.client(server.base_url)
    path = server.info.path_of(path)
    url = client.url(path)
    if not clients.slots.acquire_now():
        await clients.slots.acquire()
    reply: Body | StockReply | None = None
    try:
        # httpx's client, and its objects for a request and a reply, would be noticed in a turn
        send = _send_over_httpx if stock else _send
        reply = await send(clients, server, method, path, body)
        opened = OpenReply(reply, clients.slots)
    except BaseException as error:
        clients.slots.release()
        if reply is not None:
            await reply.aclose()
        if isinstance(error, Exception):  # httpx and SSL raise more than httpx.HTTPError
            raise make_connection_error(server, error) from None
        raise
    logger.info("%s %s: %d", method, url.copy_with(query=None), reply.status)  # it may have a key
    return opened


async def _send(
    clients: _Clients, server: Server, method: str, path: str, body: Sequence[bytes]
) -> Body:
    """Sends a request over our transport."""
    from axe_nb.providers.routes import find_route

    client = clients.client(server.base_url)
    route = find_route(client.url(path), server.info.certificates)
    head = client.head(server, method, path, route, body)
    place = server.base_url, route
    return await clients.transport.exchange(place, head, body, _limit_silence(server))


async def _send_over_httpx(
    clients: _Clients, server: Server, method: str, path: str, body: Sequence[bytes]
) -> StockReply:
    """Sends a request over httpx's own transport."""
    client = clients.client(server.base_url)
    headers = client.list_headers(server, has_body=bool(body))
    stock = clients.stock.find(server.info.certificates)
    return await send(stock, method, client.url(path), headers, body, _limit_silence(server))


def _limit_silence(server: Server) -> Mapping[str, float | None]:
    """Returns the seconds that the connection and the server may be silent, as httpx names them."""
    return {"connect": CONNECT_SECONDS, "read": server.info.read_timeout}


def join_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Returns the headers of a reply as text, repeated ones joined by commas, as httpx does."""
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.decode("latin-1").lower()
        text = value.decode("utf-8", "replace")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined


@dataclass(frozen=True, kw_only=True)
class _Client:
    """The state shared by all requests to one base URL."""

    base_url: httpx.URL
    """The base URL without the login."""
    login: Mapping[bytes, bytes] = field(repr=False)
    """The header with the login; empty if the URL has none."""
    headers: dict[bytes, bytes]
    """The headers of every request."""
    urls: dict[str, httpx.URL] = field(default_factory=dict)
    """Path → URL; building one takes longer than sending a request."""
    heads: dict[tuple[str, str, str, bool], tuple[ProviderInfo, Route, bytes]] = field(
        default_factory=dict, repr=False
    )
    """(method, path, key, True if there is a body) → where its headers and its way are from, and
    the head of such requests without the size of the body: agents send the same again and again."""

    def url(self, path: str) -> httpx.URL:
        """Returns the URL of a path below the base URL."""
        if path not in self.urls:
            whole = self.base_url.raw_path.rstrip(b"/") + path.encode()
            self.urls[path] = self.base_url.copy_with(raw_path=whole)
        return self.urls[path]

    def head(
        self, server: Server, method: str, path: str, route: Route, body: Sequence[bytes]
    ) -> bytes:
        """Returns a request up to its body."""
        key = method, path, server.key, bool(body)
        known = self.heads.get(key)
        if known is None or known[0] is not server.info or known[1] is not route:
            head = self._write_head(server, method, self.url(path), route, has_body=bool(body))
            if len(self.heads) >= MAX_HEADS:
                self.heads.clear()
            known = self.heads[key] = server.info, route, head
        head = known[2]
        return b"%bcontent-length: %d\r\n\r\n" % (head, sum(map(len, body))) if body else head

    def _write_head(
        self, server: Server, method: str, url: httpx.URL, route: Route, *, has_body: bool
    ) -> bytes:
        """Writes the head of a request; that of one with a body lacks its size, and its end."""
        from axe_nb.providers.transport import write_head

        headers = self.list_headers(server, has_body=has_body)
        head = write_head(method, url, headers.items(), route)
        return head.removesuffix(b"\r\n") if has_body else head

    def list_headers(self, server: Server, *, has_body: bool) -> Mapping[bytes, bytes]:
        """Returns the headers of a request, but for the size of its body."""
        headers = dict(self.headers)
        if has_body:
            headers[b"content-type"] = b"application/json"
        for name, value in server.info.headers_with(server.key).items():
            headers[name.encode("ascii")] = value.encode("ascii")
        return {**headers, **self.login}


@dataclass
class _Clients:
    """The clients of one event loop, and their connections, closed when the loop ends."""

    transport: Transport
    stock: StockClients = field(default_factory=StockClients)
    """httpx's own, which are used only if the environment asks for them."""
    by_url: dict[str, _Client] = field(default_factory=dict, repr=False)
    """Base URL, which may hold a password, → its client."""
    slots: Slots = field(default_factory=lambda: Slots(most_in_flight()))
    """One slot per request in flight; further requests wait."""
    until_the_end: AsyncGenerator[None, None] | None = None
    """A generator that closes the clients when the loop closes it: no run knows that it is the
    last of its loop."""

    def client(self, base_url: str) -> _Client:
        """Returns the loop's client for a base URL, created on first use (D-25)."""
        if base_url not in self.by_url:
            self.by_url[base_url] = _make_client(base_url)
        return self.by_url[base_url]


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()


def most_in_flight() -> int:
    """Returns the limit of concurrent requests: half of the files that the process may open.

    It is also the limit of open connections; the other half is for kernels and tools (D-51).
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_IN_FLIGHT
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_IN_FLIGHT
    return max(1, min(files // 2, MOST_IN_FLIGHT))


async def _make_loop_clients() -> _Clients:
    """Returns new clients, those of the running loop from now on."""
    from axe_nb.providers.transport import Transport

    _forget_closed_loops()
    clients = _Clients(Transport(max_open=most_in_flight()))
    _of_loop[asyncio.get_running_loop()] = clients
    clients.until_the_end = _close_with_loop(clients)
    await anext(clients.until_the_end)
    return clients


async def _close_with_loop(clients: _Clients) -> AsyncGenerator[None, None]:
    """Closes the clients at the end of the loop, when `asyncio.run` closes its generators."""
    try:
        yield
    finally:
        _of_loop.pop(asyncio.get_running_loop(), None)
        await clients.transport.aclose()
        await clients.stock.aclose()


def _forget_closed_loops() -> None:
    """Drops clients whose loop was closed without its generators; they keep it alive."""
    for reference in _of_loop.keyrefs():
        loop = reference()
        if loop is not None and loop.is_closed():
            _of_loop.pop(loop, None)


def _make_client(base_url: str) -> _Client:
    import httpx

    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, ValueError) as error:
        raise make_setup_error(base_url, error) from None
    login = f"{url.username}:{url.password}".encode()
    return _Client(
        base_url=url.copy_with(userinfo=b""),
        headers={b"host": url.netloc, **OF_EVERY_REQUEST},
        login={b"authorization": b"Basic " + b64encode(login)} if url.userinfo else {},
    )


def show_server(server: Server) -> str:
    """Returns the `repr` of a server: its base URL, without a login."""
    return f"{type(server).__name__}(base_url={without_login(server.base_url)!r})"
