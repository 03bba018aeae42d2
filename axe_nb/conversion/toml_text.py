"""TOML text: parsing, line numbers and hints for errors, and changes of values.

Source: D-27, D-41, D-70.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tomlkit.items import AbstractTable
    from tomlkit.toml_document import TOMLDocument

_TOKEN = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"{3,5}'
    r"|'''[^']*(?:'(?!'')[^']*)*'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)
"""Tokens that can contain a line end or that affect where a statement ends."""


ESCAPES = "in double quotes a backslash starts an escape; use single quotes"

_STEPS = {
    "Invalid value": 'strings need quotes, as in model = "provider/model"',
    "Illegal character '\\n'": 'a multi-line string needs triple quotes: """…"""',
    "Unescaped '\\'": ESCAPES,
    "Invalid hex value": ESCAPES,
    "Expected '=' after a key": 'a line is key = value, as in model = "provider/model"',
}
"""Start of a message of `tomllib` → the next step."""


def toml_hint(text: str, error: Exception) -> str:
    """Returns the next step after an error of `tomllib`; empty if its message is enough."""
    message = str(error)
    place = re.search(r"at line (\d+)", message)
    line = text.split("\n")[int(place[1]) - 1] if place else ""
    if re.search(r"=\s*(True|False)\b", line):
        return "write true and false in lower case"
    return next((step for start, step in _STEPS.items() if message.startswith(start)), "")


def line_of(text: str, path: tuple[str, ...], entry: str = "", number: int = 0) -> int | None:
    """Returns the line (from 1) of the first occurrence of the key `path`; None if not found.

    With `entry`, the line of that entry of the key's list. `number` is that of the table which
    `path` begins with, from 1, if it is a list of tables; 0 = any. Each statement is parsed on its
    own, in the context of its table header.
    """
    table: tuple[str, ...] = ()
    tables = 0
    for line, statement in _split_statements(text):
        try:
            parsed = tomllib.loads(statement)
        except (ValueError, RecursionError):
            continue
        if statement.lstrip().startswith("["):
            keys: list[str] = []
            node: Any = parsed
            while node:
                if isinstance(node, dict):
                    keys += [*node][:1]
                    node = node[keys[-1]]
                else:
                    node = node[0]
            table = tuple(keys)
            tables += statement.lstrip().startswith("[[") and table == path[:1]
            found = table[: len(path)] == path
        else:
            here: Any = parsed
            for key in path[len(table) :]:
                here = here.get(key) if isinstance(here, dict) else None
            found = path[: len(table)] == table != path and here is not None
        if found and number in (0, tables):
            written = re.search(rf"""["']{re.escape(entry)}["']""", statement) if entry else None
            return line + (statement.count("\n", 0, written.start()) if written else 0)
    return None


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each key with its value, table header, comment and blank line."""
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


MAX_PARTS = 32
"""Parts of a dotted key: `tomllib` takes memory that grows with their square."""

_LONG_KEY = re.compile(
    r"""(?:^|[\[{,])[ \t]*+(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{MAX_PARTS}}}",
    re.MULTILINE,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Returns the tables of a TOML text.

    Raises ValueError if it is not TOML, or nested too deeply.
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.end()) + 1
        raise ValueError(f"a key with more than {MAX_PARTS} parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def update_text(text: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Returns the text of the table `old` with changed values where `new` differs from it.

    The rest is unchanged; `old` may have keys that the text writes otherwise.
    """
    import tomlkit

    document = tomlkit.parse(text.replace("\r\n", "\n"))
    _update(document, old, new)
    updated = tomlkit.dumps(document)
    return updated.replace("\n", "\r\n") if "\r\n" in text else updated


def _update(
    table: TOMLDocument | AbstractTable, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    for key in old.keys() - new.keys():
        table.pop(key, None)
    for key, value in new.items():
        before = old.get(key)
        if key in old and value == before and type(value) is type(before):
            continue
        written = table.get(key)
        if isinstance(value, Mapping) and isinstance(written, Mapping):
            known = before if isinstance(before, Mapping) else {}
            if known.keys() <= written.keys():
                _update(table[key], known, value)
                continue
        import tomli_w
        import tomlkit

        # written as in a new file
        item = tomlkit.parse(tomli_w.dumps({key: value}, multiline_strings=True))
        table[key] = item[key]
