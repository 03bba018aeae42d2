"""Connections to models' servers over httpx, shared by all runs of an event loop.

Source: D-8, D-23, D-25, D-74.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from axe_nb.errors import ConfigError
from axe_nb.providers.connection_errors import CONNECT_SECONDS, without_login
from axe_nb.providers.decompression import CODINGS, DecompressionError, decompress, find_coding
from axe_nb.providers.protocol import Server

if TYPE_CHECKING:
    import httpx

    from axe_nb.providers.transport import FreeList

MOST_IN_FLIGHT = 4096
"""Upper limit of concurrent requests per event loop, regardless of the limit of open files."""

_make_own: Callable[[], httpx.AsyncClient] | None = None
"""Makes the user's own clients; None = ours are used."""


def use_http_client(make: Callable[[], httpx.AsyncClient] | None) -> None:
    """Sends all requests to models over clients of your own from now on.

    They keep their proxies, certificates, headers and hooks; axe_nb sets the timeouts, and follows
    no redirects. `ca_file` and `client_cert` of config.toml, and the proxy variables, are for
    axe_nb's own clients only.

    Args:
        make: returns a new `httpx.AsyncClient`; called once for each event loop, at whose end the
            client is closed. None = axe_nb's own clients again.
    """
    global _make_own
    if make is not None and not callable(make):
        raise TypeError("use_http_client takes a function that makes clients, not a client")
    _make_own = make


class _Address(NamedTuple):
    """A URL to ask, without the login of the base URL."""

    url: httpx.URL
    login: dict[str, str]
    """The header with the login, if there is one."""


def _find_address(base_url: str, path: str) -> _Address:
    from axe_nb.providers.transport import QuietURL

    url = QuietURL(base_url)
    login = b64encode(f"{url.username}:{url.password}".encode()).decode()
    target = url.raw_path.rstrip(b"/") + path.encode()
    return _Address(
        QuietURL(url.copy_with(userinfo=b"", raw_path=target)),
        {"authorization": f"Basic {login}"} if url.userinfo else {},
    )


@dataclass
class _Loop:
    """The clients of one event loop, closed when it ends."""

    most: int
    slots: asyncio.Semaphore
    """One slot per request in flight; further requests wait."""
    clients: dict[object, httpx.AsyncClient] = field(default_factory=dict, repr=False)
    """All that a client depends on → the client."""
    lists: list[FreeList] = field(default_factory=list)
    addresses: dict[tuple[str, str], _Address] = field(default_factory=dict, repr=False)
    """(base URL, path) → what is asked; to parse a URL takes a tenth of the time of a request."""
    until_the_end: AsyncGenerator[None, None] | None = None
    """A generator that closes the clients when the loop closes it: no run knows that it is the
    last of its loop."""

    async def send(self, server: Server, path: str, body: bytes) -> httpx.Response:
        """Sends a request and returns the reply once its headers have arrived; it must be closed.

        Raises:
            httpx.HTTPError: there is no reply.
            Exception: whatever SSL or a mock raises.
        """
        import httpx

        place = server.base_url, server.info.path_of(path)
        address = self.addresses.get(place)
        if address is None:
            address = self.addresses[place] = _find_address(*place)
        headers = {"accept-encoding": "identity"}
        if body:
            headers["content-type"] = "application/json"
        headers |= server.info.headers_with(server.key)
        client = self._find_client(server, address.url)
        request = client.build_request(
            "POST" if body else "GET",
            address.url,
            headers=headers | address.login,
            content=body or None,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, read=server.info.read_timeout),
        )
        request.url = address.url
        return await client.send(request, stream=True, follow_redirects=False)

    def _find_client(self, server: Server, url: httpx.URL) -> httpx.AsyncClient:
        from axe_nb.providers.transport import make_client, read_variables

        certificates = server.info.certificates
        key = _make_own or (server.base_url, certificates, read_variables())
        if key not in self.clients:
            own = _make_users_client() if _make_own else None
            self.clients[key] = own or make_client(url, certificates, self.lists, self.most)
        return self.clients[key]


def _make_users_client() -> httpx.AsyncClient:
    import httpx

    assert _make_own is not None
    try:
        client = _make_own()
    except Exception as error:
        raise ConfigError(f"the function given to use_http_client failed: {error!r}") from error
    if not isinstance(client, httpx.AsyncClient):
        kind = type(client).__name__
        raise ConfigError(f"the function given to use_http_client made no AsyncClient, but {kind}")
    return client


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()


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


async def find_loop() -> _Loop:
    """Returns the clients of the running loop."""
    running = asyncio.get_running_loop()
    if running not in _loops:
        for loop in list(_loops):  # one that was closed without its generators lives by its clients
            if loop.is_closed():
                _loops.pop(loop, None)
        most = most_in_flight()
        made = _loops[running] = _Loop(most, asyncio.Semaphore(most))
        made.until_the_end = _close_with_loop(made)
        await anext(made.until_the_end)
    return _loops[running]


async def _close_with_loop(loop: _Loop) -> AsyncGenerator[None, None]:
    """Closes the clients at the end of the loop, when `asyncio.run` closes its generators."""
    try:
        yield
    finally:
        _loops.pop(asyncio.get_running_loop(), None)
        for client in loop.clients.values():
            await client.aclose()


def list_headers(response: httpx.Response) -> dict[str, str]:
    """Returns the headers of a reply as if it were not compressed, their names in lower case."""
    headers = dict(response.headers.items())
    if find_coding(headers.get("content-encoding", "")):
        for name in ("content-encoding", "content-length"):
            headers.pop(name, None)
    return headers


async def read_body(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yields the pieces of a body as they arrive, decompressed.

    An error keeps its status even if its body cannot be read. Raises DecompressionError if it is
    damaged, or compressed in a way that is not supported.
    """
    coding = find_coding(response.headers.get("content-encoding", ""))
    if response.is_stream_consumed:  # as some mocks make it, decompressed
        yield response.content
    elif not coding or coding in CODINGS:
        pieces = response.aiter_raw()
        async for piece in decompress(pieces) if coding else pieces:
            yield piece
    elif response.is_success:
        raise DecompressionError(f"the reply is compressed ({coding}), which was not requested")


def show_server(server: Server) -> str:
    """Returns the `repr` of a server: its base URL, without a login."""
    return f"{type(server).__name__}(base_url={without_login(server.base_url)!r})"
