"""An httpx transport for model servers: connections, proxies, certificates, and their errors.

httpx's own pool scans all its connections for each request (1000 concurrent requests take 9 s), and
does not report whether a connection was closed before the reply began. Here each httpx transport
has one connection, and a list keeps the idle ones. This module is imported on first use.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from typing import Any
from urllib.request import getproxies, proxy_bypass

import h11
import httpx

from axe_nb.errors import ProviderError
from axe_nb.providers.protocol import Server, without_login
from axe_nb.providers.reply_errors import masked_line
from axe_nb.secrets import redact
from axe_nb.text import format_seconds

CONNECT_SECONDS = 10.0

NO_TLS = "the server responded, but not over TLS"

TLS_FAULTS = {
    "CERTIFICATE_REQUIRED": "it requires a client certificate",
    "HANDSHAKE_FAILURE": "it refused the TLS handshake: it may require a client certificate, or "
    "ciphers that are not offered",
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": NO_TLS,
    "UNKNOWN_PROTOCOL": NO_TLS,
}
"""Part of OpenSSL's error reason → description of a fault that a retry does not fix."""

IDLE_SECONDS = 60.0
"""Seconds after which an idle connection is no longer used."""


class QuietURL(httpx.URL):
    """A URL that masks keys in its query when printed, because httpx logs each request's URL."""

    def __str__(self) -> str:
        return redact(super().__str__())


class SetupError(httpx.TransportError):
    """Raised if the environment or settings specify an unusable proxy or certificate."""


class _Connection:
    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.until = 0.0
        """Monotonic time in seconds at which the idle connection expires."""
        self.has_received = False
        """True once a byte of the reply to the latest request has arrived."""
        self.stream: Any = None
        """httpcore's byte stream; None before the first reply."""
        self._socket: Any = None
        """The socket under the TLS layer; None before the socket is connected."""

    def watch(self, stream: Any) -> None:
        """Wraps `stream.read` to set `has_received` once a byte arrives."""
        if stream is self.stream:
            return
        self.stream, read = stream, stream.read

        async def read_and_note(max_bytes: int, timeout: float | None = None) -> bytes:
            data: bytes = await read(max_bytes, timeout)
            self.has_received = self.has_received or bool(data)
            return data

        stream.read = read_and_note

    def has_leftover(self) -> bool:
        """True if bytes may follow the reply; httpcore would take them for the next reply."""
        for connection in self.transport._pool.connections:
            while hasattr(connection, "_connection"):  # unwraps a proxy's connection
                connection = connection._connection
            state = getattr(connection, "_h11_state", None)
            return state is None or bool(state.trailing_data[0])
        return True

    async def note_socket(self, name: str, info: Mapping[str, Any]) -> None:
        """Stores the socket that httpcore opens. Callback for httpcore's `trace` extension."""
        if name == "connection.connect_tcp.complete":
            self._socket = info["return_value"]

    async def aclose(self) -> None:
        """Closes the connection, even if httpcore left it open after a cancelled handshake."""
        await self.transport.aclose()
        if self._socket is not None:
            await self._socket.aclose()


