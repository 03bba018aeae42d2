"""The place of a cursor in TOML that is being written, and so is rarely valid. Pure.

Source: product.md "Notebook" (Tab completes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:"{3,5}|\\?\Z)'
    r"|'''(?:[^']|'(?!''))*(?:'{3,5}|\Z)"
    r'|"(?:\\.|[^"\\\n])*(?:"|\\?(?=\n|\Z))'
    r"|'[^'\n]*(?:'|(?=\n|\Z))"
    r"|#[^\n]*"
    r"|[\[\]{}\n=,]",
    re.DOTALL,
)
"""Tokens that can contain a line end or that affect where a statement ends; strings may be open."""

_KEY = re.compile(r"""\s*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s.="'\[\]]+))\s*(?:\.|\Z)""")

_HEADER = re.compile(r"\[\[?[A-Za-z_][\w.-]*\]")
"""A line that closes anything left open above it."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of the cursor: a header, a key or a value; or nothing that is offered, in text."""

    table: Path
    """The table whose header stands above; within a header, the tables before the last dot."""
    key: Path | None
    """The key whose value is written, below `table`; None in a header or a key."""
    word: str
    """The word at the cursor, as far as it is written, without quotes."""
    is_header: bool = False
    quote: str = ""
    """The quotes that the word stands in; empty without any."""
    is_in_list: bool = False
    given: frozenset[str] = frozenset()
    """The texts that stand in the list already."""


def find_spot(text: str) -> Spot | None:
    """Finds the place at the end of the text; None in a comment, or behind a value."""
    *_, statement = _list_statements(text)
    return statement.find_end(text)


def find_paths(text: str) -> set[Path]:
    """Returns every key that is set and every table that has a header, from the root."""
    found: set[Path] = set()
    for one in _list_statements(text):
        if one.header:
            found.add(one.header)
        elif one.equals is not None:
            key = split_key(text[one.start : one.equals])
            found.update((*one.table, *key[: at + 1]) for at in range(len(key)))
    return found


def split_key(text: str) -> Path:
    """Splits a dotted key into its parts."""
    parts: list[str] = []
    at = 0
    while (found := _KEY.match(text, at)) and found.end() > at:
        parts.append(found[1] or found[2] or found[3] or "")
        at = found.end()
    return tuple(parts)


@dataclass(slots=True)
class _Statement:
    """One statement as far as it is written."""

    table: Path = ()
    start: int = 0
    equals: int | None = None
    """Position of its first `=` outside brackets and strings."""
    depth: int = 0
    item: int = 0
    """Position of the last item of its list, or of its value."""
    last: str = ""
    """The last token of the statement."""
    last_start: int = 0
    """Position of its last token."""
    header: Path = ()
    """The table that it begins, if it is a header."""

    def find_end(self, text: str) -> Spot | None:
        written = text[self.start :].lstrip()
        if self.last.startswith("#"):
            return None
        if written.startswith("["):
            return self._find_header(written)
        if self.equals is None:
            before, dot, word = written.rpartition(".")
            path = split_key(before) if dot else ()
            return Spot((*self.table, *path), None, word.lstrip(" \t\"'"))
        key = split_key(text[self.start : self.equals])
        return self._find_value(text, key)

    def _find_header(self, written: str) -> Spot | None:
        if "]" in written:
            return None
        before, dot, word = written.lstrip("[").rpartition(".")
        return Spot(split_key(before) if dot else (), None, word.strip(), is_header=True)

    def _find_value(self, text: str, key: Path) -> Spot | None:
        assert self.equals is not None
        given = frozenset(re.findall(r"""["']([^"'\n]*)["']""", text[self.equals : self.item]))
        is_in_list = self.depth > 0
        if self.last[:1] in ("'", '"') and self.last_start >= self.item:
            quote = self.last[:3] if self.last[:3] in ('"""', "'''") else self.last[0]
            is_open = len(self.last) < 2 * len(quote) or not self.last.endswith(quote)
            if not is_open:
                return None
            word = self.last[len(quote) :]
            return Spot(self.table, key, word, False, quote, is_in_list, given)
        word = text[self.item :].strip()
        if self.last in ("]", "}") or (not is_in_list and " " in word):
            return None
        return Spot(self.table, key, word, False, "", is_in_list, given)


def _list_statements(text: str) -> Iterator[_Statement]:
    """Yields each statement; the last one ends with the text."""
    table: Path = ()
    now = _Statement()
    for token in _TOKEN.finditer(text):
        now.last, now.last_start = token[0], token.start()
        match token[0]:
            case "[" | "{":
                now.depth += 1
                now.item = token.end()
            case "]" | "}":
                now.depth = max(0, now.depth - 1)
            case ",":
                now.item = token.end()
            case "=" if now.depth == 0 and now.equals is None:
                now.equals = token.start()
                now.item = token.end()
            case "\n" if now.depth == 0 or _HEADER.match(text, token.end()):
                written = text[now.start : token.start()].strip()
                if now.equals is None and written.startswith("["):
                    now.header = table = split_key(written.strip("[]").partition("]")[0])
                yield now
                now = _Statement(table, token.end(), item=token.end())
    yield now
