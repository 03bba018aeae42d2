"""Serves scripts over a real socket, in the protocol of a real provider.

For tests and lessons about what lies between axe_nb and a model: connections, statuses, timeouts.
Source: B-3, B-4, B-5, D-8.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.errors import Category, ConfigError, ProviderError
from axe_nb.messages import Delta, Request, dump
from axe_nb.scripting.connection import (
    BrokenOff,
    ClientGone,
    HttpConnection,
    HttpReply,
    HttpRequest,
    Unreadable,
)
from axe_nb.scripting.lookup import Scripts, known
from axe_nb.scripting.provider import Playback, answer
from axe_nb.scripting.rules import Fault
from axe_nb.scripting.wire import WIRES, Protocol, Wire
from axe_nb.scripting.wire_requests import Json, Malformed
from axe_nb.text import quote

STATUS: Mapping[Category, int] = {
    "auth": 401,
    "bad_request": 400,
    "refusal": 400,
    "rate_limit": 429,
    "overloaded": 529,
    "server": 500,
}
"""Status of a function's ProviderError without one of its own; `timeout` sends no reply."""

CLOSING = 5.0
"""Seconds to wait for the server's thread at the end; a script that blocks it is abandoned."""


@contextmanager
def script_server(protocol: Protocol) -> Iterator[ScriptServer]:
    """Serves all scripts over loopback in the protocol of a real server.

    While it is open, the model `PROTOCOL/NAME` is the script NAME: environment variables name the
    server's URL, and a key if none was set. `responses` is OpenAI's Responses API: there, too, the
    model is `openai/NAME`.

    Args:
        protocol: `anthropic`, `openai` (Chat Completions), `responses` or `ollama`.

    Raises:
        ConfigError: there is no such protocol.
    """
    if protocol not in WIRES:
        raise ConfigError(
            f"no script server for protocol {quote(protocol)}",
            hint=f"use one of {', '.join(WIRES)}",
        )
    server = ScriptServer(protocol)
    info = PROTOCOLS[protocol]
    is_own = info.name == protocol
    variables = {
        info.url_variable: server.base_url + ("" if is_own else WIRES[protocol].path),
        info.key_variable: os.environ.get(info.key_variable) or "none",
    }
    thread = threading.Thread(target=server.run, name="axe-nb-script-server", daemon=True)
    thread.start()
    try:
        with _set_environment(variables):
            yield server
    finally:
        server.stop()
        thread.join(CLOSING)


