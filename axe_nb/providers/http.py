"""Requests to models' servers over connections that all runs of an event loop share.

Source: B-4, B-5, D-8, D-25, D-30; goals.md "HTTP clients and SSL contexts".
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from axe_nb.errors import ProviderError
from axe_nb.providers.base import Server
from axe_nb.providers.reply import Headers, masked_line, read_reply, refuses_tools, without_tools
from axe_nb.text import format_seconds

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
"""What a connection may take to come about; how long an answer may take is the run's affair."""

IDLE_CONNECTIONS = 20
"""Kept open per base URL. httpx looks at all of them on every request: with no bound on them,
1000 requests at once take four times as long."""

IDLE_SECONDS = 60.0

MOST_IN_FLIGHT = 4096
"""Requests of one event loop in flight, however many files the process may open."""

MAX_REPLY = 32 * 1024 * 1024
"""Bytes of a reply's body."""


async def post(server: Server, path: str, body: bytes, *, tools_of: str = "") -> dict[str, Any]:
    """The JSON object that the server answers a POST with; cancelling closes the connection.

    Args:
        tools_of: the model that tools are offered to, for the error where it has no use for them
            (D-30); empty = none are offered.

    Raises:
        ProviderError: the server is not there, refuses, fails or sends something else.
    """
    return await _asked(server, "POST", path, body, tools_of)


async def get(server: Server, path: str) -> dict[str, Any]:
    """The JSON object that the server answers a GET with; cancelling closes the connection.

    Raises:
        ProviderError: the server is not there, refuses, fails or sends something else.
    """
    return await _asked(server, "GET", path, b"", "")


async def _asked(
    server: Server, method: str, path: str, body: bytes, tools_of: str
) -> dict[str, Any]:
    try:
        return await _answer(server, method, path, body, tools_of)
    except ProviderError as error:
        raise error.with_traceback(None) from None  # its frames hold the key


async def _answer(
    server: Server, method: str, path: str, body: bytes, tools_of: str
) -> dict[str, Any]:
    try:
        status, headers, reply = await _exchange(server, method, path, body)
    except ProviderError:
        raise
    except Exception as error:  # httpx and what lies below it raise more than httpx.HTTPError
        raise _no_reply(server, error) from None
    try:
        return read_reply(server.info, status, headers, reply, server.key)
    except ProviderError as error:
        if tools_of and refuses_tools(error):
            raise without_tools(error, tools_of) from None
        raise


async def _exchange(
    server: Server, method: str, path: str, body: bytes
) -> tuple[int, Headers, bytes]:
    """(status, headers, body) of the reply."""
    import httpx

    clients = await _clients()
    client = clients.client(server.base_url)
    headers = {"content-type": "application/json"} if body else {}
    headers |= server.info.headers_with(server.key)
    timeout = httpx.Timeout(None, connect=CONNECT_SECONDS, read=server.info.read_timeout)
    parts: list[bytes] = []
    size = 0
    async with (
        clients.slots,
        client.stream(
            method, path, headers=headers, content=body or None, timeout=timeout
        ) as response,
    ):
        async for part in response.aiter_bytes():
            size += len(part)
            if size > MAX_REPLY:
                raise ProviderError("server", f"the reply is larger than {MAX_REPLY >> 20} MiB")
            parts.append(part)
    return response.status_code, response.headers, b"".join(parts)


@dataclass
class _Clients:
    """The clients of one event loop; they are closed when the loop ends."""

    by_url: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(most_in_flight()))
    """One for each request in flight; the others wait their turn."""
    until_the_end: AsyncGenerator[None, None] | None = None
    """Closes them; the loop closes it. Nobody else would: a run does not know that it is the
    loop's last."""

    def client(self, base_url: str) -> httpx.AsyncClient:
        """The loop's client for a base URL, made on first use (D-25)."""
        if base_url not in self.by_url:
            self.by_url[base_url] = _new_client(base_url)
        return self.by_url[base_url]


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()


