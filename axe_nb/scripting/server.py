"""Serves scripts over a real socket, in the protocol of a real provider.

Tests and lessons use such a server to try connections, HTTP statuses and timeouts. HTTP is parsed
by h11, which httpx depends on. Source: B-3, B-4, B-5, D-8.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, TypeAlias

import h11

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.errors import Category, ConfigError, ProviderError
from axe_nb.messages import Delta, Response, ToolCall, dump
from axe_nb.scripting.provider import Played, answer
from axe_nb.scripting.rules import Fault, Scripts, estimate_usage
from axe_nb.scripting.wire import WIRES, Malformed, Protocol, Wire, read_request
from axe_nb.text import quote

STATUS: Mapping[Category, int] = {
    "auth": 401,
    "bad_request": 400,
    "refusal": 400,
    "rate_limit": 429,
    "overloaded": 529,
    "server": 500,
}
"""Category of a ProviderError without a status → HTTP status to send; `timeout` has none."""

CHUNK = 65536


@contextmanager
def script_server(protocol: Protocol, port: int = 0) -> Iterator[ScriptServer]:
    """Serves all scripts over loopback in the protocol of a real server.

    In the `with` block, the model `PROTOCOL/NAME` is the script NAME: environment variables hold
    the server's URL, and a key if none was set. For `responses`, OpenAI's Responses API, the script
    is also the model `openai/NAME`.

    Args:
        protocol: `anthropic`, `openai` (Chat Completions), `responses` or `ollama`.
        port: the port to serve at; 0 for any free one.

    Raises:
        ConfigError: if the protocol is unknown.
    """
    if protocol not in WIRES:
        problem = f"no script server for protocol {quote(protocol)}"
        raise ConfigError(problem, hint=f"use one of {', '.join(WIRES)}")
    server = ScriptServer(protocol, port)
    info = PROTOCOLS[protocol]
    is_own = info.name == protocol
    variables = {
        info.url_variable: server.base_url + ("" if is_own else WIRES[protocol].path),
        info.key_variable: os.environ.get(info.key_variable) or "none",
    }
    thread = threading.Thread(target=server.run, name="axe-nb-script-server", daemon=True)
    thread.start()
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield server
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        server.stop()
        thread.join(5.0)  # a script that blocks it is abandoned


_Reply: TypeAlias = tuple[h11.Response, bytes | AsyncGenerator[bytes, None]]
"""HTTP response: its head, and its body as bytes or as a generator that may raise `_Refused`."""


class _Refused(Exception):
    """Raised to close the connection without a complete response."""


@dataclass
class ScriptServer:
    """A running server and the requests it received, created by `script_server`."""

    protocol: Protocol
    port: int = 0
    base_url: str = field(default="", init=False)
    """Root URL of the server, without a path."""
    requests: list[Mapping[str, Any]] = field(default_factory=list, init=False)
    """Decoded bodies of all requests to models, in order of arrival."""
    open_requests: int = field(default=0, init=False)
    """Number of requests that are waiting for their response."""
    aborted: int = field(default=0, init=False)
    """Number of requests whose client disconnected before the response was complete."""

    def __post_init__(self) -> None:
        self._wire = WIRES[self.protocol]
        self._socket = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    def run(self) -> None:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._serve(reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        async def serve() -> None:
            server = await asyncio.start_server(begin, sock=self._socket, backlog=1024)
            await self._stop.wait()
            server.close()

        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(serve())

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER)

        def send(*events: h11.Response | h11.Data | h11.EndOfMessage) -> None:
            writer.write(b"".join(http.send(event) or b"" for event in events))

        try:
            while asked := await _read(http, reader):
                answering = asyncio.create_task(self._answer(asked, send))
                more = asyncio.create_task(reader.read(CHUNK))
                await asyncio.wait([answering, more], return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() and (more.exception() or not more.result()):
                    self.aborted += 1
                    answering.cancel()
                    return
                await answering
                more.cancel()
                await asyncio.wait([more])
                if not more.cancelled():
                    http.receive_data(more.result())
                if http.our_state is not h11.DONE:
                    return
                http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            head, body = self.make_error(error.error_status_hint, str(error))
            send(head, h11.Data(data=body), h11.EndOfMessage())
        except (_Refused, OSError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()

    async def _answer(self, asked: tuple[str, str, bytes], send: Callable[..., None]) -> None:
        self.open_requests += 1
        try:
            head, body = await self.reply_to(*asked)
            if not isinstance(body, bytes):
                send(head)
                async with aclosing(body) as chunks:
                    async for chunk in chunks:
                        send(h11.Data(data=chunk))
        finally:
            self.open_requests -= 1  # before the client gets the complete response
        if isinstance(body, bytes):
            send(head, h11.Data(data=body))
        send(h11.EndOfMessage())

    async def reply_to(self, method: str, path: str, content: bytes) -> _Reply:
        """Returns the response to a request. Raises _Refused to close the connection instead."""
        if (method, path) != ("POST", self._wire.path):
            return self.make_error(404, f"a script server serves only POST {self._wire.path}")
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return self.make_error(400, "the body is not valid JSON")
        if not isinstance(body, dict):
            return self.make_error(400, "the body must be a JSON object")
        self.requests.append(body)
        retry_after = None
        try:
            request = read_request(body, splits_texts=self.protocol == "anthropic")
            if request.model.endswith(".toml"):
                return self.make_error(404, "a script server serves scripts by name, not by path")
            pieces, _ = await answer(request, Scripts())
            last = await anext(pieces)
            if body.get("stream", self._wire.streams) and not isinstance(last, Fault):
                options = body.get("stream_options")
                wire = self._wire(
                    request,
                    input_tokens=estimate_usage(request, "", ())["input_tokens"],
                    wants_usage=isinstance(options, dict) and bool(options.get("include_usage")),
                )
                head = _make_head(200, wire.kind, [("transfer-encoding", "chunked")])
                return head, _encode(wire, last, pieces)
            async for last in pieces:  # noqa: B007 - the last one counts
                pass
            if isinstance(last, Response):
                return _make_whole(200, dump(self._wire(request).whole(last)))
        except Malformed as error:
            return self.make_error(400, str(error))
        except ProviderError as error:
            last, retry_after = _make_fault(error), error.retry_after
        assert isinstance(last, Fault)
        if last.status:
            return self.make_error(last.status, last.message, retry_after)
        if last.message == "timeout":
            await asyncio.Event().wait()
        raise _Refused

    def make_error(
        self, status: int, message: str, retry_after: float | None = None
    ) -> tuple[h11.Response, bytes]:
        """Creates an error response in the protocol; the body is empty if the message is empty."""
        body = dump(self._wire.error(status, message)) if message else b""
        more = [] if retry_after is None else [("retry-after", f"{retry_after:g}")]
        return _make_whole(status, body, more)


def _make_fault(error: ProviderError) -> Fault:
    if error.category == "timeout":
        return Fault("timeout")
    return Fault(error.detail, error.status or STATUS[error.category])


async def _encode(
    wire: Wire, first: Played, pieces: AsyncGenerator[Played, None]
) -> AsyncGenerator[bytes, None]:
    for event in wire.begin():
        yield wire.encode(event)
    last: Played = first
    try:
        async with aclosing(pieces):
            while not isinstance(last, Response | Fault):
                if isinstance(last, ToolCall):
                    wire.calls.append(last)
                for event in wire.add(last) if isinstance(last, Delta) else ():
                    yield wire.encode(event)
                last = await anext(pieces)
    except ProviderError as error:
        last = _make_fault(error)
    match last:
        case Response():
            for event in wire.end(last):
                yield wire.encode(event)
            if wire.mark:
                yield wire.mark
        case Fault(message, status) if status:
            yield wire.encode(wire.fail(status, message or "the script failed"))
        case Fault("timeout"):
            await asyncio.Event().wait()
        case Fault("refused"):
            raise _Refused


async def _read(
    http: h11.Connection, reader: asyncio.StreamReader
) -> tuple[str, str, bytes] | None:
    method = path = ""
    body = bytearray()
    while True:
        match http.next_event():
            case h11.NEED_DATA if data := await reader.read(CHUNK):
                http.receive_data(data)
            case h11.Request() as head:
                method, path = head.method.decode(), head.target.decode().partition("?")[0]
            case h11.Data() as part:
                body += part.data
            case h11.EndOfMessage():
                return method, path, bytes(body)
            case _:
                return None


def _make_whole(
    status: int, body: bytes, more: Sequence[tuple[str, str]] = ()
) -> tuple[h11.Response, bytes]:
    length = ("content-length", str(len(body)))
    return _make_head(status, "application/json", [length, *more]), body


def _make_head(status: int, kind: str, more: Sequence[tuple[str, str]]) -> h11.Response:
    reason = responses.get(status, "").encode()
    headers = [("content-type", kind), *more]
    return h11.Response(status_code=status, headers=headers, reason=reason)
