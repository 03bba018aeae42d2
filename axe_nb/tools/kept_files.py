"""Storage of the old contents of files that tools change, so that a run can be undone.

Each root run has a folder in the user's state folder, with the old contents of files and an `index`
with one line per write. Source: D-84.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from axe_nb.agents.files import reason
from axe_nb.agents.user_config import state_dir
from axe_nb.conversion.records import from_json
from axe_nb.errors import ConfigError
from axe_nb.paths import Names, open_real_file
from axe_nb.text import list_some, one_line, printable

MAX_RUN = 100_000_000
ID = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")  # id of a run; ids sort by time


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Record of a write to a file; only the first write to a path stores the old content."""

    root: str
    path: str
    """Path relative to `root`, without symbolic links."""
    mode: int | None = None
    """Permission bits before the write; None if the file did not exist."""
    before: str = ""
    """Digest of the old content; empty if unknown."""
    after: str
    kept: str = ""
    """Name of the stored file with the old content; empty if the content was not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    first: Write
    written: frozenset[str]
    """Digests of all contents that the run wrote to the file."""
    is_mixed: bool
    """True if something else changed the file between two writes of the run."""


@dataclass(slots=True)
class KeptFiles:
    """Stores the old contents of files that the tools of a root run change; not thread-safe."""

    is_quiet: bool = False
    """True if problems with the state folder cause no warnings, as in tests."""
    id: str = field(default_factory=lambda: f"{time.time_ns():016x}-{os.urandom(4).hex()}")
    is_used: bool = False
    """True once a write was recorded, so that there is something to undo."""
    _seen: set[str] = field(default_factory=set)
    _lost: dict[str, str] = field(default_factory=dict)
    """File path → reason why the old content was not stored."""
    _size: int = 0

    def keep(self, names: Names, new: bytes) -> None:
        """Stores the old content of a file before a write; a failure only adds a warning.

        `new` is the content to write.
        """
        path, name = names.path, str(names.real)
        write = Write(root=str(names.folder), path=path, after=digest(new))
        try:
            folder = _home() / self.id
            if not self.is_used:
                folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                size = 0
                for other in sorted(folder.parent.iterdir(), reverse=True):
                    with suppress(OSError):  # another process may remove it
                        size += sum(path.stat().st_size for path in other.iterdir())
                    if size > 1_000_000_000:  # total of all runs; the oldest are removed
                        forget_kept(other.name)
                folder.mkdir(mode=0o700)
                self.is_used = True
            if names.real.exists():
                with os.fdopen(open_real_file(names.real), "rb") as file:
                    mode, data = os.fstat(file.fileno()).st_mode, file.read(MAX_RUN + 1)
                before = digest(data) if len(data) <= MAX_RUN else ""
                write = replace(write, mode=stat.S_IMODE(mode), before=before)
                if name in self._seen:
                    pass  # undo restores the first content
                elif self._size + len(data) > MAX_RUN:
                    self._lost[path] = f"one run keeps at most {MAX_RUN // 1_000_000} MB"
                else:
                    write = replace(write, kept=str(len(self._seen)))
                    _append(folder / write.kept, data)
                    self._size += len(data)
            _append(folder / "index", json.dumps(asdict(write)).encode() + b"\n")
        except (OSError, ValueError) as error:  # ValueError: a lone surrogate in a name
            if not self.is_quiet:
                self._lost[path] = reason(error)
        self._seen.add(name)

    def describe_lost(self) -> Iterator[str]:
        """Yields a warning for each reason why old contents were not stored."""
        for why in dict.fromkeys(self._lost.values()):
            paths = [path for path, its in self._lost.items() if its == why]
            names = list_some([one_line(printable(path), 200) for path in paths], 3)
            whose = "its" if len(paths) == 1 else "their"
            yield f"{names} cannot be undone: {whose} old content was not kept ({why})"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_kept(run: str) -> list[KeptFile] | None:
    """Returns the files that a run changed, or None if no undo data is stored for the run.

    `run` is the run's undo id. Raises ConfigError if the stored index cannot be read.
    """
    if not ID.fullmatch(run) or not (folder := _home() / run).is_dir():
        return None
    by_file: dict[tuple[str, str], list[Write]] = {}
    try:
        lines = (folder / "index").read_bytes().split(b"\n")[:-1]  # the last one may be cut off
        for line in lines:
            write = from_json(Write, json.loads(line))
            by_file.setdefault((write.root, write.path), []).append(write)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, ConfigError) as error:
        problem = getattr(error, "message", "") or one_line(str(error), 200)
        raise ConfigError(f"the undo data of this run cannot be read: {problem}") from None
    files = []
    for writes in by_file.values():
        known, is_mixed = {writes[0].before}, False
        for write in writes:
            is_mixed |= write.mode is not None and write.before not in known
            known.add(write.after)
        written = frozenset(write.after for write in writes)
        files.append(KeptFile(first=writes[0], written=written, is_mixed=is_mixed))
    return files


def read_content(run: str, file: KeptFile) -> bytes | None:
    """Returns the stored old content of a file, or None if it is missing or damaged."""
    try:
        data = (_home() / run / file.first.kept).read_bytes()
    except (OSError, ValueError):
        return None
    return data if digest(data) == file.first.before else None


def forget_kept(run: str) -> None:
    if ID.fullmatch(run):
        shutil.rmtree(_home() / run, ignore_errors=True)


def _home() -> Path:
    return state_dir() / "undo"


def _append(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        file.write(data)
