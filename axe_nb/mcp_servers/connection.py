"""Connection to an MCP server: its start, tools, calls, restarts and end.

The `mcp` package requires the same task to open and close the connection; in between, other tasks
use it. All these tasks run on the event loop of `LoopThread`. Servers may send hostile answers.

The package's own transport would start a program without a sandbox, so this module itself
passes messages to and from the program, as lines of JSON. URLs come from the user's settings or
from trusted agents, and redirects to other hosts are refused.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from axe_nb.agents.agent_tables import McpServer, expand_variables
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolSpec
from axe_nb.pictures.picture import NoPicture, Picture, format_bytes, join_parts
from axe_nb.providers.wire import check_nesting
from axe_nb.sandbox.find import Sandbox, find_sandbox
from axe_nb.sandbox.process import clean_environment
from axe_nb.sandbox.view import make_view
from axe_nb.text import clean, cut_chars, format_seconds, one_line, plural, quote
from axe_nb.threads import in_thread
from axe_nb.tools.tool import Guard, Tool, ToolContext, ToolError, ToolOutput, as_text

T = TypeVar("T")

Run = Callable[[Any], Awaitable[Any]]
"""Function that runs a coroutine on the servers' event loop and returns its result."""

CLOSING = 8.0  # maximum seconds to close a connection
CONNECT, READ = 30.0, 300.0  # maximum seconds to connect, and between two parts of a response
GRACE, PATIENCE = 1.0, 5.0  # maximum seconds to exit after the input ends, and after a kill
CHUNK = 65536

MAX_LISTED, MAX_PAGES = 10_000, 1000  # tools, and pages of tools, to read from one server
MAX_DESCRIPTION, MAX_SCHEMA, MAX_DEPTH = 4096, 65536, 64  # characters, and levels of a schema
MAX_MESSAGE = 16 * 1024 * 1024  # bytes; a server that sends a longer message is stopped
MAX_ASKED = 100  # requests by a server whose answers it has not read; then it is stopped

ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')
ERROR = re.compile(rb"\s*[\w.]{0,99}(Error|Exception)\b.{0,99}: ")
"""Pattern for the start of an output line that reports an error."""

_OTHER = re.compile(r"[^A-Za-z0-9_-]")
Listing: TypeAlias = tuple[Mapping[str, ToolSpec], tuple[str, ...]]
"""A server's tools, keyed by the names that models see, and warnings from listing the tools."""


async def list_tools(session: Any, server: str) -> Listing:
    """Returns a server's tools, under names that all providers accept, and any warnings."""
    import mcp_types

    if session.server_capabilities is not None and session.server_capabilities.tools is None:
        return {}, ()
    tools: dict[str, ToolSpec] = {}
    refused = 0
    cursor = ""
    for _ in range(MAX_PAGES):
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await session.list_tools(params=params)
        for tool in page.tools[: MAX_LISTED - len(tools)]:
            text = cut_chars(clean(tool.description or tool.title or ""), MAX_DESCRIPTION, " …")
            is_bounded = False
            with suppress(ValueError):
                check_nesting(tool.input_schema, MAX_DEPTH)
                is_bounded = len(json.dumps(tool.input_schema)) <= MAX_SCHEMA
            if is_bounded:
                tools.setdefault(tool.name, ToolSpec(tool.name, text, {}, schema=tool.input_schema))
            refused += not is_bounded
        if not page.next_cursor or page.next_cursor == cursor or len(tools) >= MAX_LISTED:
            break
        cursor = page.next_cursor
    room = 64 - len(server) - 2  # the longest name that all providers accept
    counts = Counter(_OTHER.sub("_", name) for name in tools)
    named: dict[str, ToolSpec] = {}
    for own, spec in tools.items():
        name = _OTHER.sub("_", own)
        if len(name) > room or not name or (name != own and counts[name] > 1):
            digest = hashlib.sha256(own.encode("utf-8", "replace")).hexdigest()[:8]
            name = f"{name[: room - 9]}_{digest}"
        named.setdefault(f"{server}__{name}", spec)
    left_out = f"{plural(refused, 'tool')} left out: schema too large"
    return named, (left_out,) if refused else ()