class FreeList(httpx.AsyncBaseTransport):
    """The connections to one server; up to `most` idle connections are kept for later requests."""

    def __init__(self, make: Callable[[], httpx.AsyncHTTPTransport], most: int) -> None:
        self._make, self._most = make, most
        self.idle: deque[_Connection] = deque()
        """Idle connections, the most recently used last."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request and returns its reply once the headers have arrived.

        The request is sent once more if a reused connection is closed before any byte of the reply
        arrives, because the server must have closed the connection while it was idle (D-23).
        """
        now = time.monotonic()
        while self.idle and self.idle[0].until < now:
            await self.idle.popleft().aclose()
        while self.idle:
            used = self.idle.pop()
            if used.stream.get_extra_info("is_readable"):  # closed, or with unexpected data
                await used.aclose()
                continue
            try:
                return await self._send(used, request)
            except (httpx.NetworkError, httpx.RemoteProtocolError):
                if used.has_received:
                    raise
            break
        connection = _Connection(self._make())
        request.extensions |= {"trace": connection.note_socket}
        return await self._send(connection, request)

    async def _send(self, connection: _Connection, request: httpx.Request) -> httpx.Response:
        connection.has_received = False
        try:
            response = await connection.transport.handle_async_request(request)
        except BaseException:
            await connection.aclose()
            raise
        if "network_stream" not in response.extensions:  # the response of a mock
            await connection.aclose()
            return response
        connection.watch(response.extensions["network_stream"])
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream, self, connection)
        return response

    async def release(self, connection: _Connection, *, is_whole: bool) -> None:
        """Keeps a connection for later requests, or closes it.

        A connection is kept if its whole reply was read, no bytes follow, and the list has room.
        """
        if is_whole and len(self.idle) < self._most and not connection.has_leftover():
            connection.until = time.monotonic() + IDLE_SECONDS
            self.idle.append(connection)
        else:
            await connection.transport.aclose()

    async def aclose(self) -> None:
        while self.idle:
            await self.idle.pop().transport.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of a reply; releases its connection when closed."""

    def __init__(
        self, stream: httpx.AsyncByteStream, owner: FreeList, connection: _Connection
    ) -> None:
        self._stream, self._owner, self._connection = stream, owner, connection
        self._is_whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece
        self._is_whole = True

    async def aclose(self) -> None:
        is_whole = False  # also if this is cancelled: httpcore would count the request as open
        try:
            await self._stream.aclose()
            is_whole = self._is_whole
        finally:
            await self._owner.release(self._connection, is_whole=is_whole)


def read_variables() -> tuple[str | None, ...]:
    """Returns the current values of the environment variables that a client depends on."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    # under CGI (REQUEST_METHOD), HTTP_PROXY is a request header
    names = (*proxies, *map(str.lower, proxies), "REQUEST_METHOD", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return tuple(map(os.environ.get, names))


def make_client(url: httpx.URL, certificates: tuple[str, str], most: int) -> httpx.AsyncClient:
    """Makes an HTTP client for one server, using the proxy that is set in the environment now.

    `most` is the maximum number of idle connections. Raises SetupError if the proxy or the
    certificates (`ca_file`, `client_cert`) cannot be used.
    """
    proxy = find_proxy(url)
    if proxy is not None and proxy.url.scheme == "https":
        proxy.ssl_context = _make_context()
    if url.scheme == "https":
        context = _make_context(*certificates)
    else:  # unused, but without a context httpx would load certificates
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def make() -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
        return httpx.AsyncHTTPTransport(context, limits=limits, proxy=proxy)

    return httpx.AsyncClient(
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # stores none
        headers={"user-agent": "axe-nb"},
        transport=FreeList(make, most),
    )


def find_proxy(url: httpx.URL) -> httpx.Proxy | None:
    """Returns the proxy for a URL, or None if none applies. Raises SetupError if it is unusable."""
    proxies = getproxies()
    given = proxies.get(url.scheme) or proxies.get("all")
    host, port = url.raw_host.decode(), url.port or {"http": 80, "https": 443}[url.scheme]
    names = (host, f"[{host}]") if ":" in host else (host, f"{host}:{port}")
    if not given or any(proxy_bypass(name) for name in names):
        return None
    address = given if "://" in given else f"http://{given}"
    # a password with an unescaped `/` would end there, and its start be taken for host and port
    if "@" in "".join(re.split(r"[/?#]", address.partition("://")[2])[1:]):
        raise SetupError("the login in the proxy URL of the environment is not percent-encoded")
    try:
        proxy = httpx.Proxy(address)
        if not proxy.url.host:
            raise ValueError
    except (httpx.InvalidURL, ValueError):
        told = "the proxy in the environment is not a valid http, https or socks5 URL"
        raise SetupError(told) from None
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise SetupError("a SOCKS proxy needs one more package: pip install 'httpx[socks]'")
    return proxy


def _make_context(ca_file: str = "", client_cert: str = "") -> ssl.SSLContext:
    try:
        if ca_file:
            context = ssl.create_default_context(cafile=ca_file)
        else:
            context = httpx.create_ssl_context()
    except (ImportError, OSError, ValueError) as error:
        of = f" of ca_file {ca_file}" if ca_file else ""
        raise SetupError(f"cannot read the certificates to trust{of}: {error}") from error
    try:
        if client_cert:
            context.load_cert_chain(client_cert, password="")  # OpenSSL never prompts for one
    except (OSError, ValueError) as error:
        raise SetupError(f"cannot read client_cert {client_cert}: {error}") from error
    return context


def make_connection_error(server: Server, error: Exception) -> ProviderError:
    """Makes the error for a missing or incomplete reply, with a hint."""
    where, table = without_login(server.base_url), f"[providers.{server.info.name}] in config.toml"
    if isinstance(error, (SetupError, httpx.InvalidURL)):
        told = f"cannot set up a connection to {where}: {masked_line(str(error))}"
        hint = "check base_url, and HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE in the environment"
        return ProviderError("server", told, hint=hint, retryable=False)
    with suppress(httpx.InvalidURL, httpx.TransportError, KeyError, ValueError):
        if proxy := find_proxy(httpx.URL(server.base_url)):
            where += f" through the proxy {proxy.url.scheme}://{proxy.url.netloc.decode()}"
    if isinstance(error, httpx.ReadTimeout):
        silence = format_seconds(server.info.read_timeout or 0)
        message = f"no data from {where} within {silence}s"
        return ProviderError("timeout", message, hint=f"raise read_timeout under {table}")
    causes = list(_list_causes(error))
    # httpx-aiohttp raises a timeout for every failure to connect; a real timeout also has other
    # errors in its context, such as OpenSSL's for missing data
    fault = next((cause for cause in causes if isinstance(cause, OSError)), TimeoutError())
    if isinstance(error, httpx.TimeoutException) and isinstance(fault, TimeoutError):
        message = f"no connection to {where} within {format_seconds(CONNECT_SECONDS)}s"
        return ProviderError("timeout", message, hint=f"check {server.info.url_setting}")
    message, hint = _describe(server, error, causes, where)
    final = (ssl.SSLCertVerificationError, UnicodeError, httpx.LocalProtocolError, AssertionError)
    is_final = any(
        isinstance(cause, final)  # AssertionError: a mock without an answer
        or (isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN)
        or (isinstance(cause, ssl.SSLError) and _find_tls_fault(cause))
        or (400 <= _find_status(cause) < 500 and _find_status(cause) not in (408, 429))
        for cause in causes
    )
    return ProviderError("server", message, hint=hint, retryable=False if is_final else None)


def _describe(
    server: Server, error: Exception, causes: list[BaseException], where: str
) -> tuple[str, str]:
    def is_due_to(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    base_url, check = without_login(server.base_url), f"check {server.info.url_setting}"
    table = f"under [providers.{server.info.name}] in config.toml"
    said = next(filter(None, map(str, causes)), "")
    reason = masked_line(said) or type(error).__name__
    if "disconnected without sending" in said:
        reason = "the server closed the connection without a reply"
    elif "without sending complete message body" in said:
        reason = "the server closed the connection in the middle of the body"
    elif is_due_to(h11.RemoteProtocolError):
        reason = "the reply is not valid HTTP"
    is_unreachable = isinstance(error, httpx.ConnectError) and not is_due_to(ssl.SSLError)
    if isinstance(error, httpx.ProxyError) or (is_unreachable and where != base_url):
        told = f"it returned {reason}" if _find_status(error) else reason
        variables = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in the environment"
        return f"no connection to {where}: {told}", f"check {variables}"
    if any(getattr(cause, "errno", 0) in (errno.EMFILE, errno.ENFILE) for cause in causes):
        limits = "lower max_in_flight under [limits] of the agent"
        return f"too many open files: no connection to {where}", f"raise `ulimit -n`, or {limits}"
    if is_due_to(ConnectionRefusedError):
        question = f"is {server.info.software} running? (expected at {base_url})"
        return f"connection refused: {question}", f"start it, or {check}"
    if is_due_to(socket.gaierror, UnicodeError):
        return f"no such host: {base_url}", f"{check}, and your network connection"
    if is_due_to(ssl.SSLCertVerificationError):
        faults = (getattr(cause, "verify_message", "") for cause in causes)
        reason = masked_line(next(filter(None, faults), "")) or reason
        trust = f"set SSL_CERT_FILE in the environment, or ca_file {table}, to the certificates"
        message = f"no secure connection to {where}: its certificate is not trusted ({reason})"
        return message, f"{check}, or {trust} to trust"
    fault = next(filter(None, map(_find_tls_fault, causes)), "")
    if fault == NO_TLS:
        check += ": it may need http://"
    elif "client certificate" in fault and not server.info.certificates[1]:
        check = f"set client_cert {table}, or {check}"
    if fault or is_due_to(ssl.SSLError):
        return f"no secure connection to {where}: {fault or reason}", check
    again = "try again, or allow more retries with --retries (retries=)"
    return f"the connection to {where} failed: {reason}", again


def _find_status(error: BaseException) -> int:
    """Returns the HTTP status with which a proxy refused a tunnel; 0 for other errors."""
    status = str(error)[:3]
    return int(status) if isinstance(error, httpx.ProxyError) and status.isdecimal() else 0


def _find_tls_fault(cause: BaseException) -> str:
    reason = str(getattr(cause, "reason", "") or cause)
    return next((fault for part, fault in TLS_FAULTS.items() if part in reason), "")


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and its causes, each only once, because respx creates cyclic causes."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting.append(one.__cause__ or one.__context__)
        if isinstance(one, BaseExceptionGroup):  # an exception for each address of a host
            waiting += reversed(one.exceptions)