def most_in_flight() -> int:
    """Requests that may be in flight at once: half of the files that the process may open.

    The other half is for kernels, tools and idle connections (D-51).
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_IN_FLIGHT
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_IN_FLIGHT
    return max(1, min(files // 2, MOST_IN_FLIGHT))


async def _clients() -> _Clients:
    """The running loop's clients."""
    loop = asyncio.get_running_loop()
    clients = _of_loop.get(loop)
    if clients is None:
        _forget_closed_loops()
        clients = _of_loop[loop] = _Clients()
        clients.until_the_end = _until_the_end(clients)
        await anext(clients.until_the_end)
    return clients


async def _until_the_end(clients: _Clients) -> AsyncGenerator[None, None]:
    """Waits, once begun, for the end of the loop: `asyncio.run` closes the generators it saw."""
    try:
        yield
    finally:
        _of_loop.pop(asyncio.get_running_loop(), None)
        for client in clients.by_url.values():
            await client.aclose()


def _forget_closed_loops() -> None:
    """Lets go of clients whose loop was closed without its generators; they hold on to it."""
    for reference in _of_loop.keyrefs():
        loop = reference()
        if loop is not None and loop.is_closed():
            _of_loop.pop(loop, None)


def _new_client(base_url: str) -> httpx.AsyncClient:
    import httpx

    try:
        url = httpx.URL(base_url)
        # an SSL context costs 20 ms: none for plain http, and one for all proxies there may be
        verify: Any = httpx.create_ssl_context() if url.scheme == "https" else None
        return httpx.AsyncClient(
            base_url=url.copy_with(userinfo=b""),  # httpx writes URLs to the log
            auth=(url.username, url.password) if url.userinfo else None,
            verify=verify,
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_SECONDS,
            ),
            headers={"user-agent": "axe-nb"},
        )
    except (httpx.InvalidURL, ImportError, OSError, ValueError) as error:
        raise ProviderError(
            "server",
            f"no connection to {without_login(base_url)} can be set up: {masked_line(str(error))}",
            hint="check base_url, and HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE in the environment",
        ) from None


def _no_reply(server: Server, error: Exception) -> ProviderError:
    """Why no whole reply came, and what to look at."""
    import httpx

    where = without_login(server.base_url)
    causes = list(_causes(error))
    table = f"[providers.{server.info.name}] in config.toml"
    at_base_url = f"check base_url under {table}"

    def is_due_to(kind: type[BaseException]) -> bool:
        return any(isinstance(cause, kind) for cause in causes)

    if isinstance(error, httpx.ReadTimeout):
        message = f"no word from {where} within {format_seconds(server.info.read_timeout or 0)}s"
        return ProviderError("timeout", message, hint=f"raise read_timeout under {table}")
    if isinstance(error, httpx.TimeoutException):
        message = f"no connection to {where} within {format_seconds(CONNECT_SECONDS)}s"
        return ProviderError("timeout", message, hint=at_base_url)
    if is_due_to(ConnectionRefusedError):
        message = f"connection refused: is {server.info.software} running? (expected at {where})"
        return ProviderError("server", message, hint=f"start it, or {at_base_url}")
    if is_due_to(socket.gaierror):
        message = f"no such host: {where}"
        return ProviderError("server", message, hint=f"{at_base_url}, and the network")
    reason = masked_line(str(error), server.key) or type(error).__name__
    if is_due_to(ssl.SSLError):
        return ProviderError("server", f"no secure connection to {where}: {reason}")
    return ProviderError(
        "server",
        f"the connection to {where} broke: {reason}",
        hint="try again, or set max_retries under [retry] of the agent",
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it came from, and the parts of groups among them."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _causes(part)
        error = error.__cause__ or error.__context__


def without_login(base_url: str) -> str:
    """The base URL without name and password."""
    scheme, _, rest = base_url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
