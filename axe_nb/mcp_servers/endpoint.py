"""The program or address of a server: how it is opened, and how its end is reported.

An address comes from the user's settings or from an agent that the user trusts. A redirect to
another host is refused.

Source: D-43, D-82.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_nb.agents.tables import McpServer, expand_variables
from axe_nb.errors import ConfigError
from axe_nb.mcp_servers.stdio import Words, open_process
from axe_nb.sandbox.find import Sandbox, find_sandbox
from axe_nb.sandbox.process import clean_environment
from axe_nb.sandbox.view import make_view
from axe_nb.text import one_line, quote
from axe_nb.threads import in_thread

LAST_WORDS = 300
"""Characters of a server's last line that an error quotes."""


class Endpoint:
    """The other end of a connection."""

    def __init__(
        self, name: str, server: McpServer, workdir: Path, sources: frozenset[Path]
    ) -> None:
        """As for `Connection`."""
        self.sandbox: Sandbox | None = None
        """The sandbox of the program; None if there is no program, or it was not prepared."""
        self._name, self._server = name, server
        self._place = workdir, sources
        self._words = Words()

    @property
    def label(self) -> str:
        """The sandbox or address, for display."""
        return self.sandbox.portable_label if self.sandbox else format_address(self._server.url)

    async def prepare(self) -> None:
        """Finds the sandbox. Raises ConfigError if it does not work here."""
        if self._server.command and self.sandbox is None:
            self.sandbox = await in_thread(self._choose_sandbox)

    @asynccontextmanager
    async def open(self, lose: Callable[[], object]) -> AsyncIterator[Any]:
        """Starts the program, or connects to the address; yields the streams of its messages.

        Raises ConfigError if a variable that its table names is not set.

        Args:
            lose: called on the event loop when the program ends.
        """
        server, self._words = self._server, Words()
        if self.sandbox is None:
            headers = expand_variables(server.headers, self._name, "headers")
            async with open_address(server, headers) as streams:
                yield streams
            return
        own = expand_variables(server.env, self._name, "env")
        environment = clean_environment()
        if "-m" in server.command:  # else Python imports from the workdir first
            environment["PYTHONSAFEPATH"] = "1"
        sandbox = self.sandbox
        if sandbox.level == "docker":
            sandbox = replace(sandbox, view=replace(sandbox.view, variables=own))
        else:
            environment |= own
        process = open_process(sandbox, server.command, environment, self._words, lose)
        async with process as streams:
            yield streams

    def list_changes(self) -> tuple[str, ...]:
        """Returns a note on each protected file that was changed since this was last asked."""
        process = self._words.process
        try:
            return process.list_changes() if process else ()
        except (OSError, ValueError) as error:
            return (f"protected files cannot be compared: {error}",)

    def explain_end(self) -> str:
        """Returns the exit code and last output of the program, as the end of a sentence."""
        words, process = self._words, self._words.process
        if words.fault:
            return f": {words.fault}"
        told = []
        if process is not None and process.failure:
            told.append(process.failure)
        elif process is not None and process.code is not None:
            told.append(_describe_code(process.code))
        told += process.notes if process is not None else ()
        if words.last:
            told.append(f"its last output: {quote(one_line(words.last, LAST_WORDS))}")
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

    def _choose_sandbox(self) -> Sandbox:
        workdir, sources = self._place
        view = make_view(workdir, network=self._server.network, sources=sources)
        sandbox = find_sandbox(self._server.sandbox, view)
        if sandbox.level == "none" and not sandbox.is_off:
            raise ConfigError(
                f"MCP server {quote(self._name)} was not started: no sandbox is available here, "
                "and without one it could do anything you can",
                hint=f'mcp_servers.{self._name}.sandbox = "off" starts it anyway',
            )
        return sandbox


def _describe_code(code: int) -> str:
    if code < 0:
        return f"it was killed by signal {-code}"
    return f"it exited with code {code}" + (": program not found" if code == 127 else "")


MAX_REPLY = 16 * 1024 * 1024
"""Bytes of one reply; of a stream of events, of one event."""

CONNECT, READ = 30.0, 300.0
"""Seconds to connect, and between two parts of a reply."""


@asynccontextmanager
async def open_address(server: McpServer, own: Mapping[str, str]) -> AsyncIterator[Any]:
    """Connects to a server; yields the streams of its messages."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: Any = None,
        auth: Any = None,
    ) -> Any:
        return _make_client({**own, **(headers or {})}, timeout, auth)

    if server.transport == "sse":
        async with sse_client(
            server.url, timeout=CONNECT, sse_read_timeout=READ, httpx_client_factory=make_client
        ) as streams:
            yield streams
        return
    async with (
        make_client() as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_REPLY
        ) as streams,
    ):
        yield streams


def format_address(url: str) -> str:
    """Returns an address for display, without a password or key in it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _make_client(headers: Mapping[str, str], timeout: Any, auth: Any) -> Any:
    import httpx2

    return httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        timeout=timeout or httpx2.Timeout(CONNECT, read=READ),
        auth=auth,
        event_hooks={"response": [_bound]},
    )


async def _bound(response: Any) -> None:
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
                if size > MAX_REPLY:
                    raise httpx2.ReadError(f"the reply is larger than {MAX_REPLY >> 20} MB")
                yield chunk

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = Bounded()