class Connection:
    """Connection to an MCP server; a local server runs in `workdir`, a path without symlinks."""

    def __init__(
        self, name: str, server: McpServer, workdir: Path, sources: frozenset[Path] = frozenset()
    ) -> None:
        self.name, self.server = name, server
        self.tools: Mapping[str, ToolSpec] = {}
        """Name shown to models → tool; empty until the server has started."""
        self.warnings: tuple[str, ...] = ()
        self._workdir, self._sources = workdir, sources
        self._sandbox: Sandbox | None = None
        """Sandbox of a local server; None before its start, or for a remote server."""
        self._program: Program | None = None
        """The latest program of the server, which may have ended."""
        self._session: Any = None
        """Session of the `mcp` package; None unless the connection is open."""
        self._owner: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._is_stale = False

    @property
    def label(self) -> str:
        return f"MCP server {self.name}, {self._location}"

    @property
    def _location(self) -> str:
        if self._sandbox:
            return self._sandbox.portable_label
        parts = urlsplit(self.server.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

    @property
    def is_running(self) -> bool:
        return self._session is not None

    async def start(self) -> None:
        """Starts the server, or reloads an outdated tool list. Raises ConfigError on failure."""
        async with self._lock:
            if not self.is_running:
                await self._start()
            elif self._is_stale:
                self._is_stale = False
                listed = list_tools(self._session, self.name)
                self.tools, self.warnings = await self._within(listed)

    async def close(self) -> None:
        async with self._lock:
            await self._end()

    async def ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """Starts the server if it is not running, and returns the result of `question(session)`.

        Raises ToolError if the server does not start, reports an error, or ends during the call.
        """
        named = f"MCP server {quote(self.name)}"
        async with self._lock:
            if not self.is_running:
                try:
                    await self._start()
                except ConfigError as error:
                    raise ToolError("; ".join(error.lines())) from None
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        session, owner = self._session, self._owner
        try:
            return await question(session)
        except MCPError as error:
            if error.error.code != CONNECTION_CLOSED and self._session is session:
                raise ToolError(describe(error)) from None
        except ToolError:
            raise
        except Exception as error:  # the package may fail on an invalid answer
            if self._session is session:
                raise ToolError(f"invalid answer from the server: {describe(error)}") from None
        async with self._lock:
            if self._owner is owner:
                await self._end()
        lost = f"the connection to {named} was lost" if self.server.url else f"{named} exited"
        told = "the call may or may not have taken effect. The next call starts it again"
        raise ToolError(f"{lost} during this call{self._explain_end()}; {told}")

    def make_tools(self, run: Run) -> list[Tool]:
        return [
            Tool(
                name, tool.description, {}, partial(self._call, run, tool.name),
                "read" if self.server.is_read_only(tool.name) else "write",
                guard=lambda *_: Guard(note=self.label), schema=tool.schema, server=self.name,
            )
            for name, tool in self.tools.items()
        ]  # fmt: skip

    async def _call(
        self, run: Run, name: str, ctx: ToolContext, arguments: Mapping[str, Any]
    ) -> ToolOutput:
        async def send(session: Any) -> Any:
            # structured results are not validated, as a hostile schema could take forever
            import mcp_types
            from pydantic import TypeAdapter

            params = mcp_types.CallToolRequestParams(name=name, arguments=dict(arguments))
            request = mcp_types.CallToolRequest(params=params)
            kinds = TypeAdapter(mcp_types.CallToolResult | mcp_types.InputRequiredResult)
            result = await session.send_request(request, kinds)
            if not isinstance(result, mcp_types.CallToolResult):
                raise ToolError("the server asked the user for input, which is not supported")
            return result

        result = await run(self.ask(send))
        text, pictures = join_parts(map(read_block, result.content), "\n")
        if not text and result.structured_content is not None:
            text = as_text(result.structured_content)
        if changes := await run(self.list_changes()):
            told = f"while MCP server {self.name} ran: "
            ctx.file_log.warnings += (f"{told}{note}; nothing was undone" for note in changes)
            raise ToolError("\n".join(filter(None, [text, *changes])), self.label)
        if result.is_error:
            raise ToolError(text or "the tool failed without an error message", self.label)
        return ToolOutput(text or "(no output)", pictures=pictures)

    async def list_changes(self) -> tuple[str, ...]:
        """Closes the connection if protected files changed; returns a note on each of them."""
        if self._program is None:
            return ()
        try:
            changes = await in_thread(self._program.process.list_changes)
        except (OSError, ValueError) as error:
            changes = (f"protected files cannot be compared: {error}",)
        if changes:  # a replaced file is no longer protected from the server
            await self.close()
        return changes

    async def _start(self) -> None:
        await self._end()
        # calls report the errors of a server, so the package's log stays out of the notebook
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        try:
            from mcp import Client  # noqa: F401
        except ImportError:
            told = "MCP servers require the mcp package, version 2.3 or newer"
            raise ConfigError(told, hint="pip install 'axe-nb[mcp]'") from None
        if self.server.command and self._sandbox is None:
            network, sources = self.server.network, self._sources
            make = partial(make_view, self._workdir, network=network, sources=sources)
            sandbox = await in_thread(find_sandbox, self.server.sandbox, await in_thread(make))
            if sandbox.level == "none" and not sandbox.is_off:
                raise ConfigError(
                    f"MCP server {quote(self.name)} was not started: no sandbox is available here, "
                    "and without one it could do anything you can",
                    hint=f'mcp_servers.{self.name}.sandbox = "off" starts it anyway',
                )
            self._sandbox = sandbox
        ready: asyncio.Future[Listing] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        try:
            self.tools, self.warnings = await self._within(ready)
        except BaseException:
            await self._end()
            raise
        self._is_stale = False

    async def _within(self, work: Awaitable[T]) -> T:
        seconds = self.server.start_timeout
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            problem = f"no answer within {format_seconds(seconds)} s"
        except ConfigError:
            raise
        except Exception as error:
            problem = describe(error)
        place = f"{self._location}: " if self.server.url else ""
        told = f"MCP server {quote(self.name)} did not start: {place}{problem}"
        raise ConfigError(told + self._explain_end(), hint=self._advise())

    async def _own(self, ready: asyncio.Future[Listing]) -> None:
        """Opens the connection, waits until it ends, and closes it, all in one task."""
        from mcp import Client
        from mcp_types import Implementation

        over = asyncio.Event()

        def lose() -> None:
            over.set()
            if self._owner is owner:
                self._session = None

        async def hear(message: Any) -> None:
            if type(message).__name__ == "ToolListChangedNotification":
                self._is_stale = True

        owner, version = self._owner, sys.modules["axe_nb"].__version__
        try:
            async with Client(
                self._open(lose),
                message_handler=hear,
                client_info=Implementation(name="axe-nb", version=version),
                cache=None,
            ) as client:
                listing = await list_tools(client.session, self.name)
                self._session = client.session
                if not ready.done():
                    ready.set_result(listing)
                await over.wait()
        except Exception as error:  # a server may do anything
            if not ready.done():
                ready.set_exception(error)
        finally:
            lose()
            if not ready.done():
                ready.set_exception(ConnectionError("the connection was closed"))

    @asynccontextmanager
    async def _open(self, lose: Callable[[], object]) -> AsyncIterator[Any]:
        """Connects and yields the message streams; calls `lose` on the loop if the program ends."""
        server, sandbox, self._program = self.server, self._sandbox, None
        if sandbox is None:
            headers = expand_variables(server.headers, self.name, "headers")
            async with open_address(server, headers) as streams:
                yield streams
            return
        own = expand_variables(server.env, self.name, "env")
        environment = clean_environment()
        if "-m" in server.command:  # otherwise Python would import from the workdir first
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

    def _explain_end(self) -> str:
        if self._program is None:
            return ""
        process, code = self._program.process, self._program.process.code
        if self._program.fault:
            return f": {self._program.fault}"
        told = [process.failure] if process.failure else []
        if code is not None and not told:
            ended = f"killed by signal {-code}" if code < 0 else f"exited with code {code}"
            told.append(f"it {ended}{': program not found' if code == 127 else ''}")
        told += process.notes
        lines = [line for line in self._program.errors.splitlines() if line.strip()]
        if lines:  # the last error, if any, as Node.js prints more lines after it
            last = ([line for line in lines if ERROR.match(line)] or lines)[-1]
            text = last.decode("utf-8", "replace").strip()
            told.append(f"its last output: {quote(one_line(text, 300))}")
        return f" ({'; '.join(told)})" if told else ""

    def _advise(self) -> str:
        key = f"mcp_servers.{self.name}"
        if self.server.url:
            return f"check {key}.url, and that the server is running"
        is_caged = self._sandbox is not None and self._sandbox.level != "none"
        if is_caged and not self.server.network:
            return (
                f"check {key}.command; it runs in a sandbox with no network and no home folder: "
                f'{key}.network = true or {key}.sandbox = "off" gives it access'
            )
        return f"run {key}.command in a terminal to check it, or raise {key}.start_timeout"

    async def _end(self) -> None:
        self._session = None
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=CLOSING)
            self._owner = None


