"""Requests to models' servers and their replies, over httpx's clients of an event loop."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from axe_nb.errors import ConfigError, ProviderError
from axe_nb.messages import Request, WireLog, play
from axe_nb.providers.decompression import CODINGS, DecompressionError, decompress, find_coding
from axe_nb.providers.key_command import fill_in_key, forget_key
from axe_nb.providers.protocol import OnDelta, Server, find_secrets
from axe_nb.providers.reply_errors import read_reply
from axe_nb.providers.streaming import StreamedReply, WireProtocol

if TYPE_CHECKING:
    import httpx

MAX_REPLY = 64 * 1024 * 1024
"""Bytes of a reply; those of a stream are mostly the envelopes of its pieces."""

MOST_IN_FLIGHT = 4096
"""Upper limit of concurrent requests per event loop, regardless of the limit of open files."""

_make_own: Callable[[], httpx.AsyncClient] | None = None
"""Factory of the user's own clients; None = axe_nb's clients are used."""


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


async def ask_server(
    server: Server,
    path: str,
    body: bytes = b"",
    request: Request | None = None,
    protocol: WireProtocol | None = None,
    on_delta: OnDelta | None = None,
) -> dict[str, Any]:
    """Sends a POST, or a GET if there is no body, and returns the JSON object of the reply.

    Cancelling closes the connection. Raises ProviderError, with the text so far, if the server is
    unreachable, refuses, fails or sends an invalid reply, or its stream is cut or reports an error.

    Args:
        request: the request in no provider's format, for errors.
        protocol: how a stream is read; a server may send one that it is not asked for.
        on_delta: takes the pieces of the stream that `body` asks for; the server may answer with a
            whole reply all the same. None = it asks for a whole reply.
    """
    keyed = server
    try:
        if request and request.log and request.log.recorded:
            return await _ask(server, path, body, request, protocol, on_delta)
        lock = (await find_loop()).key_lock
        keyed = await fill_in_key(server, lock)
        try:
            return await _ask(keyed, path, body, request, protocol, on_delta)
        except ProviderError as error:
            if error.status != 401 or not server.info.key_command:
                raise
            refused = keyed
            keyed = await fill_in_key(forget_key(refused), lock)
            if keyed.key == refused.key:
                raise
        return await _ask(keyed, path, body, request, protocol, on_delta)
    except ProviderError as error:
        # its frames and the errors of httpx hold the key, and URLs with passwords
        keyed = refused = server
        error.__cause__ = error.__context__ = None
        raise error.with_traceback(None) from None


async def _ask(
    server: Server,
    path: str,
    body: bytes,
    request: Request | None,
    protocol: WireProtocol | None,
    on_delta: OnDelta | None,
) -> dict[str, Any]:
    """Sends a request with its key, or plays its recorded reply; see `ask_server`."""
    log = (request.log if request else None) or WireLog()
    secrets = find_secrets(server)  # which also keeps them out of logs
    if recorded := log.recorded:
        status, headers = recorded.status, recorded.headers
        async with aclosing(play(recorded, log)) as played:
            if not status:
                await anext(played, b"")  # which raises its failure
            reply = await _read(played, status, protocol, on_delta)
        return read_reply(server.info, status, headers, reply, secrets, request)
    log.begin()
    loop = await find_loop()
    async with loop.slots:
        try:
            response = await loop.send(server, path, body)
        except ConfigError:
            raise
        except Exception as error:  # SSL and mocks raise more than httpx.HTTPError
            raise log.fail(_make_error(server, error)) from None
        try:
            status, headers = response.status_code, dict(response.headers.items())
            log.start(status, headers)
            async with aclosing(_receive(server, response, log)) as pieces:
                reply = await _read(pieces, status, protocol, on_delta)
        finally:
            await response.aclose()
            del response.stream  # which refers to the response: the memory of both is freed now
    return read_reply(server.info, status, headers, reply, secrets, request)


async def _receive(server: Server, response: httpx.Response, log: WireLog) -> AsyncGenerator[bytes]:
    """Yields the pieces of a body, decompressed, and records them.

    Raises ProviderError if the connection breaks, or the reply is damaged or too large.
    """
    coding = find_coding(response.headers.get("content-encoding", ""))
    size = number = 0
    try:
        pieces = decompress(response.aiter_raw()) if coding else response.aiter_raw()
        if response.is_stream_consumed:  # as some mocks make it, decompressed
            pieces = response.aiter_bytes()
        elif coding and coding not in CODINGS:
            if not response.is_success:
                return  # the status alone says what is wrong
            what = f"the reply is compressed ({coding}), which was not requested"
            raise DecompressionError(what)
        async for piece in pieces:
            size += len(piece)
            number += 1
            if number % 50 == 0:  # many may have arrived at once
                await asyncio.sleep(0)
            if size > MAX_REPLY:
                raise ProviderError("server", f"the reply exceeds {MAX_REPLY >> 20} MiB")
            log.add(piece)
            yield piece
    except ProviderError as error:
        raise log.fail(error) from None
    except Exception as error:
        raise log.fail(_make_error(server, error)) from None


def _make_error(server: Server, error: Exception) -> ProviderError:
    from axe_nb.providers.transport import make_connection_error

    return make_connection_error(server, error)


async def _read(
    pieces: AsyncIterator[bytes],
    status: int,
    protocol: WireProtocol | None,
    on_delta: OnDelta | None,
) -> bytes:
    """Returns the body of a reply, or that of the equivalent unstreamed reply."""
    if protocol is None or not 200 <= status < 300:
        return b"".join([piece async for piece in pieces])
    stream = StreamedReply(protocol, on_delta or (lambda delta: None))
    try:
        return await stream.read(pieces)
    except ProviderError as error:
        error.partial_text = stream.partial_text
        raise


class _Loop:
    """The clients of one event loop, closed when it ends."""

    def __init__(self) -> None:
        self.most = MOST_IN_FLIGHT
        with suppress(ImportError):  # Windows has no such limit
            import resource

            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if files != resource.RLIM_INFINITY:  # the others are for kernels and tools
                self.most = max(1, min(files // 2, MOST_IN_FLIGHT))
        self.slots = asyncio.Semaphore(self.most)
        self.key_lock = asyncio.Lock()
        """Held while a command prints a key."""
        self.clients: dict[object, httpx.AsyncClient] = {}
        """Settings that a client depends on → the client."""
        self.addresses: dict[object, tuple[httpx.URL, dict[str, str]]] = {}
        """Base URL and path → the URL, and the header of its login; parsing them takes a tenth of a
        turn's time."""
        self.until_the_end = self._close_at_the_end()

    async def _close_at_the_end(self) -> AsyncGenerator[None]:
        """Waits until the loop closes its generators: no run knows that it is the last one."""
        try:
            yield
        finally:
            _loops.pop(asyncio.get_running_loop(), None)
            for client in self.clients.values():
                await client.aclose()

    async def send(self, server: Server, path: str, body: bytes) -> httpx.Response:
        """Sends a request; returns its reply, to be closed, once the headers have arrived."""
        import httpx

        from axe_nb.providers import transport

        target = server.base_url, server.info.path_of(path)
        if target not in self.addresses:
            base = httpx.URL(server.base_url)
            raw_path = base.raw_path.rstrip(b"/") + target[1].encode()
            login = b64encode(f"{base.username}:{base.password}".encode()).decode()
            self.addresses[target] = (
                transport.QuietURL(base.copy_with(userinfo=b"", raw_path=raw_path)),
                {"authorization": f"Basic {login}"} if base.userinfo else {},
            )
        url, own = self.addresses[target]
        headers = {"accept-encoding": "identity"}
        if body:
            headers["content-type"] = "application/json"
        headers |= server.info.headers_with(server.key) | own
        key = _make_own or (server.base_url, server.info.certificates, transport.read_variables())
        if key not in self.clients:
            if _make_own is None:
                made = transport.make_client(url, server.info.certificates, max(1, self.most // 4))
            else:
                given = "the function given to use_http_client"
                try:
                    made = _make_own()
                except Exception as error:
                    raise ConfigError(f"{given} failed: {error!r}") from error
                if not isinstance(made, httpx.AsyncClient):
                    raise ConfigError(f"{given} made no AsyncClient, but {type(made).__name__}")
            self.clients[key] = made
        limits = httpx.Timeout(
            None, connect=transport.CONNECT_SECONDS, read=server.info.read_timeout
        )
        request = self.clients[key].build_request(
            "POST" if body else "GET", url, headers=headers, content=body or None, timeout=limits
        )
        request.url = url
        return await self.clients[key].send(request, stream=True, follow_redirects=False)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()


async def find_loop() -> _Loop:
    """Returns the clients of the running loop."""
    running = asyncio.get_running_loop()
    if running not in _loops:
        for loop in list(_loops):  # one that was closed without its generators lives by its clients
            if loop.is_closed():
                _loops.pop(loop, None)
        made = _loops[running] = _Loop()
        await anext(made.until_the_end)
    return _loops[running]
