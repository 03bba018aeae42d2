"""Any value as JSON data that fits into a number of bytes, and names what had to be left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from axe_nb.conversion.opened import open_safely
from axe_nb.conversion.own_text import type_name
from axe_nb.conversion.parts import Entries, Items, Leaf, Table
from axe_nb.text import count_bytes, cut_bytes, one_line

MAX_DEPTH = 100
"""Maximum nesting; what lies deeper is left out."""

NOTE = 300
"""Maximum size of a note in bytes of JSON; kept free for it in each open list and object."""

LEAST_TEXT = 80
"""Minimum bytes that must be free for the beginning of a text and its note."""

LONGEST_KEY = 1000
"""Maximum size of a key that is a list or an object, in bytes."""

LONGEST_COMPARED = 1000
"""Size of the part of a set's member that decides on its place, in bytes."""

MOST_NAMED = 3
"""Maximum number of left-out entries that a note names."""

_LEFT_OUT = object()

_END = object()


class TooLarge(Exception):
    """A value does not fit whole."""


def to_data(value: object, limit: int) -> Any:
    """Converts a value to JSON data, whole if it fits, else cut.

    Args:
        value: any value, also one whose own methods fail.
        limit: maximum size of the JSON text on one line in bytes of UTF-8, at least 1000.
    """
    try:
        return to_whole_data(value, limit)
    except TooLarge:
        data = _Conversion(limit, note=NOTE).convert(value, 0)
        return "… left out" if data is _LEFT_OUT else data


def to_whole_data(value: object, limit: int) -> Any:
    """Converts a value to JSON data.

    Raises:
        TooLarge: its text would be longer than the limit.
    """
    return _Conversion(limit, note=0).convert(value, 0)


def encode(data: object, indent: int | None = None) -> str:
    """The text of JSON data; without `indent`, as its size is counted here."""
    return json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False)


