"""A resume file: the results of runs, one a line, each appended as its run ends.

The first line is a header (D-61), each other one JSON: the key of the run, its status, its result.
Several processes and threads may append at once. A line that a killed process left half-written, or
that cannot be read, counts as not there. Results are read one by one, when they are needed.

The key is a hash of all that a run is asked: the agent with its options, its skill and context
files, what it tells the model of its tools, the agents below it, and the prompt. It leaves out what
only bounds or shows a run (`timeout`, `stream`, `concurrency`, budgets, expectations), and the code
of tools and scripts.
Source: D-60, D-61, D-75.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NoReturn

from axe_nb.agents.agent import Agent
from axe_nb.agents.data_files import check_header, format_header
from axe_nb.agents.files import display_path, expand_home, reason
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.own_text import shown_value
from axe_nb.conversion.records import to_json
from axe_nb.conversion.toml_tables import make_table
from axe_nb.engine.plan import Plan
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.pictures.picture import Picture
from axe_nb.providers.reply_errors import is_used_up
from axe_nb.results import RunResult
from axe_nb.secrets import find_filter
from axe_nb.session.overrides import Overrides
from axe_nb.text import one_line

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SIZE = 16
"""Bytes of a hash: two of a million runs agree with a chance of less than 1 in 10^26."""

SYNC = 1.0
"""Seconds; results appended longer ago survive a loss of power."""

FAR = 1 << 62
"""The byte that is locked on Windows, where locked bytes cannot be read."""

NOT_FINISHED = ("timeout", "cancelled")
"""Statuses of runs that are asked again."""

OF_THE_REQUEST = (None, 400, 413, 422)
"""HTTP statuses of errors that lie in the request; others, such as 404, may lie in the settings."""

_START = re.compile(rb'\{"key":"([0-9a-f]{1,64})","status":"([a-z_]{1,20})","result":\{')

UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError)


class ResumeFile:
    """The file, and the runs that were in it when it was opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the file, which is made if there is none, and looks through it.

        Raises:
            ConfigError: it is not such a file, or cannot be read or written.
        """
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise ConfigError(f"resume takes the path of a file, not {shown_value(path)}")
        self._path = expand_home(os.fspath(path))
        self._lock = threading.Lock()
        self._found: dict[bytes, list[int]] = {}
        """Key → where the lines with its results begin, the last one first."""
        self._synced_at = time.monotonic()
        self.problem = ""
        """The reason that a result could not be appended; empty = all were."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            handle = os.open(self._path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
        except (OSError, ValueError) as error:
            self._fail("open", error)
        self._out = os.fdopen(handle, "ab", buffering=0)
        self._file: BinaryIO = self._out
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "it is not a file")
            self._file = self._path.open("rb")  # with a position of its own
            with self._hold():
                self._read_header()
            self._note_lines()
        except OSError as error:
            self.close()
            self._fail("read", error)
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        if hasattr(self, "_out"):  # a map that was never begun
            self._out.close()
            self._file.close()

    @property
    def has_results(self) -> bool:
        """True if it has results of finished runs that were not taken yet."""
        return any(self._found.values())

    def take(self, key: str) -> RunResult | None:
        """Returns the result of a finished run that was not taken yet; None = there is none."""
        with self._lock:
            places = self._found.get(bytes.fromhex(key), [])
            while places:
                with contextlib.suppress(*UNREADABLE):  # a damaged line: its run begins anew
                    self._file.seek(places.pop())
                    result = RunResult.from_dict(json.loads(self._file.readline())["result"])
                    if is_final(result):
                        return result
        return None

    def append(self, key: str, result: RunResult) -> None:
        """Appends a result without its secrets; a problem is kept, as the run goes on anyway."""
        try:
            data = to_json(result, find_filter())
            text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
            line = f'{{"key":"{key}","status":"{result.status}","result":{text}}}\n'
            with self._lock, self._hold():
                self._write(line.encode())
        except UNREADABLE as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            self.problem = f"{self._show()} is missing results: {one_line(why, 200)}"

    def close(self) -> None:
        """Closes the file; what was appended is on its way to the disk."""
        with self._lock:
            if not self._out.closed:
                with contextlib.suppress(OSError):
                    os.fsync(self._out.fileno())
            self._out.close()
            self._file.close()

    def _read_header(self) -> None:
        kind = format_header("runs").encode()
        first = self._file.readline(1000)
        if first != kind[: len(first)]:  # else it is ours, or the rest was never written
            check_header(self._path, "runs", first.decode("utf-8", "replace"))
        else:
            self._out.write(kind[len(first) :])
        self._file.seek(max(len(first), len(kind)))

    def _note_lines(self) -> None:
        """Notes where the results of finished runs are; a line without its end is none."""
        at = self._file.tell()
        for line in self._file:
            start = _START.match(line)
            if start and line.endswith(b"\n") and start[2].decode() not in NOT_FINISHED:
                with contextlib.suppress(ValueError):  # no key of ours
                    self._found.setdefault(bytes.fromhex(start[1].decode()), []).append(at)
            at += len(line)
        for places in self._found.values():
            places.reverse()

    def _write(self, line: bytes) -> None:
        """Appends a line, also behind one that a process did not write to its end."""
        if end := self._file.seek(0, os.SEEK_END):
            self._file.seek(end - 1)
            line = line if self._file.read(1) == b"\n" else b"\n" + line
        rest = memoryview(line)
        while rest:
            rest = rest[self._out.write(rest) :]
        if time.monotonic() - self._synced_at >= SYNC:
            os.fsync(self._out.fileno())
            self._synced_at = time.monotonic()

    @contextlib.contextmanager
    def _hold(self) -> Iterator[None]:
        """Keeps other processes from writing, where the file system has locks."""
        self._try_lock(is_end=False)
        try:
            yield
        finally:
            self._try_lock(is_end=True)

    def _try_lock(self, *, is_end: bool) -> None:
        handle = self._out.fileno()
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                os.lseek(handle, FAR, os.SEEK_SET)
                msvcrt.locking(handle, msvcrt.LK_UNLCK if is_end else msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(handle, fcntl.LOCK_UN if is_end else fcntl.LOCK_EX)

    def _show(self) -> str:
        return one_line(display_path(self._path), 300)

    def _fail(self, verb: str, error: Exception) -> NoReturn:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot {verb} the resume file {self._show()}: {why}") from None


def is_final(result: RunResult) -> bool:
    """True if the run completed, or would fail again; False = it is asked again (D-75).

    What would fail again is a request that the server rejects for its content, and a run that
    reached one of its limits.
    """
    cause: Any = result.cause
    if result.status in NOT_FINISHED or (
        cause is not None and not isinstance(cause, ProviderError)
    ):
        return False  # the latter has not begun, or was lost
    if cause is None or cause.category == "refusal":
        return True
    is_of_request = cause.category == "bad_request" and cause.status in OF_THE_REQUEST
    return is_of_request and not cause.retryable and not is_used_up(cause.detail)


async def compute_digest(plan: Plan, overrides: Overrides) -> bytes:
    """Returns the hash of all that the runs of a map have in common."""
    output = plan.output
    parts = {
        "agent": _describe(plan.agent),
        "system": plan.briefing.system,
        "pictures": [picture.digest for _, picture in plan.briefing.pictures],
        "tools": [[s.name, s.description, s.input_schema()] for s in plan.toolset.offered],
        "output": output and [output.sent, output.is_wrapped],
        "model_all": overrides.model_all,
        "vars": overrides.vars,
        "below": await _describe_below(plan),
    }
    return _hash(parts)


def compute_key(common: bytes, text: str, pictures: Sequence[Picture] = ()) -> str:
    """Returns the key of one run in a resume file."""
    own = _hash([text, [picture.digest for picture in pictures]])
    return hashlib.blake2b(common + own, digest_size=SIZE).hexdigest()


def _describe(agent: Agent) -> Any:
    table = make_table(agent)
    return {key: table[key] for key in table.keys() - {"description", "retry", "stream"}}


async def _describe_below(plan: Plan) -> dict[str, Any]:
    """The agents that can be called below the root, as they were read when the map began."""
    env = plan.scope.env
    names, found = list(plan.agent.sub_agents), dict[str, Any]()
    while names:
        name = names.pop()
        if name in found:
            continue
        try:
            agent = env.as_child(env.agents.load(name))
            briefing = await env.agents.brief(agent)
        except ConfigError as error:
            found[name] = str(error)
            continue
        pictures = [picture.digest for _, picture in briefing.pictures]
        found[name] = [_describe(agent), briefing.system, pictures]
        names += agent.sub_agents
    return found


def _hash(parts: Any) -> bytes:
    text = json.dumps(jsonable(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=SIZE).digest()