class Program:
    """A local server's program, with the threads and tasks that transfer its messages."""

    def __init__(
        self,
        sandbox: Sandbox,
        command: Sequence[str],
        environment: Mapping[str, str],
        lose: Callable[[], object],
    ) -> None:
        import anyio

        self.errors = b""
        """Last part of the program's standard error output."""
        self.fault = ""
        """Reason why the program was stopped; otherwise empty."""
        self.to_session, self.from_server = anyio.create_memory_object_stream[Any](0)
        self.from_session, self.to_server = anyio.create_memory_object_stream[Any](0)
        self._gone = (anyio.ClosedResourceError, anyio.BrokenResourceError)
        self._loop, self._lose = asyncio.get_running_loop(), lose
        self._asked = 0
        """Number of requests by the server whose answers have not been written."""
        (stdin, self._input), (messages, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._writing = threading.Lock()
        """Lock held by a writing thread, which blocks if the server does not read."""
        self.process = sandbox.start(command, environment, (stdin, stdout, stderr))

        def keep_end() -> None:
            with open(errors, "rb") as file:  # noqa: PTH123  a descriptor
                while chunk := file.read1(CHUNK):
                    self.errors = (self.errors + chunk)[-4096:]

        last = threading.Thread(target=keep_end, daemon=True)
        last.start()
        threading.Thread(target=self.read, args=(messages, last), daemon=True).start()
        self._tasks = [asyncio.create_task(self.write()), asyncio.create_task(self.watch())]

    async def close(self) -> None:
        """Stops the server by closing its input; kills the server if it does not exit in time."""
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
        """Passes the server's messages to the session until either ends or a limit is exceeded."""
        import mcp_types
        from mcp.shared.message import SessionMessage

        with open(number, "rb") as file:
            while True:
                line = file.readline(MAX_MESSAGE + 1)
                if len(line) > MAX_MESSAGE:
                    self.fault = f"it sent a message larger than {MAX_MESSAGE >> 20} MB"
                if not line or self.fault:
                    break
                message: Any
                try:
                    message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except (ValueError, RecursionError):
                    if (found := ID.search(line[:CHUNK])) is None:
                        continue
                    # an error in place of the answer, whose caller would wait forever
                    code, told = mcp_types.PARSE_ERROR, "the answer could not be read"
                    error = mcp_types.ErrorData(code=code, message=told)
                    message = mcp_types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error)
                self._asked += hasattr(message, "method") and hasattr(message, "id")
                if self._asked > MAX_ASKED:
                    self.fault = f"it sent {MAX_ASKED} requests without reading an answer"
                    break
                try:
                    _run_on(self._loop, self.to_session.send(SessionMessage(message)))
                except self._gone:
                    break
            if self.fault:
                self.process.kill()
            last.join(GRACE)  # another program may hold its standard error open
            _run_on(self._loop, self._end())
            while file.read1(CHUNK):  # otherwise a server that still writes would not exit
                pass

    async def write(self) -> None:
        def send(data: bytes) -> None:
            with self._writing:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._input, view) :]

        with suppress(OSError):
            async for message in self.to_server:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await in_thread(send, line.encode() + b"\n")
                self._asked -= not hasattr(message.message, "method")
        await self._end()

    def _close_input(self) -> bool:
        """Closes the server's input; returns False if a thread is still writing to it."""
        if not self._writing.acquire(blocking=False):
            return False
        with suppress(OSError):
            os.close(self._input)
        self._input = -1
        self._writing.release()
        return True

    async def watch(self) -> None:
        await in_thread(self.process.wait)
        await asyncio.sleep(2 * GRACE)  # another program may hold its output open
        await self._end()

    async def _end(self) -> None:
        self.to_session.close()
        self._lose()


