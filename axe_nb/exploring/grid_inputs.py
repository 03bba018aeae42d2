"""The inputs of a grid as rows: from a list, a data frame, or a CSV or JSONL file."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.files import expand_home, reason
from axe_nb.conversion.own_text import shown_value
from axe_nb.errors import ConfigError
from axe_nb.exploring.map_prompts import is_iterable
from axe_nb.text import one_line, plural, quote

Row: TypeAlias = Mapping[str, Any]
"""Name in `{{ }}` → value."""

ONLY = "input"
"""Name of the value of an input that is not a row."""

MAX_RUNS = 1_000_000
"""Maximum number of runs of a grid, so that an endless iterator is an error."""

MAX_LABEL = 40
"""Characters of the label of an input."""

FORMS = "a list, a DataFrame, or the path of a .csv or .jsonl file"


def read_inputs(given: Any) -> list[Row]:
    """Returns the inputs as rows; None = one row without names.

    Args:
        given: rows or plain values, a pandas or polars frame, or the path of a CSV or JSONL file.

    Raises:
        ConfigError: it is none of these, is empty, or a file cannot be read.
    """
    if given is None:
        return [{}]
    if isinstance(given, str | os.PathLike):
        found: Iterable[Any] = _read_file(Path(given))
    elif callable(to_rows := getattr(given, "to_dicts", None)):  # polars
        found = to_rows()
    elif hasattr(given, "columns") and callable(to_rows := getattr(given, "to_dict", None)):
        found = to_rows("records")
    elif is_iterable(given) and not isinstance(given, Mapping | bytes):
        found = given
    else:
        raise ConfigError(f"inputs takes {FORMS}, not {type(given).__name__}")
    rows = [
        value if isinstance(value, Mapping) else {ONLY: value}
        for value in islice(found, MAX_RUNS + 1)
    ]
    if not rows:
        raise ConfigError("there are no inputs")
    for number, row in enumerate(rows):
        if wrong := [name for name in row if not isinstance(name, str)]:
            shown = shown_value(wrong[0])
            raise ConfigError(f"input {number}: the column name {shown} is not text")
    return rows


def _read_file(path: Path) -> list[Any]:
    read = FILES.get(path.suffix)
    if read is None:
        raise ConfigError(f"inputs {quote(one_line(str(path), 100))}: not a .csv or .jsonl file")
    try:
        return read(expand_home(path).read_bytes().decode("utf-8-sig"), path.name)
    except OSError as error:
        raise ConfigError(f"inputs {quote(path.name)}: {reason(error)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"inputs {quote(path.name)}: not UTF-8 text") from None


def _read_csv(text: str, name: str) -> list[Any]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        columns = next(lines, [])
        if len(set(columns)) < len(columns) or "" in columns:
            raise ConfigError(f"inputs {quote(name)}: the first line must name each column once")
        for values in filter(None, lines):
            if len(values) != len(columns):
                raise csv.Error(
                    f"{plural(len(values), 'value')} for {plural(len(columns), 'column')}"
                )
            rows.append(dict(zip(columns, values, strict=True)))
    except csv.Error as error:
        raise ConfigError(f"inputs {quote(name)}, line {lines.line_num}: {error}") from None
    return rows


def _read_lines(text: str, name: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            raise ConfigError(f"inputs {quote(name)}, line {number}: not JSON") from None
    return rows


FILES: Mapping[str, Callable[[str, str], list[Any]]] = {
    ".csv": _read_csv, ".jsonl": _read_lines, ".ndjson": _read_lines,
}  # fmt: skip
"""Suffix of a file → (text, name of the file) → its inputs."""


def label_inputs(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns a short name for each input, no two the same: its first column that tells them apart.

    Rows that no column tells apart are numbered.
    """
    for column in rows[0]:
        try:
            labels = tuple(one_line(str(row.get(column, "")), MAX_LABEL) for row in rows)
        except Exception:  # of the user's own class
            continue
        if len(set(labels)) == len(labels) and all(labels):
            return labels
    return tuple(map(str, range(len(rows))))
