"""A resume file: the results of runs, one a line, each appended as its run ends.

The first line is a header (D-61), each other one JSON: the key of the run, its status, its result.
Several processes and threads may append at once: each takes what the others have appended. A line
that a killed process left half-written, or that cannot be read, counts as not there. Results are
read again one by one, when they are needed.
Source: product.md "Exploring" (`resume=`); D-60, D-61; cluster-facts.md §5.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from axe_nb.agents.files import display_path, expand_home, reason
from axe_nb.conversion.own_text import shown_value
from axe_nb.data_files import MAX_BYTES, check_header, format_header
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.providers.error_bodies import is_used_up
from axe_nb.results import RunResult
from axe_nb.text import one_line

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MAX_LINES = 1_000_000
"""Results of one file."""

SYNC = 1.0
"""Seconds; results appended longer ago survive a loss of power."""

FAR = 1 << 62
"""The byte that is locked on Windows, where locked bytes cannot be read."""

NOT_FINISHED = ("timeout", "cancelled")
"""Statuses of runs that are asked again."""

OF_THE_REQUEST = (None, 400, 413, 422)
"""HTTP statuses of errors that lie in the request; others, such as 404, may lie in the settings."""

_START = re.compile(rb'\{"key":"([0-9a-f]{1,64})","status":"([a-z_]{1,20})","result":\{')


class ResumeFile:
    """The file, and the runs in it that were not used yet."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the file, which is made if there is none, and looks through it.

        Raises:
            ConfigError: it is not such a file, or cannot be read or written.
        """
        self._handle = -1
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise ConfigError(f"resume takes the path of a file, not {shown_value(path)}")
        self._path = expand_home(os.fspath(path))
        self._lock = threading.RLock()
        self._found: dict[str, deque[tuple[int, int]]] = {}
        """Key of a finished run → (position, size) of the lines with its results."""
        self._lines = self._end = self._size = 0
        """Lines that were noted; where the next one begins; the size when it was read last."""
        self._is_torn = False
        """True if its last line is not complete."""
        self._synced_at = time.monotonic()
        self.problem = ""
        """The reason that a result could not be appended; empty = all were."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            self._handle = os.open(self._path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
        except (OSError, ValueError) as error:
            self._fail("open", error)
        try:
            with self._hold():
                self._begin()
        except OSError as error:
            self.close()
            self._fail("read", error)
        except BaseException:
            self.close()
            raise

    @property
    def has_results(self) -> bool:
        """True if it has results of finished runs that were not taken yet."""
        return any(self._found.values())

    def take(self, key: str) -> RunResult | None:
        """Returns the result of a finished run that was not taken yet; None = there is none."""
        with self._lock:
            self._read_more()
            places = self._found.get(key)
            while places:
                position, size = places.popleft()
                try:
                    os.lseek(self._handle, position, os.SEEK_SET)  # writing always appends
                    result = read_result(_read(self._handle, size))
                except (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError):
                    continue  # a damaged line: its run begins anew
                if is_final(result):
                    return result
        return None

    def append(self, key: str, result: RunResult) -> None:
        """Appends a result without its secrets; a problem is kept, as the run goes on anyway."""
        try:
            line = format_result(key, result).encode()
            with self._lock, self._hold():
                self._read_more()
                self._write(line)
        except (OSError, ValueError, RecursionError, ConfigError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            self.problem = f"{_show(self._path)} is missing results: {one_line(why, 200)}"

    def __del__(self) -> None:
        if self._handle >= 0:  # a map that was never begun
            self.close()

    def close(self) -> None:
        """Closes the file; what was appended is on its way to the disk."""
        with self._lock:
            handle, self._handle = self._handle, -1
            if handle < 0:
                return
            with contextlib.suppress(OSError):
                os.fsync(handle)
            os.close(handle)

    def _begin(self) -> None:
        kind = format_header("runs")
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        if not os.fstat(self._handle).st_size:
            os.write(self._handle, kind.encode())
        with self._open() as file:
            file.seek(0)
            first = file.readline(1000)
        if first != kind.encode()[: len(first)]:  # else it is ours, or the rest was never written
            check_header(self._path, "runs", first.decode("utf-8", "replace"))
        elif not first.endswith(b"\n"):
            os.write(self._handle, kind.encode()[len(first) :])
            first = kind.encode()
        self._end = len(first)
        self._read_more()

    def _open(self) -> Any:
        return os.fdopen(os.dup(self._handle), "rb")

    def _read_more(self) -> None:
        """Notes the lines that were added since, here or by others."""
        size = os.fstat(self._handle).st_size
        if size in (self._end, self._size):
            return
        self._size = size
        with self._open() as file:
            file.seek(self._end)
            while line := file.readline(MAX_BYTES + 1):
                self._is_torn = not line.endswith(b"\n")
                if self._is_torn and len(line) <= MAX_BYTES:
                    return  # someone writes it just now, or was killed meanwhile
                self._note(line)
                self._end += len(line)

    def _note(self, line: bytes) -> None:
        start = _START.match(line)
        if start is not None and start[2].decode() not in NOT_FINISHED and self._lines < MAX_LINES:
            self._lines += 1
            places = self._found.setdefault(start[1].decode(), deque())
            places.append((self._end, len(line)))

    def _write(self, line: bytes) -> None:
        """Appends a line whose result is not looked for again; under the lock."""
        whole = b"\n" + line if self._is_torn else line
        at = os.lseek(self._handle, 0, os.SEEK_END)
        rest = memoryview(whole)
        while rest:
            rest = rest[os.write(self._handle, rest) :]
        self._is_torn, self._end = False, at + len(whole)
        if time.monotonic() - self._synced_at >= SYNC:
            os.fsync(self._handle)
            self._synced_at = time.monotonic()

    @contextlib.contextmanager
    def _hold(self) -> Iterator[None]:
        """Keeps other processes from writing, where the file system has locks."""
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                os.lseek(self._handle, FAR, os.SEEK_SET)
                msvcrt.locking(self._handle, msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if sys.platform == "win32":
                    os.lseek(self._handle, FAR, os.SEEK_SET)
                    msvcrt.locking(self._handle, msvcrt.LK_UNLCK, 1)
                else:
                    fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _fail(self, verb: str, error: Exception) -> NoReturn:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot {verb} the resume file {_show(self._path)}: {why}") from None


def is_final(result: RunResult) -> bool:
    """True if the run completed, or would fail again; False = it is asked again (D-75).

    What would fail again is a request that the server rejects for its content, and a run that
    reached one of its limits.
    """
    cause = result.cause
    if result.status in NOT_FINISHED or (
        cause is not None and not isinstance(cause, ProviderError)
    ):
        return False  # the latter has not begun, or was lost
    if cause is None or cause.category == "refusal":
        return True
    is_of_request = cause.category == "bad_request" and cause.status in OF_THE_REQUEST
    return is_of_request and not cause.retryable and not is_used_up(cause.detail)


def format_result(key: str, result: RunResult) -> str:
    """Returns a result without its secrets as a line.

    Raises:
        ConfigError: it is too large.
        ValueError, RecursionError: it has no form in JSON.
    """
    data = result.to_dict_without_secrets()
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    line = f'{{"key":"{key}","status":"{result.status}","result":{text}}}\n'
    if len(line) > MAX_BYTES:
        raise ConfigError(f"a result is larger than {MAX_BYTES} bytes")
    return line


def read_result(line: str | bytes) -> RunResult:
    """Returns the result of a line.

    Raises:
        ValueError, KeyError, TypeError, RecursionError, ConfigError: it is damaged.
    """
    return RunResult.from_dict(json.loads(line)["result"])


def _read(handle: int, size: int) -> bytes:
    parts = []
    while size > 0 and (part := os.read(handle, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _show(path: Path) -> str:
    return one_line(display_path(path), 300)