def _run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T | None:
    try:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    except (RuntimeError, CancelledError):
        work.close()
        return None


@asynccontextmanager
async def open_address(server: McpServer, own: Mapping[str, str]) -> AsyncIterator[Any]:
    """Connects to a remote server, with `own` as HTTP headers, and yields its message streams."""
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
    """Limits the size of a response body, except an event stream; rejects compressed bodies."""
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


def describe(error: BaseException) -> str:
    """Formats the first exception in an error from the `mcp` package as one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return one_line(str(error), 300) or type(error).__name__


def read_block(block: Any) -> str | Picture:
    """Returns the text or picture in a content block, or a note about anything else."""
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            with suppress(NoPicture, ValueError):
                return Picture(base64.b64decode(block.data, validate=True))
            return _format_media("a picture", block.mime_type, block.data)
        case "audio":
            return _format_media("an audio clip", block.mime_type, block.data)
        case "resource":
            text = getattr(block.resource, "text", None)
            if isinstance(text, str):
                return text
            return _format_media("a file", block.resource.mime_type or "", block.resource.blob)
        case _:
            name, uri = one_line(block.title or block.name, 200), one_line(str(block.uri), 200)
            return f"[a resource, {name}: {uri}]"


def _format_media(what: str, media_type: str, data: str) -> str:
    size = format_bytes(len(data) * 3 // 4)
    return f"[{', '.join(filter(None, (what, one_line(media_type, 80), size)))}]"
