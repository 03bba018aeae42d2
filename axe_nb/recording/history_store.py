"""The SQLite file of the history: its tables, versions and limits.

Imported on first use, since sqlite3 is.
Source: D-61.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from axe_nb.errors import ConfigError
from axe_nb.recording.run_locks import RunLocks, identify

VERSION = 2000
"""Major version × 1000 + minor."""

SCHEMA = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started REAL NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    status TEXT NOT NULL,
    runs INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    bytes INTEGER NOT NULL,
    cost REAL
);
CREATE INDEX runs_by_agent ON runs (agent);
CREATE TABLE parts (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    content BLOB NOT NULL
);
CREATE INDEX parts_by_run ON parts (run)
"""

APPLICATION = 0x41584548
"""Marks the file as a history of axe_nb."""

COLUMNS = (
    "started", "agent", "model", "prompt", "status", "runs", "turns", "tokens", "seconds", "bytes",
    "cost",
)  # fmt: skip

BUSY = 5.0
"""Seconds to wait for another process that writes."""

MAX_AGE = 90 * 86400.0
"""Seconds after which runs are removed."""

MAX_SIZE = 500_000_000
"""Maximum size of all texts in bytes; the oldest runs are removed first."""

REMOVED_AT_ONCE = 50
"""Runs removed in one transaction, so that other processes need not wait long."""

NETWORK = re.compile(r"^(?:9p|afs|ceph|cifs|fuse\.|gpfs|lustre|ncpfs|nfs|smb)", re.IGNORECASE)
"""Types of file systems that processes on several machines may share; WAL does not work there."""


Blob: TypeAlias = bytes  # `Row.bytes` hides the type


@dataclass
class Row:
    """One root run, as it is listed."""

    started: float = 0.0
    """Seconds since the epoch."""
    agent: str = ""
    model: str = ""
    prompt: str = ""
    """First line of the prompt."""
    status: str = "running"
    runs: int = 0
    """Runs of the tree; turns and tokens are the tree's too."""
    turns: int = 0
    tokens: int = 0
    seconds: float = 0.0
    bytes: int = 0
    """Size of its parts."""
    cost: float | None = None
    """Price of the tree in US dollars; None if it is unknown."""
    id: int | None = None
    """Id of the run; None = not in the file yet."""
    parts: list[Blob] = field(default_factory=list)
    """Parts that are not in the file yet."""


