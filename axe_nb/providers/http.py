"""HTTP requests to model servers. Each event loop has its own httpx clients."""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.messages import Message, Request, Response, SentLog, dump
from axe_nb.messages.answer_tool import FORCED, OUTPUT, leave_out, take_answer
from axe_nb.providers.key_command import fill_in_key, forget_key
from axe_nb.providers.protocol import OnDelta, Server, find_secrets
from axe_nb.providers.reply_errors import read_reply
from axe_nb.providers.streaming import Assembly, StreamedReply
from axe_nb.providers.thinking import asks_for_summary
from axe_nb.providers.wire import WHOLE
from axe_nb.secrets import MASK
from axe_nb.text import one_line

if TYPE_CHECKING:
    import httpx

INCLUDE, SUMMARY = "include", "reasoning.summary"
"""Entries in `Request.refused` for encrypted reasoning and for a summary of the reasoning."""

SERVER, PREFIX = "server", "prefix"
"""Keys in `Message.echo` for the digests of the server and of everything before the reply."""

_FIELDS = {
    "stream_options": r"stream_options|include_usage",
    "stream": r"(?<![\w/-])(non-?|text/event-)?stream(ing|ed|s)?(?![\w/]|[.-]\w)",
    OUTPUT: r"response[ _]?format|text\.format|json[ _-]?schema|output_config|output_format"
    r"|structured[ _-]outputs?|response[ _]?(schema|mime[ _]?type)"
    r"|guided[ _](json|decoding|grammar)|grammar\b|field format of type|invalid format\b|json mode",
    FORCED: r"tool[ _]choice",
    INCLUDE: r"encrypted content is not supported|reasoning\.encrypted_content"
    r"|param\w*\W+include\b",
    SUMMARY: r"reasoning[. ]summar(y|ies)\b",
}
"""Part of a request → pattern for the error messages that reject the part.

The pattern for `stream` does not match inside a model's name."""

_MASKED = re.compile(rf'"([^"]*(encrypted|signature)[^"]*|data)":"[^"]*{re.escape(MASK)}'.encode())
"""Matches encrypted or signed data in which a recording has masked a part."""

MAX_REPLY = 64 * 1024 * 1024
"""Maximum size of a reply in bytes; large, because a stream is mostly JSON around short texts."""

CODINGS = ("", "identity", "gzip", "deflate")
"""Supported values of `Content-Encoding`; with nested ones, a few bytes could become gigabytes."""

MOST_IN_FLIGHT = 4096
"""Maximum number of concurrent requests per event loop; the open-file limit may lower it."""

_make_own: Callable[[], httpx.AsyncClient] | None = None
"""The user's factory for HTTP clients, or None if axe_nb makes its own clients."""


def use_http_client(make: Callable[[], httpx.AsyncClient] | None) -> None:
    """Uses your own HTTP clients for all later requests to models.

    The clients keep their proxies, certificates, headers and hooks; axe_nb sets the timeouts and
    follows no redirects. The proxy variables of the environment, and `ca_file` and `client_cert` in
    config.toml, apply only to axe_nb's own clients.

    Args:
        make: a function that returns a new `httpx.AsyncClient`, called once per event loop. When
            the loop ends, the client is closed. None restores axe_nb's own clients.
    """
    global _make_own
    if make is not None and not callable(make):
        raise TypeError("use_http_client takes a function that makes clients, not a client")
    _make_own = make


