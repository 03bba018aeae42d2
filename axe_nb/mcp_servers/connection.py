"""The connection to one MCP server: start, tools, requests, restarts and end.

A task of its own opens and closes the connection, as the package demands; calls of others use it
meanwhile. All of it happens on the loop of `LoopThread`. What a server lists may be hostile.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from axe_nb.agents.agent_tables import McpServer
from axe_nb.errors import ConfigError
from axe_nb.mcp_servers.endpoint import Endpoint
from axe_nb.messages import ToolSpec
from axe_nb.pictures.picture import NoPicture, Picture, format_bytes, join_parts
from axe_nb.text import clean, cut_chars, format_seconds, one_line, plural, quote
from axe_nb.threads import in_thread
from axe_nb.tools.tool import CallSite, Guard, Tool, ToolContext, ToolError, ToolOutput, as_text

T = TypeVar("T")

Run = Callable[[Any], Awaitable[Any]]
"""(coroutine) → its result, from the loop of the servers."""

MAX_DEATHS = 3
"""Number of consecutive deaths in calls after which a server is not restarted."""

CLOSING = 8.0
"""Seconds that the end of a connection may take."""

MAX_LISTED, MAX_PAGES = 10_000, 1000
"""Maximum number of tools read from one server; maximum number of pages of its list."""

MAX_DESCRIPTION, MAX_SCHEMA, MAX_DEPTH = 4096, 65536, 64
"""Maximum characters of a description, which is cut; maximum characters and levels of a schema,
beyond which a tool is left out."""

LONGEST_NAME = 64
"""Maximum characters of a tool's name that all providers accept, the server's name included."""

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server, with its own names, and cleaned and bounded descriptions."""

    tools: tuple[ToolSpec, ...] = ()
    warnings: tuple[str, ...] = ()

    def name_tools(self, server: str) -> dict[str, ToolSpec]:
        """Returns name shown to models → tool, as the server's own name may be any text."""
        room = LONGEST_NAME - len(server) - 2
        counts = Counter(_OTHER.sub("_", tool.name) for tool in self.tools)
        named: dict[str, ToolSpec] = {}
        for tool in self.tools:
            name = _OTHER.sub("_", tool.name)
            if len(name) > room or not name or (name != tool.name and counts[name] > 1):
                digest = hashlib.sha256(tool.name.encode("utf-8", "replace")).hexdigest()[:8]
                name = f"{name[: room - 9]}_{digest}"
            named.setdefault(f"{server}__{name}", tool)
        return named


async def list_tools(session: Any) -> Listing:
    import mcp_types

    if session.server_capabilities is not None and session.server_capabilities.tools is None:
        return Listing()
    tools: dict[str, ToolSpec] = {}
    refused = 0
    cursor = ""
    for _ in range(MAX_PAGES):
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await session.list_tools(params=params)
        for tool in page.tools[: MAX_LISTED - len(tools)]:
            text = cut_chars(clean(tool.description or tool.title or ""), MAX_DESCRIPTION, " …")
            if _is_bounded(tool.input_schema):
                tools.setdefault(tool.name, ToolSpec(tool.name, text, {}, schema=tool.input_schema))
            else:
                refused += 1
        if not page.next_cursor or page.next_cursor == cursor or len(tools) >= MAX_LISTED:
            break
        cursor = page.next_cursor
    left_out = f"{plural(refused, 'tool')} left out: schema too large"
    return Listing(tuple(tools.values()), (left_out,) if refused else ())


def _is_bounded(schema: Mapping[str, Any]) -> bool:
    level: list[Any] = [schema]
    try:
        is_short = len(json.dumps(schema)) <= MAX_SCHEMA
    except (ValueError, RecursionError):
        return False
    for _ in range(MAX_DEPTH):
        nested = (list(v.values()) if isinstance(v, Mapping) else v for v in level)
        level = [entry for value in nested if isinstance(value, list) for entry in value]
    return is_short and not any(isinstance(value, Mapping | list) for value in level)


