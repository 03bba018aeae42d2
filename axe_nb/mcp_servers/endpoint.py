"""The program or address of a server: how it is opened, and how its end is reported.

The package's own transport starts the program itself, without a sandbox; so the messages to and
from it, lines of JSON over its input and output, are moved here. An address comes from the user's
settings or from an agent that the user trusts. A redirect to another host is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from axe_nb.agents.agent_tables import McpServer, expand_variables
from axe_nb.errors import ConfigError
from axe_nb.sandbox.find import Sandbox, find_sandbox
from axe_nb.sandbox.process import clean_environment
from axe_nb.sandbox.view import make_view
from axe_nb.text import one_line, quote
from axe_nb.threads import in_thread

T = TypeVar("T")

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message or reply; a server that sends a longer one is ended."""

KEPT = 4096
"""Bytes of a server's errors that are kept."""

CHUNK = 65536

ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')

BURST, PAUSE = 200, 0.02
"""Messages after which nothing is read for that many seconds: a flood must not take all time."""

MAX_ASKED = 100
"""Maximum number of a server's requests whose answers it has not read; beyond that it is ended."""

GRACE, PATIENCE = 1.0, 5.0
"""Seconds for a server to exit once its input ends, and again after it is killed."""

CONNECT, READ = 30.0, 300.0
"""Seconds to connect to an address, and between two parts of a reply."""

ERROR = re.compile(rb"\s*[\w.]{0,99}(Error|Exception)\b.{0,99}: ")
"""Matches the start of a line with an error."""


