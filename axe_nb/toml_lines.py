"""Which line of a TOML text a key stands on, so that an error can point at it (D-27, D-41)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """Line (from 1) where the key `path` is written first; None where it is not found.

    Each statement is parsed by itself, below the table header that it stands under.
    """
    table: tuple[str, ...] = ()
    statement, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not statement.strip():
            statement, start = "", number
        statement += line + "\n"
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # a value that goes on in the next line
        if statement.lstrip().startswith("["):
            table = _deepest(parsed)
            found = table[: len(path)] == path
        else:
            found = path[: len(table)] == table and _holds(parsed, path[len(table) :])
        if found:
            return start
        statement = ""
    return None


def _deepest(parsed: Mapping[str, Any]) -> tuple[str, ...]:
    keys: list[str] = []
    node: Any = parsed
    while node:
        if isinstance(node, list):
            node = node[0]
            continue
        key = next(iter(node))
        keys.append(key)
        node = node[key]
    return tuple(keys)


def _holds(parsed: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(parsed, dict) or key not in parsed:
            return False
        parsed = parsed[key]
    return bool(path)