class Connection:
    """A server with its tools, whose program will work in `workdir`, a real folder."""

    def __init__(
        self, name: str, server: McpServer, workdir: Path, sources: frozenset[Path] = frozenset()
    ) -> None:
        self.name, self.server = name, server
        self.listing = Listing()
        """The server's tools; empty until it has started."""
        self._endpoint = Endpoint(name, server, workdir, sources)
        self._session: Any = None
        """The session of the MCP package; None unless the connection is open."""
        self._owner: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._deaths = 0
        self._is_stale = False

    @property
    def label(self) -> str:
        """The name and location of the server, for the approval prompt."""
        return f"MCP server {self.name}, {self._endpoint.label}"

    @property
    def is_running(self) -> bool:
        return self._session is not None

    async def start(self) -> None:
        """Starts the server unless it runs, and lists its tools. Raises ConfigError."""
        self._deaths = 0
        async with self._lock:
            if not self.is_running:
                await self._start()
            elif self._is_stale:
                self._is_stale = False
                self.listing = await self._within(list_tools(self._session))

    async def close(self) -> None:
        async with self._lock:
            await self._end()

    async def ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """Asks the package's session; a server that died is started again. Raises ToolError."""
        named = f"MCP server {quote(self.name)}"
        async with self._lock:
            if not self.is_running:
                if self._deaths >= MAX_DEATHS:
                    died = f"{named} died {self._deaths} times in a row"
                    raise ToolError(f"{died} and is not restarted in this run")
                try:
                    await self._start()
                except ConfigError as error:
                    self._deaths += 1
                    raise ToolError("; ".join(error.lines())) from None
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        session, owner = self._session, self._owner
        try:
            answer = await question(session)
            self._deaths = 0
            return answer
        except MCPError as error:
            if error.error.code != CONNECTION_CLOSED and self._session is session:
                raise ToolError(describe(error)) from None
        except ToolError:
            raise
        except Exception as error:  # of the package, on what a server answered
            if self._session is session:
                raise ToolError(f"invalid answer from the server: {describe(error)}") from None
        self._deaths += 1
        async with self._lock:
            if self._owner is owner:
                await self._end()
        lost = f"the connection to {named} was lost" if self.server.url else f"{named} exited"
        raise ToolError(
            f"{lost} during this call{self._endpoint.explain_end()}; the call may or may not have "
            "taken effect. The next call starts it again"
        )

    async def read_resource(self, uri: str) -> str:
        answer = await self.ask(lambda session: session.read_resource(uri))
        return "\n".join(map(format_resource, answer.contents))

    async def get_prompt(self, prompt: str, arguments: Mapping[str, str]) -> str:
        answer = await self.ask(lambda session: session.get_prompt(prompt, dict(arguments)))
        return join_parts((read_block(one.content) for one in answer.messages), "\n\n").text

    def make_tools(self, run: Run) -> list[Tool]:
        """Returns the tools of the server, once started, in its own order."""

        def guard(arguments: Mapping[str, Any], site: CallSite) -> Guard:
            return Guard(note=self.label)

        return [
            Tool(
                name, tool.description, {}, partial(self._call, run, tool.name),
                "read" if self.server.is_read_only(tool.name) else "write",
                guard=guard, schema=tool.schema, server=self.name,
            )
            for name, tool in self.listing.name_tools(self.name).items()
        ]  # fmt: skip

    async def _call(
        self, run: Run, name: str, ctx: ToolContext, arguments: Mapping[str, Any]
    ) -> ToolOutput:
        async def send(session: Any) -> Any:
            # its structured result is not checked against the server's schema: that is left to the
            # model, and a hostile schema could keep a check busy forever
            import mcp_types
            from pydantic import TypeAdapter

            request = mcp_types.CallToolRequest(
                params=mcp_types.CallToolRequestParams(name=name, arguments=dict(arguments))
            )
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
        """Returns a note on each protected file that was changed since the last call.

        A replaced file is no longer protected from the server, which is ended until the next call.
        """
        if changes := await in_thread(self._endpoint.list_changes):
            await self.close()
        return changes

    async def _start(self) -> None:
        await self._end()
        # what a server does wrong is reported by its calls, and its words are not for the notebook
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        try:
            from mcp import Client  # noqa: F401
        except ImportError:
            raise ConfigError(
                "MCP servers require the mcp package, version 2.3 or newer",
                hint="pip install 'axe-nb[mcp]'",
            ) from None
        await self._endpoint.prepare()
        ready: asyncio.Future[Listing] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        try:
            self.listing = await self._within(ready)
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
        place = f"{self._endpoint.label}: " if self.server.url else ""
        end = self._endpoint.explain_end()
        raise ConfigError(
            f"MCP server {quote(self.name)} did not start: {place}{problem}{end}",
            hint=self._endpoint.advise(),
        )

    async def _own(self, ready: asyncio.Future[Listing]) -> None:
        """Opens the connection, waits, and closes it: all in one task."""
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
                self._endpoint.open(lose),
                message_handler=hear,
                client_info=Implementation(name="axe-nb", version=version),
                cache=None,
            ) as client:
                listing = await list_tools(client.session)
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

    async def _end(self) -> None:
        self._session = None
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=CLOSING)
            self._owner = None


def describe(error: BaseException) -> str:
    """Returns the first cause of an error of the package, on one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return one_line(str(error), 300) or type(error).__name__


def read_block(block: Any) -> str | Picture:
    """Returns the content of a block; a note if it is neither text nor a picture."""
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
            return format_resource(block.resource)
        case _:
            name, uri = one_line(block.title or block.name, 200), one_line(str(block.uri), 200)
            return f"[a resource, {name}: {uri}]"


def format_resource(resource: Any) -> str:
    """Returns the text of a resource; a note if it has none."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    return _format_media("a file", resource.mime_type or "", resource.blob)


def _format_media(what: str, media_type: str, data: str) -> str:
    """Returns a note that replaces content that is not sent to a model."""
    size = format_bytes(len(data) * 3 // 4)
    return f"[{', '.join(filter(None, (what, one_line(media_type, 80), size)))}]"