@dataclass(frozen=True, repr=False)
class HttpProvider(Server):
    """Base class of providers that speak to their model server over HTTP."""

    name: ClassVar[str]
    stream_fields: ClassVar[Sequence[Mapping[str, Any]]] = ({"stream": True},)
    """Sets of request fields that turn on streaming, tried in this order if fields are refused."""
    assembly: ClassVar[type[Assembly]]

    @staticmethod
    def body(request: Request, stream: Mapping[str, Any] = WHOLE) -> bytes:
        """Encodes a request as JSON, including the `stream` fields."""
        raise NotImplementedError

    @staticmethod
    def parse(data: Mapping[str, Any]) -> Response:
        """Parses a whole reply. Raises ProviderError if it is invalid or only a refusal."""
        raise NotImplementedError

    @staticmethod
    def takes_form(schema: Mapping[str, Any]) -> bool:
        """True if the API accepts this schema as the format of an answer."""
        return True

    @staticmethod
    def find_prefix(request: Request) -> str:
        """Returns a digest of what precedes the reply; empty if the protocol needs none (D-78)."""
        return ""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Sends a request and returns the whole response; `on_delta` receives streamed pieces.

        If the server refuses a field, the request is sent again without that field; an answer
        schema is replaced by the answer tool. All attempts count as one request towards `[limits]`.
        """
        log = request.log or SentLog()
        # no variable holds the URL: a traceback with variables would show its password
        digest = hashlib.sha256(dump([self.info.name, self.base_url, request.model]))
        request = replace(request, server=digest.hexdigest()[:16])
        if any(message.echo for message in request.messages):
            log.server = request.server
        protocol, refused = PROTOCOLS[self.name], set(request.refused)
        path = protocol.api_path + protocol.chat_path
        if request.output is not None and not self.takes_form(request.output):
            refused.add(OUTPUT)
        while True:
            forms = self.stream_fields if on_delta else ()
            fields = next((form for form in forms if not refused & form.keys()), WHOLE)
            asked = leave_out(request, refused)
            log.streaming, log.refused = dict(fields), asked.refused
            # a server may stream a reply even if no stream was requested
            stream = StreamedReply(self.assembly(on_delta if fields else None))
            try:
                body = self.body(asked, fields)
                data = await ask_server(self, path, body, asked, stream)
                break
            except ProviderError as error:
                if not (found := _find_refused(error, asked, fields)):
                    raise
                refused.add(found)
        response = take_answer(request, self.parse(data))
        if not response.echo:
            return response
        log.server = asked.server
        marks = {SERVER: asked.server, PREFIX: self.find_prefix(asked)}
        echo = {**response.echo, **{key: mark for key, mark in marks.items() if mark}}
        return replace(response, echo=echo)


async def ask_server(
    server: Server,
    path: str,
    body: bytes = b"",
    request: Request | None = None,
    stream: StreamedReply | None = None,
) -> dict[str, Any]:
    """Sends a POST request (GET if there is no body) and returns the reply's JSON object.

    `request` is what `body` encodes; with it, an error can say which part was refused. `stream`, if
    given, reads a successful reply, even if the server does not stream. If the server rejects a key
    from a key command, the request is sent again with a new key. Cancelling closes the connection.
    Raises ProviderError, with the text so far, if the server is unreachable or fails, refuses the
    request, or sends an invalid reply or a stream that is cut off or reports an error.
    """
    keyed = server
    try:
        lock = (await find_loop()).key_lock
        keyed = await fill_in_key(server, lock)
        try:
            return await _ask(keyed, path, body, request, stream)
        except ProviderError as error:
            if error.status != 401:
                raise
            refused = keyed
            keyed = await fill_in_key(forget_key(refused), lock)
            if keyed.key == refused.key:
                raise
        return await _ask(keyed, path, body, request, stream)
    except ProviderError as error:
        # tracebacks and httpx's errors hold the key, and URLs with passwords
        keyed = refused = server
        error.__cause__ = error.__context__ = None
        raise error.with_traceback(None) from None


async def _ask(
    server: Server, path: str, body: bytes, request: Request | None, stream: StreamedReply | None
) -> dict[str, Any]:
    secrets = find_secrets(server)  # also registers them for masking in logs
    loop = await find_loop()
    async with loop.slots:
        try:
            response = await loop.send(server, path, body)
        except ConfigError:
            raise
        except Exception as error:  # SSL and mocks raise more than httpx.HTTPError
            raise _make_error(server, error) from None
        try:
            status, headers = response.status_code, dict(response.headers.items())
            async with aclosing(_receive(server, response)) as pieces:
                if stream and 200 <= status < 300:
                    reply = await stream.read(pieces)
                else:
                    reply = b"".join([piece async for piece in pieces])
        finally:
            await response.aclose()
            del response.stream  # breaks a reference cycle, so that both are freed now
    return read_reply(server.info, status, headers, reply, secrets, request)


async def _receive(server: Server, response: httpx.Response) -> AsyncGenerator[bytes]:
    """Yields a response's decompressed body. Raises ProviderError if it is invalid or too large."""
    import httpx

    size = number = 0
    coding = response.headers.get("content-encoding", "").lower()
    try:
        if coding not in CODINGS:
            raise httpx.DecodingError(f"unsupported compression {one_line(coding, 40)}")
        async for unpacked in response.aiter_bytes():
            size += len(unpacked)
            if size > MAX_REPLY:
                raise ProviderError("server", f"the reply exceeds {MAX_REPLY >> 20} MiB")
            for start in range(0, len(unpacked), 1 << 16):  # it may be a thousand times as large
                number += 1
                if start or number % 50 == 0:  # other tasks run: many pieces may arrive at once
                    await asyncio.sleep(0)
                yield unpacked[start : start + (1 << 16)]
    except Exception as error:
        if isinstance(error, httpx.DecodingError) and not response.is_success:
            return  # the status alone says what is wrong
        raise _make_error(server, error) from None


