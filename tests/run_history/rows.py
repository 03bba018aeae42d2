"""Rows of the history's file, as they were before they were compressed."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from axe_nb.run_history.log import SUM, TAIL


def inflate(rows: Iterable[object]) -> str:
    """The text of the rows of one run; bytes that are not UTF-8 are half characters."""
    text, stream = "", zlib.decompressobj(-zlib.MAX_WBITS)
    for row in rows:
        if isinstance(row, bytes):
            text += stream.decompress(row[SUM:] + TAIL).decode("utf-8", "surrogateescape")
        else:
            text, stream = f"{text}{row}", zlib.decompressobj(-zlib.MAX_WBITS)
    return text


def read_rows(path: Path, run: int) -> list[str | bytes]:
    """The rows of a run in a file."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT content FROM parts WHERE run = ? ORDER BY id", (run,))
        return [content for (content,) in found]
