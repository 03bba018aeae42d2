"""Serves scripts over a real socket, in the protocol of a real provider.

For tests and lessons about what lies between axe_nb and a model: connections, statuses, timeouts.
Source: product.md "Providers"; B-3, B-4, B-5, D-8.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from axe_nb.errors import ConfigError, ProviderError
from axe_nb.messages import Request, dump
from axe_nb.provider_table import PROTOCOLS
from axe_nb.scripting.connection import (
    ClientGone,
    HttpConnection,
    HttpReply,
    HttpRequest,
    HttpStream,
    Unreadable,
)
from axe_nb.scripting.lookup import Scripts, known
from axe_nb.scripting.playback import Playback, play_whole
from axe_nb.scripting.provider import NONSENSE, answer
from axe_nb.scripting.rules import Fault, Reply
from axe_nb.scripting.stream import encode, make_fault
from axe_nb.scripting.wire import WIRES, Protocol
from axe_nb.scripting.wire_requests import Json, Malformed
from axe_nb.scripting.wire_responses import ResponsesStream
from axe_nb.scripting.wire_streams import (
    AnthropicStream,
    OllamaStream,
    OpenAIStream,
    StreamedReply,
    WireStream,
)
from axe_nb.text import quote

STREAMS: Mapping[Protocol, Callable[[StreamedReply], WireStream]] = {
    "anthropic": AnthropicStream,
    "openai": OpenAIStream,
    "responses": ResponsesStream,
    "ollama": OllamaStream,
}
"""Protocol → its streams."""

CLOSING = 5.0
"""Seconds to wait for the server's thread at the end; a script that blocks it is abandoned."""


@contextmanager
def script_server(
    protocol: Protocol, *, dirs: tuple[Path, ...] | None = None
) -> Iterator[ScriptServer]:
    """Serves all scripts over loopback as `anthropic`, `openai` or `ollama` would.

    While it is open, the model `PROTOCOL/NAME` is the script NAME: environment variables name the
    server's URL, and a key if none was set. `responses` is OpenAI's Responses API: there, too, the
    model is `openai/NAME`.

    Args:
        protocol: `anthropic`, `openai` (Chat Completions), `responses` or `ollama`.
        dirs: folders to look in before `./axe/scripts` and the config folder's `scripts`.

    Raises:
        ConfigError: there is no such protocol.
    """
    if protocol not in WIRES:
        raise ConfigError(
            f"no script server for protocol {quote(protocol)}",
            hint=f"use one of {', '.join(WIRES)}",
        )
    server = ScriptServer(protocol, dirs)
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
    dirs: tuple[Path, ...] | None = None
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
        connection = asyncio.create_task(self._serve_connection(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        connection.add_done_callback(lambda _: writer.transport.abort())

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serves one connection to its end."""
        writer.transport.set_write_buffer_limits(0)  # what has been drained has left
        with contextlib.suppress(OSError):  # the client is gone, and with it whom to tell
            await self._answer_requests(HttpConnection(reader, writer))

    async def _answer_requests(self, connection: HttpConnection) -> None:
        """Answers one request after another, until either side closes the connection."""
        while True:
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
                if isinstance(reply, HttpStream):
                    goes_on = await connection.unless_gone(connection.send_stream(reply))
            except ClientGone:
                self.aborted += 1
                return
            finally:
                self.open_requests -= 1  # before the client has a whole reply
            if not isinstance(reply, HttpStream):
                goes_on = reply is not None and await connection.send(reply)
            if not goes_on:
                return

    async def _make_reply(self, request: HttpRequest) -> HttpReply | HttpStream | None:
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
            return HttpReply(200, dump(wire.models(known(self.dirs))))
        try:
            body = self._parse_body(request.body)
            return await self._run_script(self._wire.request(body), body)
        except Malformed as error:
            return self._make_error(400, str(error))

    def _parse_body(self, body: bytes) -> Json:
        """Parses the client's request.

        Raises:
            Malformed: the real server would reject it.
        """
        try:
            decoded = json.loads(body)
        except (ValueError, RecursionError):
            raise Malformed("the body is not valid JSON") from None
        if not isinstance(decoded, dict):
            raise Malformed("the body must be a JSON object")
        self.requests.append(decoded)
        return decoded

    async def _run_script(self, request: Request, body: Json) -> HttpReply | HttpStream | None:
        if request.model.endswith(".toml"):
            return self._make_error(404, "a script server serves scripts by name, not by path")
        try:
            reply = await answer(request, Scripts(self.dirs))
            if body.get("stream", self._wire.streams):
                return await self._begin_stream(request, body, reply)
            playback = await play_whole(request, reply)
        except ProviderError as error:
            return await self._reply_to_error(error)
        if playback.fault:
            return await self._simulate_fault(playback.fault)
        whole = self._wire.response(request, playback.response, playback.reasoning)
        return HttpReply(200, dump(whole))

    async def _begin_stream(
        self, request: Request, body: Json, reply: Reply
    ) -> HttpReply | HttpStream | None:
        """Plays the reply up to its first piece; if it fails before, that is an HTTP error.

        Raises:
            ProviderError: the script fails before its first piece.
        """
        playback = Playback(request, reply)
        deltas = playback.deltas()
        first = await anext(deltas, None)
        if first is None and playback.fault:
            return await self._simulate_fault(playback.fault)
        options = body.get("stream_options")
        streamed = StreamedReply(
            request=request, calls=playback.calls, input_tokens=playback.input_tokens,
            wants_usage=isinstance(options, dict) and bool(options.get("include_usage")),
        )  # fmt: skip
        stream = STREAMS[self.protocol](streamed)
        chunks = encode(stream, playback, [first] if first else [], deltas)
        return HttpStream(chunks, stream.kind)

    async def _simulate_fault(self, fault: Fault) -> HttpReply | None:
        if fault.status:
            return self._make_error(fault.status, fault.message)
        match fault.message:
            case "nonsense":
                return HttpReply(200, NONSENSE, "text/html")
            case "timeout":
                await asyncio.Event().wait()
        return None

    async def _reply_to_error(self, error: ProviderError) -> HttpReply | None:
        """Makes the reply to a function's own failure, as the server would send it."""
        fault = make_fault(error)
        if not fault.status:
            return await self._simulate_fault(fault)
        return replace(self._make_error(fault.status, fault.message), retry_after=error.retry_after)

    def _make_error(self, status: int, message: str) -> HttpReply:
        """Makes an error reply of the protocol; without a body if the message is empty."""
        return HttpReply(status, dump(self._wire.error(status, message)) if message else b"")
