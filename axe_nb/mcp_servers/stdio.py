"""Messages to and from a server that is started here: lines of JSON over its input and output.

The package's own transport starts the program itself, without a sandbox.
Source: D-82.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

from axe_nb.sandbox.find import Sandbox
from axe_nb.sandbox.process import Process
from axe_nb.threads import in_thread

T = TypeVar("T")

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message; a server that sends a longer one is ended."""

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

ERROR = re.compile(rb"\s*[\w.]{0,99}(Error|Exception)\b.{0,99}: ")
"""Beginning of a line that names an error."""


@dataclass(slots=True)
class Words:
    """The output of a server beside its messages, for errors."""

    errors: bytes = b""
    """The end of its standard error."""
    stray: bytes = b""
    """Its last line of standard output that could not be read as a message."""
    fault: str = ""
    """The reason that it was ended, if it was."""
    process: Process | None = field(default=None, repr=False)

    @property
    def last(self) -> str:
        """The last line of standard error, else the stray one; the error itself if one names it."""
        lines = [line for line in self.errors.splitlines() if line.strip()] or [self.stray]
        named = [line for line in lines if ERROR.match(line)]  # Node.js says more after it
        return (named or lines)[-1].decode("utf-8", "replace").strip()


@asynccontextmanager
async def open_process(
    sandbox: Sandbox,
    command: Sequence[str],
    environment: Mapping[str, str],
    words: Words,
    lose: Callable[[], object],
) -> AsyncIterator[Any]:
    """Starts a server; yields the streams of its messages, and ends it with all that it started.

    Args:
        sandbox: the way to start it.
        environment: all of its environment variables.
        words: receives what it writes.
        lose: called on the event loop when the server has ended, or its output has.
    """
    process = _Process(words, lose)
    process.start(sandbox, command, environment)
    try:
        yield process.from_server, process.from_session
    finally:
        await process.close()


class _Process:
    """A server that runs, with the threads and tasks that move its messages."""

    def __init__(self, words: Words, lose: Callable[[], object]) -> None:
        import anyio

        self.to_session, self.from_server = anyio.create_memory_object_stream[Any](0)
        self.from_session, self.to_server = anyio.create_memory_object_stream[Any](0)
        self._gone = (anyio.ClosedResourceError, anyio.BrokenResourceError)
        self._loop = asyncio.get_running_loop()
        self._words, self._lose = words, lose
        self._asked = 0
        """Requests of the server whose answers are not written yet."""

    def start(
        self, sandbox: Sandbox, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Starts the server, the threads and the tasks."""
        (stdin, ours), (messages, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._pipe = _Pipe(ours)
        self._program = sandbox.start(command, environment, (stdin, stdout, stderr))
        self._words.process = self._program
        last = _start_thread(lambda: _keep_end(errors, self._words))
        _start_thread(lambda: self._read(messages, last))
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._watch())]

    async def close(self) -> None:
        """Ends the server: its input first, after a while all of it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self.from_server.close()
        is_over = self._pipe.close() and await in_thread(self._program.wait, GRACE)
        if not is_over:
            self._program.kill()
            await in_thread(self._program.wait, PATIENCE)
            self._pipe.close()
        for stream in (self.to_session, self.from_session, self.to_server):
            stream.close()

    def _read(self, number: int, last: threading.Thread) -> None:
        """Passes on the server's messages; runs in a thread beside the one of its last words."""
        with open(number, "rb") as file:
            for message in _read_messages(file, self._words):
                if not _run_on(self._loop, self._deliver(message)):
                    break
            if self._words.fault:
                self._program.kill()
            last.join(GRACE)  # another program may hold its standard error open
            _run_on(self._loop, self._end())
            while file.read1(CHUNK):  # else a server that still writes would not end
                pass

    async def _deliver(self, message: Any) -> bool:
        is_request = hasattr(message.message, "method") and hasattr(message.message, "id")
        self._asked += is_request
        if self._asked > MAX_ASKED:
            self._words.fault = f"it sent {MAX_ASKED} requests without reading an answer"
            return False
        try:
            await self.to_session.send(message)
        except self._gone:
            return False
        return True

    async def _write(self) -> None:
        with contextlib.suppress(OSError):
            async for message in self.to_server:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await in_thread(self._pipe.write, line.encode() + b"\n")
                self._asked -= not hasattr(message.message, "method")
        await self._end()

    async def _watch(self) -> None:
        await in_thread(self._program.wait)
        await asyncio.sleep(2 * GRACE)  # another program may hold its output open
        await self._end()

    async def _end(self) -> None:
        self.to_session.close()
        self._lose()


def _start_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="axe-nb-mcp-pipe", daemon=True)
    thread.start()
    return thread


def _read_messages(file: BinaryIO, words: Words) -> Iterator[Any]:
    """Yields the messages of a server; sets the fault of one that sends too much."""
    import mcp_types
    from mcp.shared.message import SessionMessage

    for count in itertools.count(1):
        line = file.readline(MAX_MESSAGE + 1)
        if len(line) > MAX_MESSAGE:
            words.fault = f"it sent a message larger than {MAX_MESSAGE >> 20} MB"
        if not line or words.fault:
            return
        if count % BURST == 0:
            time.sleep(PAUSE)
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValueError, RecursionError):
            if not line.strip():
                continue
            words.stray = line[:KEPT]
            found = ID.search(line[:CHUNK])
            if found is None:
                continue
            message = _make_unreadable(int(found[1]))
        yield SessionMessage(message)


def _make_unreadable(number: int) -> Any:
    """Returns an error that stands in for an unreadable answer, so that its caller need not wait.

    A wrong id in the line harms only the server itself.
    """
    import mcp_types

    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message="the answer could not be read")
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=number, error=error)


def _keep_end(number: int, words: Words) -> None:
    with open(number, "rb") as file:
        while chunk := file.read1(CHUNK):
            words.errors = (words.errors + chunk)[-KEPT:]


def _run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T | None:
    """Runs a coroutine on the loop of another thread; None if the loop has ended."""
    try:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    except (RuntimeError, CancelledError):
        work.close()
        return None


class _Pipe:
    """The input of a server, written to by threads, which a server that does not read blocks."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(self._number, view) :]

    def close(self) -> bool:
        """Closes it, or returns false if a thread still writes to it."""
        if not self._lock.acquire(blocking=False):
            return False
        with contextlib.suppress(OSError):
            os.close(self._number)
        self._number = -1
        self._lock.release()
        return True