class _Conversion:
    """One conversion, and the bytes that are left for it."""

    def __init__(self, limit: int, note: int) -> None:
        """Begins a conversion; without room for notes it ends with `TooLarge` instead."""
        self._left = limit
        self._note = note
        self._around: set[int] = set()
        """Ids of the lists and objects around the value that is being converted."""

    def convert(self, value: Any, depth: int) -> Any:
        """Returns a value's data, or `_LEFT_OUT`. Raises TooLarge if it does not fit whole."""
        opened = open_safely(value)
        if isinstance(opened, Leaf):
            return self._convert_leaf(opened.value)
        if id(value) in self._around:
            return self._convert_leaf(f"… contains itself ({type_name(value)})")
        if depth >= MAX_DEPTH:
            return self._convert_leaf(f"… nested deeper than {MAX_DEPTH} levels: left out")
        if isinstance(opened, Table) and opened.width == 1:
            opened = Items((row[0] for row in opened.rows(1)), opened.height)
        elif isinstance(opened, Table):  # within other data
            width = count_columns_within(opened, self._left // (10 if self._note else 1))
            columns = Items(iter(opened.label(width)), opened.width)
            rows = Items(map(list, opened.rows(width)), opened.height)
            opened = Entries(iter((("columns", columns), ("rows", rows))), 2)
        if not self._note and opened.size * 3 - 3 > self._left:
            raise TooLarge
        if not self._spend(2 + self._note):
            return _LEFT_OUT
        self._around.add(id(value))
        if isinstance(opened, Items):
            data: Any = self._convert_items(opened, depth + 1)
        else:
            data = self._convert_entries(opened, depth + 1)
        self._around.discard(id(value))
        return data

    def _convert_items(self, items: Items, depth: int) -> list[Any]:
        converted: list[Any] = []
        values = _sort(items) if items.is_set else items.values
        while (value := _take(values)) is not _END:
            is_open = self._spend(2 if converted else 0)
            data = self.convert(value, depth) if is_open else _LEFT_OUT
            if data is _LEFT_OUT:
                break
            converted.append(data)
        self._left += self._note
        if missing := max(items.size - len(converted), int(value is not _END)):
            note = f"… {missing:,} of {len(converted) + missing:,} items left out"
            converted.append(self._write_note(note))
        return converted

    def _convert_entries(self, entries: Entries, depth: int) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        left_out: list[str] = []
        while len(left_out) < MOST_NAMED and (pair := _take(entries.pairs)) is not _END:
            name = _make_name(pair[0], converted)
            if left_out:
                left_out.append(one_line(name, 20))
                continue
            is_open = self._spend(len(name)) and self._spend(
                count_bytes(encode(name)) - len(name) + (4 if converted else 2)
            )
            data = self.convert(pair[1], depth) if is_open else _LEFT_OUT
            if data is _LEFT_OUT:
                left_out.append(one_line(name, 20))
            else:
                converted[name] = data
        self._left += self._note
        if missing := max(entries.size - len(converted), len(left_out)):
            note = f"{missing:,} of {len(converted) + missing:,} entries left out"
            note += f": {', '.join(left_out)}" if left_out else ""
            note += f" and {missing - len(left_out):,} more" if missing > len(left_out) > 0 else ""
            converted[_make_name("…", converted)] = self._write_note(note)
        return converted

    def _write_note(self, note: str) -> str:
        """Takes the bytes of a note, of those kept free for it."""
        if not self._note:
            raise TooLarge
        note = cut_bytes(note, NOTE // 2 - 20, "…")
        self._left -= count_bytes(encode(note)) + 12
        return note

    def _convert_leaf(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value if self._spend(len(encode(value))) else _LEFT_OUT
        if len(value) < self._left and (size := count_bytes(encode(value))) <= self._left:
            self._left -= size
            return value
        if not self._note:
            raise TooLarge
        kept = cut_to_size(value, self._left - LEAST_TEXT)
        if not kept:
            return _LEFT_OUT
        text = f"{kept}… [{len(value) - len(kept):,} more characters left out]"
        self._left -= count_bytes(encode(text))
        return text

    def _spend(self, size: int) -> bool:
        """Takes bytes from those that are left; False if there are not enough.

        Raises TooLarge if there are not enough, and nothing may be left out.
        """
        if size > self._left and not self._note:
            raise TooLarge
        if size > self._left:
            return False
        self._left -= size
        return True


def count_columns_within(table: Table, size: int) -> int:
    """The number of first columns, at least one, whose labels fit into a number of bytes."""
    for count, label in enumerate(table.label(min(table.width, size))):
        size -= count_bytes(label) + 1
        if size < 0:
            return max(1, count)
    return table.width


def cut_to_size(text: str, size: int) -> str:
    """The longest beginning of a text that is about as long as a number of bytes of JSON."""
    kept = text[: max(0, size)]
    while kept and (needed := count_bytes(encode(kept))) > size:
        kept = kept[: len(kept) * max(0, size) // needed]
    return kept


def _take(values: Iterator[Any]) -> Any:
    """The next value; `_END` behind the last, or if the iterator fails."""
    try:
        return next(values, _END)
    except Exception:  # an iterator of the user's
        return _END


def _sort(items: Items) -> Iterator[Any]:
    """The members of a set in the order of their values, which is the same in every process."""
    members = list(items.values)
    kinds = {type(member) for member in members}
    if kinds <= {str} or kinds <= {int, bool}:
        return iter(sorted(members))
    return iter(sorted(members, key=lambda m: encode([to_data(m, LONGEST_COMPARED), type_name(m)])))


def _make_name(key: Any, others: dict[str, Any]) -> str:
    """The name of an entry; names of different keys with the same text have their types."""
    opened = open_safely(key)
    if not isinstance(opened, Leaf):
        name = encode(to_data(key, LONGEST_KEY))
    else:
        name = opened.value if isinstance(opened.value, str) else encode(opened.value)
    while name in others:
        name += f" ({type_name(key)})"
    return name
