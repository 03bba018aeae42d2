"""The history's SQLite database. Imported only when needed, as importing sqlite3 is slow. D-61."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TypeAlias

from axe_nb.errors import ConfigError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

VERSION = 5000
"""Version of the file format: major version × 1000 + minor version."""

APPLICATION = 0x41584548

COLUMNS = {
    "started": "REAL", "agent": "TEXT", "model": "TEXT", "prompt": "TEXT", "status": "TEXT",
    "runs": "INTEGER", "turns": "INTEGER", "tokens": "INTEGER", "seconds": "REAL", "folder": "TEXT",
    "bytes": "INTEGER", "cost": "REAL", "kind": "TEXT", "within": "INTEGER",
}  # fmt: skip
"""Columns of the `runs` table and their SQL types; each column is a field of `Row`."""

SCHEMA = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, {", ".join(map(" ".join, COLUMNS.items()))}
);
CREATE INDEX runs_by_map ON runs (within);
CREATE TABLE parts (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX parts_by_run ON parts (run);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION}
"""

INSERT = f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"

UPDATE = (
    f"UPDATE runs SET {', '.join(f'{name} = ?' for name in COLUMNS)} WHERE started = ? AND id = ?"
)
"""SQL that updates a run. The start time is checked, as the file may have been replaced by
another."""

MAX_AGE = 90 * 86400.0
"""Age in seconds above which runs are removed."""

MAX_SIZE = 500_000_000
"""Maximum total size of all parts in bytes; the oldest runs are removed first."""

Blob: TypeAlias = bytes  # `Row.bytes` hides the type


@dataclass(eq=False)
class Row:
    """One row of the history: a root run, or a map or grid. Counts include all child runs."""

    started: float = 0.0
    """Start time in seconds since the epoch."""
    agent: str = ""
    model: str = ""
    prompt: str = ""
    """First line of the prompt; for a map or grid, a count of runs and the first run's prompt."""
    status: str = "running"
    runs: int = 0
    """Number of runs in the tree, or in all trees of a map or grid."""
    turns: int = 0
    tokens: int = 0
    seconds: float = 0.0
    bytes: int = 0
    cost: float | None = None
    """Cost of the tree in US dollars; None if unknown."""
    kind: str = ""
    """`map` or `grid`; empty for a single run."""
    folder: str = ""
    within: int = 0
    """Id of the map or grid that contains the run; 0 if there is none."""
    above: Row | None = None
    """Row of the map or grid that contains the run; its id becomes `within` on writing."""
    id: int = 0
    """Id of the row; 0 until the row is written to the file."""
    parts: list[Blob] = field(default_factory=list)
    """Parts that have not been written yet."""
    replaces: bool = False
    """True if `parts` replace all parts already in the file."""
    lock: int = -1
    """File descriptor of the lock that marks the run as running; -1 if the lock is not held."""