@contextmanager
def _set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass
class ScriptServer:
    """A running server and the requests it received; made by `script_server`."""

    protocol: Protocol
    base_url: str = field(default="", init=False)
    """Root of the server, without a path."""
    requests: list[Mapping[str, Any]] = field(default_factory=list, init=False)
    """The body of every model request, decoded, in order of arrival."""
    open_requests: int = field(default=0, init=False)
    """Requests that are waiting for their reply."""
    aborted: int = field(default=0, init=False)
    """Requests whose client disconnected before the reply."""

    def __post_init__(self) -> None:
        self._wire = WIRES[self.protocol]
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._connections: set[asyncio.Task[Any]] = set()

    def run(self) -> None:
        """Serves until `stop` is called; in a thread of its own."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """Ends `run` and every open connection; does nothing if it has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._socket, backlog=1024)
        await self._stop.wait()
        server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)  # what has been drained has left
        connection = asyncio.create_task(self._serve_connection(HttpConnection(reader, writer)))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        connection.add_done_callback(lambda _: writer.transport.abort())

    async def _serve_connection(self, connection: HttpConnection) -> None:
        with contextlib.suppress(OSError, ClientGone):  # there is nobody left to tell
            await self._answer_requests(connection)

    async def _answer_requests(self, connection: HttpConnection) -> None:
        """Answers one request after another, until either side closes the connection.

        Raises ClientGone if the client disconnected, and the last write was the first to notice.
        """
        goes_on = True
        while goes_on:
            try:
                request = await connection.next_request()
            except Unreadable as error:
                await connection.send(self._make_error(error.status, str(error)))
                return
            if request is None:
                return
            self.open_requests += 1
            try:
                reply = await connection.unless_gone(self._make_reply(request))
                if reply and not isinstance(reply.body, bytes):
                    goes_on, reply = await connection.unless_gone(connection.send(reply)), None
                elif reply is None:
                    goes_on = False
            except ClientGone:
                self.aborted += 1
                return
            finally:
                self.open_requests -= 1  # before the client has a whole reply
            if reply:
                goes_on = await connection.send(reply)

    async def _make_reply(self, request: HttpRequest) -> HttpReply | None:
        """Makes the reply; None closes the connection without one."""
        wire = self._wire
        methods = {wire.path: "POST", wire.listing: "GET"}
        method = methods.get(request.path)
        if method is None:
            known_paths = " and ".join(f"{m} {path}" for path, m in methods.items())
            return self._make_error(404, f"a script server serves only {known_paths}")
        if request.method != method:
            return self._make_error(405, f"method not allowed; use {method}")
        if method == "GET":
            return HttpReply(200, dump(wire.models(known())))
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError):
            return self._make_error(400, "the body is not valid JSON")
        if not isinstance(body, dict):
            return self._make_error(400, "the body must be a JSON object")
        self.requests.append(body)
        try:
            return await self._run_script(wire.read(body), body)
        except Malformed as error:
            return self._make_error(400, str(error))

    async def _run_script(self, request: Request, body: Json) -> HttpReply | None:
        """Plays the reply; if it fails before its first piece, that is an HTTP error."""
        if request.model.endswith(".toml"):
            return self._make_error(404, "a script server serves scripts by name, not by path")
        try:
            reply = await answer(request, Scripts())
            playback = Playback(request, reply)
            deltas = playback.deltas()
            first = await anext(deltas, None)
            if not body.get("stream", self._wire.streams):
                async for _ in deltas:
                    pass
            elif first is not None or playback.fault is None:
                options = body.get("stream_options")
                wire = self._wire(
                    request,
                    playback.calls,
                    input_tokens=playback.input_tokens,
                    wants_usage=isinstance(options, dict) and bool(options.get("include_usage")),
                )
                return HttpReply(200, _encode(wire, playback, first, deltas), wire.kind)
        except ProviderError as error:
            fault = _make_fault(error)
            failed = await self._simulate_fault(fault)
            return failed and replace(failed, retry_after=error.retry_after)
        if playback.fault:
            return await self._simulate_fault(playback.fault)
        whole = self._wire(request).whole(playback.response, playback.reasoning)
        return HttpReply(200, dump(whole))

    async def _simulate_fault(self, fault: Fault) -> HttpReply | None:
        if fault.status:
            return self._make_error(fault.status, fault.message)
        if fault.message == "timeout":
            await asyncio.Event().wait()
        return None

    def _make_error(self, status: int, message: str) -> HttpReply:
        """Makes an error reply of the protocol; without a body if the message is empty."""
        return HttpReply(status, dump(self._wire.error(status, message)) if message else b"")


def _make_fault(error: ProviderError) -> Fault:
    if error.category == "timeout":
        return Fault("timeout")
    return Fault(error.detail, error.status or STATUS[error.category])


async def _encode(
    wire: Wire, playback: Playback, first: Delta | None, deltas: AsyncGenerator[Delta, None]
) -> AsyncGenerator[bytes, None]:
    """Yields the chunks of a streamed reply, up to its end or its failure.

    Raises BrokenOff if the connection is to be closed in the middle of a chunk.

    Args:
        first: the delta that has been played already.
        deltas: the other ones.
    """
    try:
        for chunk in (*wire.begin(), *(wire.add(first) if first else ())):
            yield chunk
        async with contextlib.aclosing(deltas):
            async for delta in deltas:
                for chunk in wire.add(delta):
                    yield chunk
    except ProviderError as error:
        fault: Fault | None = _make_fault(error)
    else:
        fault = playback.fault
    match fault:
        case None:
            for chunk in wire.end(playback.response):
                yield chunk
        case Fault(message, status) if status:
            yield wire.fail(status, message or "the script failed")
        case Fault("timeout"):
            await asyncio.Event().wait()
        case Fault("refused"):
            raise BrokenOff