def _make_error(server: Server, error: Exception) -> ProviderError:
    from axe_nb.providers.transport import make_connection_error

    return error if isinstance(error, ProviderError) else make_connection_error(server, error)


def _find_refused(error: ProviderError, asked: Request, fields: Mapping[str, Any]) -> str:
    unstreamed = r"\bverified to stream|\bstream\w*( is| are)? not (yet )?(implemented|supported)"
    words_of = {"stream": unstreamed}
    if error.status in (400, 404, 405, 406, 415, 422, 501):
        words_of = _FIELDS
    elif error.status == 500:  # some servers crash on a schema instead of refusing it
        words_of[OUTPUT] = _FIELDS[OUTPUT]
    sent = {
        **dict.fromkeys(fields, True),
        OUTPUT: asked.output is not None,
        FORCED: bool(asked.must_call),
        INCLUDE: INCLUDE not in asked.refused,
        SUMMARY: SUMMARY not in asked.refused and asks_for_summary(asked.params),
    }
    for field, words in words_of.items():
        if sent.get(field) and re.search(words, error.detail, re.IGNORECASE):
            return field
    return ""


def encode_messages(
    request: Request,
    encode: Callable[[Message], list[dict[str, Any]]],
    before: Iterable[object] | None = None,
) -> tuple[list[dict[str, Any]], str]:
    """Encodes a request's messages; returns them with the digest of `before` and the messages.

    `before` is what precedes the messages, such as the system prompt; if None, the digest is empty.
    A message's `echo` is encoded only for the server that sent it, and only if no recording has
    masked a part of it; if `before` is given and the `echo` has a digest of everything before the
    message, that digest must still be right (D-78). Encoded messages are cached for the next
    request, so callers must not change them.
    """
    objects: list[dict[str, Any]] = []
    digest = None if before is None else hashlib.sha256(b"\n".join(map(dump, before)))
    known = request.encoded.setdefault(encode, {})
    for number, message in enumerate(request.messages):
        held, encoded = known.get(number, (None, []))
        if held is not message or message.echo:
            echo = message.echo
            is_own = not request.server or echo.get(SERVER, request.server) == request.server
            if digest and is_own and PREFIX in echo:
                is_own = echo[PREFIX] == digest.hexdigest()[:16]
            is_own = not echo or (is_own and not _MASKED.search(dump(echo)))
            encoded = encode(message if is_own else replace(message, echo={}))
            known[number] = message, encoded
        objects += encoded
        if digest:
            digest.update(b",".join(map(dump, encoded)) + b"\n")
    return objects, digest.hexdigest()[:16] if digest else ""


class _Loop:
    """The HTTP clients of one event loop, closed when the loop ends."""

    def __init__(self) -> None:
        self.most = MOST_IN_FLIGHT
        with suppress(ImportError):  # Windows has no such limit
            import resource

            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if files != resource.RLIM_INFINITY:  # the other half is for kernels and tools
                self.most = max(1, min(files // 2, MOST_IN_FLIGHT))
        self.slots = asyncio.Semaphore(self.most)
        self.key_lock = asyncio.Lock()
        """Lock held while a key command runs."""
        self.clients: dict[object, httpx.AsyncClient] = {}
        """Connection settings → client with these settings."""
        self.until_the_end = self._close_at_the_end()

    async def _close_at_the_end(self) -> AsyncGenerator[None]:
        """Closes the clients when the event loop ends, as no run knows whether it is the last."""
        try:
            yield
        finally:
            _loops.pop(asyncio.get_running_loop(), None)
            for client in self.clients.values():
                await client.aclose()

    async def send(self, server: Server, path: str, body: bytes) -> httpx.Response:
        """Sends a request and returns the response; the caller must read its body and close it."""
        import httpx

        from axe_nb.providers import transport

        base = httpx.URL(server.base_url)
        raw_path = base.raw_path.rstrip(b"/") + server.info.path_of(path).encode()
        make_url = transport.QuietURL if base.query or server.info.query else httpx.URL
        url = make_url(base.copy_with(userinfo=b"", raw_path=raw_path))
        headers = {"accept-encoding": "identity"}
        if body:
            headers["content-type"] = "application/json"
        headers |= server.info.headers_with(server.key)
        if base.userinfo:
            login = b64encode(f"{base.username}:{base.password}".encode()).decode()
            headers["authorization"] = f"Basic {login}"
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
                    raise ConfigError(f"{given} returned {type(made).__name__}, not an AsyncClient")
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
    running = asyncio.get_running_loop()
    if running not in _loops:
        for loop in list(_loops):  # the clients keep a closed loop alive
            if loop.is_closed():
                _loops.pop(loop, None)
        made = _loops[running] = _Loop()
        await anext(made.until_the_end)
    return _loops[running]
