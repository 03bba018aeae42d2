"""Tables as text: CSV, which a model reads well, loses nothing and takes the fewest tokens.

A missing value is an empty cell, an empty text `""`; data within a cell is JSON.
Source: product.md "Models can do more than text" (values).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from axe_nb.text import count_bytes, one_line, plural
from axe_nb.values.data import (
    TooLarge,
    count_columns_within,
    encode,
    to_data,
    to_whole_data,
)
from axe_nb.values.parts import Table

LONGEST_CELL = 1000
"""Maximum bytes of a cell in a table that does not fit whole."""

NOTE = 300
"""Bytes kept free for the note below a table."""

_SPECIAL = re.compile(r'[",\n\r]|^\s|\s$|^$')


def write_table(table: Table, limit: int) -> str:
    """Writes a table as CSV: whole if it fits into `limit` bytes, else cut, with a note."""
    try:
        return _write_whole(table, limit)
    except TooLarge:
        return _write_beginning(table, limit)


def _write_whole(table: Table, limit: int) -> str:
    """Writes all of a table.

    Raises:
        TooLarge: it does not fit.
    """
    if not table.width:
        return f"(an empty table: {plural(table.height, 'row')}, no columns)"
    if table.width * (table.height + 1) > limit:
        raise TooLarge
    lines = []
    for line in _write_lines(table, table.width, limit, is_cut=False):
        limit -= count_bytes(line) + 1
        if limit < 0:
            raise TooLarge
        lines.append(line)
    return "\n".join(lines)


def _write_beginning(table: Table, limit: int) -> str:
    width = count_columns_within(table, limit // 20)
    first_row = next(islice(_write_cells(table, width, LONGEST_CELL, True), 1, None), ())
    room = limit // 10
    for count, cell in enumerate(first_row):
        room -= count_bytes(cell) + 1
        if room < 0:
            width = max(1, count)
            break
    limit -= NOTE
    lines: list[str] = []
    for line in _write_lines(table, width, LONGEST_CELL, is_cut=True):
        limit -= count_bytes(line) + 1
        if limit < 0:
            break
        lines.append(line)
    return "\n".join([*lines, _make_note(table, max(0, len(lines) - 1), width)])


def _make_note(table: Table, height: int, width: int) -> str:
    missing = []
    if height < table.height:
        missing.append(f"{table.height - height:,} of {table.height:,} rows")
    if more := table.width - width:
        names = [one_line(name, 20) for name in table.label(width + 2)[width:]]
        shown = ", ".join(names) + (f" and {more - len(names):,} more" if more > 2 else "")
        missing.append(f"{more:,} of {table.width:,} columns ({shown})")
    return f"… {' and '.join(missing) or 'long texts'} left out"


def _write_lines(table: Table, width: int, limit: int, *, is_cut: bool) -> Iterator[str]:
    return map(",".join, _write_cells(table, width, limit, is_cut))


def _write_cells(table: Table, width: int, limit: int, is_cut: bool) -> Iterator[list[str]]:
    """The header and the rows, cell by cell."""
    yield [_write_cell(label, limit, is_cut) for label in table.label(width)]
    for row in table.rows(width):
        cells, left = [], limit
        for value in row:
            cells.append(_write_cell(value, left, is_cut))
            left -= 0 if is_cut else count_bytes(cells[-1])
        yield cells


def _write_cell(value: Any, limit: int, is_cut: bool) -> str:
    """Writes one value.

    Raises:
        TooLarge: it does not fit, and must not be cut.
    """
    data = to_data(value, limit) if is_cut else to_whole_data(value, limit)
    if data is None:
        return ""
    text = data if isinstance(data, str) else encode(data)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text