class Endpoint:
    """The other end of a connection."""

    def __init__(
        self, name: str, server: McpServer, workdir: Path, sources: frozenset[Path]
    ) -> None:
        self.sandbox: Sandbox | None = None
        """The sandbox of the program; None if there is no program, or it was not prepared."""
        self._name, self._server = name, server
        self._workdir, self._sources = workdir, sources
        self._program: Program | None = None
        """The latest program, which may have ended."""

    @property
    def label(self) -> str:
        """The sandbox, or the address without a password or key in it."""
        if self.sandbox:
            return self.sandbox.portable_label
        parts = urlsplit(self._server.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

    async def prepare(self) -> None:
        """Chooses the sandbox of the program."""
        server, sources = self._server, self._sources
        if not server.command or self.sandbox is not None:
            return
        view = await in_thread(
            lambda: make_view(self._workdir, network=server.network, sources=sources)
        )
        sandbox = await in_thread(find_sandbox, server.sandbox, view)
        if sandbox.level == "none" and not sandbox.is_off:
            raise ConfigError(
                f"MCP server {quote(self._name)} was not started: no sandbox is available here, "
                "and without one it could do anything you can",
                hint=f'mcp_servers.{self._name}.sandbox = "off" starts it anyway',
            )
        self.sandbox = sandbox

    @asynccontextmanager
    async def open(self, lose: Callable[[], object]) -> AsyncIterator[Any]:
        """Yields the streams of messages; `lose` is called on the loop when the program ends."""
        server, sandbox, self._program = self._server, self.sandbox, None
        if sandbox is None:
            headers = expand_variables(server.headers, self._name, "headers")
            async with open_address(server, headers) as streams:
                yield streams
            return
        own = expand_variables(server.env, self._name, "env")
        environment = clean_environment()
        if "-m" in server.command:  # else Python imports from the workdir first
            environment["PYTHONSAFEPATH"] = "1"
        if sandbox.level == "docker":
            sandbox = replace(sandbox, view=replace(sandbox.view, variables=own))
        else:
            environment |= own
        program = self._program = Program(sandbox, server.command, environment, lose)
        try:
            yield program.from_server, program.from_session
        finally:
            await program.close()

    def list_changes(self) -> tuple[str, ...]:
        """Returns a note on each protected file that was changed since the last call."""
        try:
            return self._program.process.list_changes() if self._program else ()
        except (OSError, ValueError) as error:
            return (f"protected files cannot be compared: {error}",)

    def explain_end(self) -> str:
        """Returns the exit code and last output of the program, as the end of a sentence."""
        if self._program is None:
            return ""
        process = self._program.process
        code = process.code
        if self._program.fault:
            return f": {self._program.fault}"
        told = [process.failure] if process.failure else []
        if code is not None and not told:
            ended = f"killed by signal {-code}" if code < 0 else f"exited with code {code}"
            told.append(f"it {ended}{': program not found' if code == 127 else ''}")
        told += process.notes
        lines = [line for line in self._program.errors.splitlines() if line.strip()]
        if lines:  # the last one with an error, as Node.js says more after it
            last = ([line for line in lines if ERROR.match(line)] or lines)[-1]
            text = last.decode("utf-8", "replace").strip()
            told.append(f"its last output: {quote(one_line(text, 300))}")
        return f" ({'; '.join(told)})" if told else ""

    def advise(self) -> str:
        """Returns the next step if the server did not start."""
        key = f"mcp_servers.{self._name}"
        if self._server.url:
            return f"check {key}.url, and that the server is running"
        is_caged = self.sandbox is not None and self.sandbox.level != "none"
        if is_caged and not self._server.network:
            return (
                f"check {key}.command; it runs in a sandbox with no network and no home folder: "
                f'{key}.network = true or {key}.sandbox = "off" gives it access'
            )
        return f"run {key}.command in a terminal to check it, or raise {key}.start_timeout"


class Program:
    """A server that runs here, with the threads and tasks that move its messages."""

    def __init__(
        self,
        sandbox: Sandbox,
        command: Sequence[str],
        environment: Mapping[str, str],
        lose: Callable[[], object],
    ) -> None:
        import anyio

        self.errors = b""
        """The end of its standard error."""
        self.fault = ""
        """The reason that it was ended; empty = it was not."""
        self.to_session, self.from_server = anyio.create_memory_object_stream[Any](0)
        self.from_session, self.to_server = anyio.create_memory_object_stream[Any](0)
        self._gone = (anyio.ClosedResourceError, anyio.BrokenResourceError)
        self._loop, self._lose = asyncio.get_running_loop(), lose
        self._asked = 0
        """Requests of the server whose answers are not written yet."""
        (stdin, self._input), (messages, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._writing = threading.Lock()
        """Held by a writing thread, which a server that does not read may block."""
        self.process = sandbox.start(command, environment, (stdin, stdout, stderr))

        def keep_end() -> None:
            with open(errors, "rb") as file:  # noqa: PTH123  a descriptor
                while chunk := file.read1(CHUNK):
                    self.errors = (self.errors + chunk)[-KEPT:]

        last = _start_thread(keep_end)
        _start_thread(lambda: self.read(messages, last))
        self._tasks = [asyncio.create_task(self.write()), asyncio.create_task(self.watch())]

    async def close(self) -> None:
        """Ends the server: closes its input, and kills it after a while."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self.from_server.close()
        is_over = self._close_input() and await in_thread(self.process.wait, GRACE)
        if not is_over:
            self.process.kill()
            await in_thread(self.process.wait, PATIENCE)
            self._close_input()
        for stream in (self.to_session, self.from_session, self.to_server):
            stream.close()

    def read(self, number: int, last: threading.Thread) -> None:
        """Passes on the server's messages, in a thread, until it ends or sends too much."""
        import mcp_types
        from mcp.shared.message import SessionMessage

        with open(number, "rb") as file:
            for count in itertools.count(1):
                line = file.readline(MAX_MESSAGE + 1)
                if len(line) > MAX_MESSAGE:
                    self.fault = f"it sent a message larger than {MAX_MESSAGE >> 20} MB"
                if not line or self.fault:
                    break
                if count % BURST == 0:
                    time.sleep(PAUSE)
                message: Any
                try:
                    message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except (ValueError, RecursionError):
                    if (found := ID.search(line[:CHUNK])) is None:
                        continue
                    # for an answer, whose caller would wait; a wrong id harms only the server
                    error = mcp_types.ErrorData(
                        code=mcp_types.PARSE_ERROR, message="the answer could not be read"
                    )
                    message = mcp_types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error)
                if not _run_on(self._loop, self.deliver(SessionMessage(message))):
                    break
            if self.fault:
                self.process.kill()
            last.join(GRACE)  # another program may hold its standard error open
            _run_on(self._loop, self._end())
            while file.read1(CHUNK):  # else a server that still writes would not end
                pass

    async def deliver(self, message: Any) -> bool:
        """Passes on a message; returns False if no more are taken."""
        is_request = hasattr(message.message, "method") and hasattr(message.message, "id")
        self._asked += is_request
        if self._asked > MAX_ASKED:
            self.fault = f"it sent {MAX_ASKED} requests without reading an answer"
            return False
        try:
            await self.to_session.send(message)
        except self._gone:
            return False
        return True

    async def write(self) -> None:
        def send(data: bytes) -> None:
            with self._writing:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._input, view) :]

        with contextlib.suppress(OSError):
            async for message in self.to_server:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await in_thread(send, line.encode() + b"\n")
                self._asked -= not hasattr(message.message, "method")
        await self._end()

    def _close_input(self) -> bool:
        """Closes the server's input, or returns false if a thread still writes to it."""
        if not self._writing.acquire(blocking=False):
            return False
        with contextlib.suppress(OSError):
            os.close(self._input)
        self._input = -1
        self._writing.release()
        return True

    async def watch(self) -> None:
        """Notices the end of the program."""
        await in_thread(self.process.wait)
        await asyncio.sleep(2 * GRACE)  # another program may hold its output open
        await self._end()

    async def _end(self) -> None:
        self.to_session.close()
        self._lose()


def _start_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="axe-nb-mcp-pipe", daemon=True)
    thread.start()
    return thread


def _run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T | None:
    """Runs a coroutine on the loop of another thread; None if the loop has ended."""
    try:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    except (RuntimeError, CancelledError):
        work.close()
        return None


@asynccontextmanager
async def open_address(server: McpServer, own: Mapping[str, str]) -> AsyncIterator[Any]:
    """Connects to an address, with the user's own headers; yields the streams of its messages."""
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    def make_client(
        headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None
    ) -> Any:
        return httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **own, **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT, read=READ),
            auth=auth,
            event_hooks={"response": [bound]},
        )

    if server.transport == "sse":
        async with sse_client(
            server.url, timeout=CONNECT, sse_read_timeout=READ, httpx_client_factory=make_client
        ) as streams:
            yield streams
        return
    async with (
        make_client() as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE
        ) as streams,
    ):
        yield streams


async def bound(response: Any) -> None:
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
                if size > MAX_MESSAGE:
                    raise httpx2.ReadError(f"the reply is larger than {MAX_MESSAGE >> 20} MB")
                yield chunk

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = Bounded()
