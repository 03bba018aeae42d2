"""The results of the runs of grids and maps, by key, in a SQLite file beside the history.

It is a separate file so that ten thousand runs of a map push no other run out of the history. Each
result is written when its run ends, so it survives the process.
Imported on first use, since sqlite3 is.
Source: product.md "Exploring" (`resume=`), "Runs are recordings" (History); D-60, D-61.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from axe_nb.agents.config import state_dir
from axe_nb.run_history.store import MAX_AGE, MAX_SIZE, Store
from axe_nb.run_history.writer import find_locks

SCHEMA = """
    CREATE TABLE results (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        at REAL NOT NULL,
        content TEXT NOT NULL
    );
    CREATE INDEX results_by_key ON results (key)
"""

REMOVED_AT_ONCE = 50
"""Results removed in one transaction, so that other processes need not wait long."""


def results_path() -> Path:
    """Returns the path of the file; it need not exist."""
    return state_dir() / "maps.sqlite"


class MapResults(Store):
    """The open file; the caller makes sure that one thread at a time uses it."""

    def __init__(self, path: Path) -> None:
        """Opens the file, which is made and updated, and removes what is too old.

        Raises:
            OSError: it cannot be opened.
            sqlite3.Error: it is damaged, locked, or no database.
            ConfigError: it is none of ours, or of a later major version.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path, find_locks(path), SCHEMA)

    def has_any(self) -> bool:
        """True if it has a result."""
        return self._connection.execute("SELECT 1 FROM results LIMIT 1").fetchone() is not None

    def find(self, key: str, after: int) -> tuple[int, object] | None:
        """Returns the number and the text of the first result of a key behind a number."""
        found: tuple[int, object] | None = self._connection.execute(
            "SELECT id, content FROM results WHERE key = ? AND id > ? ORDER BY id LIMIT 1",
            (key, after),
        ).fetchone()
        return found

    def add(self, key: str, content: str) -> int:
        """Adds a result; returns its number."""
        number = self._connection.execute(
            "INSERT INTO results (key, at, content) VALUES (?, ?, ?)", (key, time.time(), content)
        ).lastrowid
        assert number is not None
        return number

    def wait_for_others(self, seconds: float) -> None:
        """Sets how long each further call waits for another process that writes."""
        self._connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def forget(self, keys: Iterable[str]) -> None:
        """Removes the results of these keys."""
        with self._transaction():
            self._connection.executemany(
                "DELETE FROM results WHERE key = ?", ((key,) for key in keys)
            )

    def prune(self, max_age: float = MAX_AGE, max_size: int = MAX_SIZE) -> None:
        """Removes the results that are too old, and the oldest ones if the file is too large."""
        run = self._connection.execute
        while True:
            (size,) = run(
                "SELECT (page_count - freelist_count) * page_size"
                " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
            ).fetchone()
            with self._transaction():
                removed = run(
                    "DELETE FROM results WHERE id IN (SELECT id FROM"
                    " (SELECT id, at FROM results ORDER BY id LIMIT ?) WHERE at < ? OR ?)",
                    (REMOVED_AT_ONCE, time.time() - max_age, size > max_size),
                ).rowcount
            if removed < REMOVED_AT_ONCE:
                break
        run("PRAGMA incremental_vacuum").fetchall()
