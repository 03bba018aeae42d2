"""Rows of the history's file, as they were before they were compressed."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path


def read_rows(path: Path, run: int) -> list[bytes]:
    """The rows of a run in a file."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT content FROM parts WHERE run = ? ORDER BY id", (run,))
        return [content for (content,) in found]


def read_text(path: Path, run: int) -> str:
    """The text of the rows of a run."""
    return "\n".join(zlib.decompress(row).decode() for row in read_rows(path, run))