class Store:
    """An open history file; used by one thread."""

    def __init__(self, path: Path, locks: RunLocks | None) -> None:
        """Opens the file, to write if there are locks, which makes it.

        Raises:
            OSError: it cannot be opened.
            sqlite3.Error: it is damaged, locked, or no database.
            ConfigError: it is not a history, or of another major version.
        """
        self.locks = locks
        self._path = path
        if locks:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            if os.name != "nt" and path.stat().st_mode & 0o077:
                path.chmod(0o600)
        self._connection = sqlite3.connect(
            f"{path.as_uri()}?mode={'rw' if locks else 'ro'}", uri=True, timeout=BUSY,
            isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        try:
            self._connection.execute("PRAGMA trusted_schema = off")
            self.has_tables = self._check_version()
            """False if the file is empty: another process is about to make its tables."""
            if locks:
                self._prepare(path)
            self.file = identify(path)
            """Tells it from another file at the same path."""
        except BaseException:
            self._connection.close()
            raise

    @property
    def is_gone(self) -> bool:
        """True if its path names another file by now, or none: someone has deleted or moved it."""
        return identify(self._path) != self.file

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def _check_version(self) -> bool:
        """Returns False if the file is empty.

        Raises:
            ConfigError: it is not a history, or of another major version.
        """
        (application, version, tables) = self._connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)"
            " FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        if not application and not version and not tables:
            return False
        if application != APPLICATION:
            raise ConfigError("the file is another program's database")
        major = version // 1000
        if major != VERSION // 1000:
            raise ConfigError(
                f"its version is {major}.{version % 1000}, expected {VERSION // 1000}.x",
                hint="update axe-nb" if major > VERSION // 1000 else "delete it, or move it away",
            )
        return True

    def _prepare(self, path: Path) -> None:
        run = self._connection.execute
        if not self.has_tables:
            run("PRAGMA auto_vacuum = incremental")
        _use_journal(self._connection, "delete" if is_on_network(path) else "wal")
        run("PRAGMA synchronous = normal")
        if not self.has_tables:
            with self._transaction():
                if not self._check_version():  # another process may have been first
                    for statement in SCHEMA.split(";"):
                        run(statement)
                    run(f"PRAGMA application_id = {APPLICATION}")
                    run(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    def write(self, rows: Iterable[Row]) -> None:
        """Writes rows and their parts, all or none.

        Raises:
            sqlite3.Error: that was not possible; the rows are as before.
        """
        new: dict[int, Row] = {}
        rows = list(rows)
        try:
            with self._transaction():
                for row in rows:
                    number = row.id
                    if number is None:
                        number = self._insert(row)
                        new[number] = row
                    self._add(number, row)
        except BaseException:
            for number in new:
                self._get_locks().release(number)
            raise
        for number, row in new.items():
            row.id = number
        for row in rows:
            row.parts.clear()

    def knows(self, row: Row) -> bool:
        """True if the file has the row, or does not have it yet; it may be another file by now."""
        found = "SELECT count(*) FROM runs WHERE id = ? AND started = ?"
        values = (row.id, row.started)
        return row.id is None or self._connection.execute(found, values).fetchone() == (1,)

    def _get_locks(self) -> RunLocks:
        assert self.locks, "opened to write"
        return self.locks

    def _insert(self, row: Row) -> int:
        number = self._connection.execute(
            f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})",
            [getattr(row, name) for name in COLUMNS],
        ).lastrowid
        assert number is not None
        self._get_locks().hold(number)
        return number

    def _add(self, number: int, row: Row) -> None:
        self._connection.executemany(
            "INSERT INTO parts (run, content) VALUES (?, ?)", [(number, p) for p in row.parts]
        )
        changes = ", ".join(f"{name} = ?" for name in COLUMNS)
        values = [getattr(row, name) for name in COLUMNS]
        self._connection.execute(f"UPDATE runs SET {changes} WHERE id = ?", (*values, number))

    def list_rows(self, agent: str | None, limit: int) -> list[Row]:
        """Returns the latest rows, newest first."""
        if agent is None:
            return self._select("ORDER BY id DESC LIMIT ?", limit)
        return self._select("WHERE agent = ? ORDER BY id DESC LIMIT ?", agent, limit)

    def find_row(self, number: int) -> Row | None:
        """Returns the row of that id."""
        return next(iter(self._select("WHERE id = ?", number)), None)

    def _select(self, clauses: str, *values: object) -> list[Row]:
        names = (*COLUMNS, "id")
        found = self._connection.execute(f"SELECT {', '.join(names)} FROM runs {clauses}", values)
        return [Row(**dict(zip(names, one, strict=True))) for one in found]

    def list_parts(self, number: int) -> list[Blob]:
        """Returns the parts of a run, in order."""
        found = self._connection.execute(
            "SELECT content FROM parts WHERE run = ? ORDER BY id", (number,)
        )
        return [content for (content,) in found]

    def prune(self, max_age: float = MAX_AGE, max_size: int = MAX_SIZE) -> None:
        """Removes the runs that are too old, and the oldest ones if all are too large."""
        found = self._connection.execute(
            "SELECT id FROM (SELECT id, started, sum(bytes) OVER (ORDER BY id DESC) AS size"
            " FROM runs) WHERE started < ? OR size > ? ORDER BY id",
            (time.time() - max_age, max_size),
        )
        old = [number for (number,) in found if not self._get_locks().is_held(number)]
        for at in range(0, len(old), REMOVED_AT_ONCE):
            with self._transaction():
                for number in old[at : at + REMOVED_AT_ONCE]:
                    self._remove(number)
        if old:
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()

    def delete(self, number: int) -> None:
        """Removes a run, and overwrites its texts in the file."""
        self._connection.execute("PRAGMA secure_delete = on")
        with self._transaction():
            self._remove(number)
        self._connection.execute("PRAGMA incremental_vacuum").fetchall()
        self._connection.execute("PRAGMA wal_checkpoint(truncate)").fetchall()

    def _remove(self, number: int) -> None:
        self._connection.execute("DELETE FROM parts WHERE run = ?", (number,))
        self._connection.execute("DELETE FROM runs WHERE id = ?", (number,))


def _use_journal(connection: sqlite3.Connection, mode: str) -> None:
    """Sets how transactions are kept; the switch may meet other processes that do the same."""
    until = time.monotonic() + BUSY
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def is_on_network(path: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """True if a file lies on a network file system, as far as the system tells."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    real, best = Path(os.path.realpath(path)), ("", "")
    for words in map(str.split, lines):
        if len(words) > 2 and len(words[1]) >= len(best[0]) and real.is_relative_to(words[1]):
            best = words[1], words[2]
    return bool(NETWORK.match(best[1]))