class Store:
    """An open history file, for use by a single thread."""

    def __init__(self, path: Path, *, writes: bool = False) -> None:
        """Opens the file at `path`; a missing file is created if `writes` is true.

        Raises ConfigError if the file is not a history of a supported version.
        """
        self.path = path
        if writes:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            path.chmod(0o600)
        self._connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, timeout=5.0, isolation_level=None
        )
        try:
            self._connection.execute("PRAGMA trusted_schema = off")
            self._connection.execute("PRAGMA synchronous = normal")
            self._connection.execute("PRAGMA secure_delete = on")
            self._connection.create_function("fold", 1, str.casefold, deterministic=True)
            self._connection.create_function("basename", 1, os.path.basename)
            self.has_tables = self._check_version()
            """False if the file was empty when it was opened."""
            if writes:
                with suppress(sqlite3.OperationalError):  # another process may do the same now
                    self._connection.execute("PRAGMA journal_mode = wal")
            if writes and not self.has_tables:
                with self._transaction():
                    if not self._check_version():  # another process may have been first
                        for statement in SCHEMA.split(";"):
                            self._connection.execute(statement)
        except BaseException:
            self._connection.close()
            raise
        self._file = path.stat()

    @property
    def is_gone(self) -> bool:
        """True if the file at the path was deleted, moved or replaced."""
        try:
            return not os.path.samestat(self.path.stat(), self._file)
        except OSError:
            return True

    def close(self) -> None:
        self._connection.close()

    def _check_version(self) -> bool:
        """Checks the version of the file; returns False if the file is empty.

        Raises ConfigError if the file is not a history, or its version is not supported.
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

    def write(self, rows: Iterable[Row]) -> list[Row]:
        """Writes rows and their parts in one transaction. Returns rows that others have deleted."""
        rows, lost = list(rows), []
        new = [row for row in rows if not row.id]
        try:
            with self._transaction():
                for row in rows:
                    row.within = row.above.id if row.above else row.within
                    values = [getattr(row, name) for name in COLUMNS]
                    if not row.id:
                        row.id = self._connection.execute(INSERT, values).lastrowid or 0
                        row.lock = os.open(self._find_lock(row.id), os.O_RDWR | os.O_CREAT, 0o600)
                        _try_lock(row.lock)
                    elif not self._connection.execute(
                        UPDATE, (*values, row.started, row.id)
                    ).rowcount:
                        lost.append(row)
                        continue
                    if row.replaces:
                        self._connection.execute("DELETE FROM parts WHERE run = ?", (row.id,))
                    self._connection.executemany(
                        "INSERT INTO parts (run, content) VALUES (?, ?)",
                        [(row.id, part) for part in row.parts],
                    )
        except BaseException:
            for row in new:
                self.release(row)
                row.id = 0
            raise
        for row in rows:
            row.parts.clear()
        return lost

    def list_rows(
        self,
        words: Iterable[str] = (),
        statuses: Iterable[str] = (),
        since: float = 0.0,
        until: float = inf,
        within: int = 0,
    ) -> Iterator[Row]:
        """Yields rows, newest first, whose agent, model, prompt and project contain all words.

        Case is ignored. A map or grid is a row if it or one of its runs matches; `within`, its id,
        yields its runs instead.
        """
        tests = ["started >= ? AND started < ?"]
        values: list[object] = [since, until]
        for word in words:
            fields = "agent, model, prompt, basename(folder)"
            tests.append(f"instr(fold(printf('%s\n%s\n%s\n%s', {fields})), ?)")
            values.append(word.casefold())
        if statuses := tuple(statuses):
            tests.append(f"status IN ({', '.join('?' * len(statuses))})")
            values.extend(statuses)
        matches = " AND ".join(tests)
        if not within and len(tests) > 1:
            matches = f"({matches} OR id IN (SELECT within FROM runs WHERE {matches}))"
            values *= 2
        return self._select(f"WHERE {matches} AND within = ? ORDER BY id DESC", *values, within)

    def find_row(self, number: int) -> Row | None:
        return next(self._select("WHERE id = ?", number), None)

    def _select(self, clauses: str, *values: object) -> Iterator[Row]:
        names = (*COLUMNS, "id")
        found = self._connection.execute(f"SELECT {', '.join(names)} FROM runs {clauses}", values)
        return (Row(**dict(zip(names, one, strict=True))) for one in found)

    def list_parts(self, number: int) -> list[Blob]:
        found = self._connection.execute(
            "SELECT content FROM parts WHERE run = ? ORDER BY id", (number,)
        )
        return [content for (content,) in found]

    def prune(self, max_age: float = MAX_AGE, max_size: int = MAX_SIZE) -> None:
        """Removes finished runs older than `max_age`, and the oldest ones beyond `max_size`."""
        found = self._connection.execute(
            "SELECT id FROM (SELECT id, started, sum(bytes) OVER (ORDER BY id DESC) AS size"
            " FROM runs) AS old WHERE (started < ? OR size > ?)"
            " AND NOT EXISTS (SELECT 1 FROM runs WHERE within = old.id) ORDER BY id",
            (time.time() - max_age, max_size),
        )
        self._remove([number for (number,) in found if not self.is_running(number)])

    def delete(self, number: int) -> None:
        """Removes a run, or a map or grid with its runs, and erases the data from the file."""
        self._remove([number, *(row.id for row in self.list_rows(within=number))])
        self._connection.execute("PRAGMA wal_checkpoint(truncate)").fetchall()

    def _remove(self, numbers: Iterable[int]) -> None:
        ids = [(number,) for number in numbers]
        with self._transaction():
            self._connection.executemany("DELETE FROM parts WHERE run = ?", ids)
            self._connection.executemany("DELETE FROM runs WHERE id = ?", ids)

    def _find_lock(self, number: int) -> Path:
        return self.path.with_suffix(f".{number}.lock")

    def is_running(self, number: int) -> bool:
        """True if a run has not ended and its process is alive."""
        path = self._find_lock(number)
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            return False
        is_free = _try_lock(handle)
        os.close(handle)
        if is_free:
            path.unlink(missing_ok=True)
        return not is_free

    def release(self, row: Row) -> None:
        if row.lock >= 0:
            os.close(row.lock)
            row.lock = -1
            with suppress(OSError):
                self._find_lock(row.id).unlink()


def _try_lock(handle: int) -> bool:
    """Locks an open file until it is closed or the process exits; False if it is already locked."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
