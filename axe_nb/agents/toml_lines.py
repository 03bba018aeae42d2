"""Lines of a TOML text, so that an error can point at one (D-27, D-41); hints for its mistakes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

_TOKEN = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"{3,5}'
    r"|'''[^']*(?:'(?!'')[^']*)*'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)
"""What can hold a line end, or look like one of a statement: strings, comments, brackets."""


ESCAPES = "in double quotes a backslash starts an escape; use single quotes"

_BACKSLASH = re.compile(r'"""|"(?P<value>(?:[^"\n]*\\)[^"\n]*)"')
"""A long text's beginning, or a text in double quotes with a backslash in it."""


def toml_hint(text: str, error: Exception) -> str:
    """The next step after an error of `tomllib`; empty if its message says enough."""
    told = str(error)
    if told.startswith("Invalid value"):
        return 'text needs quotes, as in model = "provider/model"'
    if not told.startswith(("Unescaped '\\'", "Invalid hex value")):
        return ""
    place = re.search(r"at line (\d+)", told)
    line = text.split("\n")[int(place[1]) - 1] if place else ""
    found = _BACKSLASH.search(line)
    value = found["value"] if found else None
    if value is None:
        return f"{ESCAPES}: '''…'''"
    shown = f": '{value}'" if "'" not in value and len(value) <= 100 else ""
    return f"{ESCAPES}{shown}"


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """Line (from 1) where the key `path` is written first; None where it is not found.

    Each statement of the TOML text is parsed by itself, below the table header that it stands
    under.
    """
    table: tuple[str, ...] = ()
    for line, statement in _statements(text):
        try:
            parsed = tomllib.loads(statement)
        except (ValueError, RecursionError):
            continue
        if statement.lstrip().startswith("["):
            table = _deepest(parsed)
            found = table[: len(path)] == path
        else:
            found = path[: len(table)] == table and _holds(parsed, path[len(table) :])
        if found:
            return line
    return None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each key with its value, table header, comment and blank line."""
    line, start, depth = 1, 0, 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if depth == 0:
                yield line, text[start : token.end()]
                line += text.count("\n", start, token.end())
                start = token.end()
    yield line, text[start:]


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
