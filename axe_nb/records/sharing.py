"""JSON data in which each value that it repeats is written once, for files.

A run has most texts in several places, such as the system prompt and the tools in each exchange.
A repeated value becomes a mark with its position in a table. A list of texts that has far less to
tell than its size, such as the events of a stream, becomes a mark with its compressed JSON.
Source: D-61; goals.md "a run kept in memory".
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from axe_nb.errors import ConfigError

SHARED, DATA = "shared", "data"
"""Keys of the table, and of the data that refers to it."""

SMALLEST = 40
"""Characters; smaller values are repeated."""

PACKED_SIZE = 1000
"""Characters of a list of texts that may be compressed."""

PACKED_SHARE = 4
"""A list is compressed if that makes it so many times smaller."""

LEAST_MEMORY, GROWTH = 50_000_000, 200
"""Bytes that the values of any file may take in memory, and more for each byte of the file."""

ITEM = 50
"""Bytes of a value in memory, without its characters."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A placeholder for a value: its position in the table, or its compressed JSON in base64."""

    value: int | str


def share(data: Any) -> Any:
    """Returns the data with the table of what it repeats; the data itself if it repeats nothing."""
    sharer = _Sharer()
    sharer.count(data)
    shared = sharer.write(data)
    return {SHARED: sharer.table, DATA: shared} if sharer.has_marks else data


class _Sharer:
    def __init__(self) -> None:
        self.table: list[Any] = []
        self.has_marks = False
        self._ids: dict[Hashable, int] = {}
        """Parts of a value → its id, the same for equal values."""
        self._sizes: list[int] = []
        self._times: list[int] = []
        """Id → how often it occurs outside of repeated values."""
        self._known: dict[int, int] = {}
        """Identity of a list or object → its id; all of them live at least as long as the data."""
        self._positions: dict[int, int] = {}
        """Id → position in the table."""

    def count(self, value: Any) -> int:
        """Counts a value and its parts; returns its id."""
        key: Hashable
        size = 2
        if isinstance(value, dict):
            parts = [(name, self.count(item)) for name, item in value.items()]
            key = ("{}", *parts)
            size += sum(len(name) + self._sizes[part] for name, part in parts)
        elif isinstance(value, list):
            items = list(map(self.count, value))
            key = ("[]", *items)
            size += sum(self._sizes[item] for item in items)
        else:
            key = (type(value), repr(value) if isinstance(value, float) else value)
            size = len(value) if isinstance(value, str) else 5
        number = self._ids.setdefault(key, len(self._ids))
        if number == len(self._sizes):
            self._sizes.append(size)
            self._times.append(0)
        elif isinstance(value, dict | list):  # its parts were counted again, but are in the first
            for item in value.values() if isinstance(value, dict) else value:
                self._times[self._find(item)] -= 1
        self._times[number] += 1
        if isinstance(value, dict | list):
            self._known[id(value)] = number
        return number

    def _find(self, value: Any) -> int:
        if isinstance(value, dict | list):
            return self._known[id(value)]
        return self._ids[type(value), repr(value) if isinstance(value, float) else value]

    def write(self, value: Any) -> Any:
        """Returns a value with marks for what is repeated."""
        number = self._find(value)
        if self._times[number] < 2 or self._sizes[number] < SMALLEST:
            return self._write_parts(value)
        self.has_marks = True
        if number not in self._positions:
            written = self._write_parts(value)
            self._positions[number] = len(self.table)
            self.table.append(written)
        return Mark(self._positions[number])

    def _write_parts(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self.write(item) for name, item in value.items()}
        if not isinstance(value, list):
            return value
        packed = _pack(value)
        if packed is None:
            return list(map(self.write, value))
        self.has_marks = True
        return packed


def _pack(value: list[Any]) -> Mark | None:
    if not all(isinstance(item, str) for item in value):
        return None
    size = sum(map(len, value))
    if size < PACKED_SIZE:
        return None
    packed = b64encode(zlib.compress(json.dumps(value).encode(), 9)).decode()
    return Mark(packed) if len(packed) * PACKED_SHARE < size else None


def unshare(data: Any, size: int) -> Any:
    """Reverses `share`; data without a table is returned as it is.

    Args:
        data: what was read.
        size: bytes of the file.

    Raises:
        ConfigError: a mark is wrong, or the values take far more memory than the file.
    """
    if not (isinstance(data, dict) and data.keys() == {SHARED, DATA}):
        return data
    if not isinstance(data[SHARED], list):
        raise ConfigError("its table of shared values is not a list")
    reader = _Reader(LEAST_MEMORY + GROWTH * size)
    try:
        for value in data[SHARED]:
            before = reader.size
            read = reader.read(value)
            reader.table.append((read, reader.size - before))
        return reader.read(data[DATA])
    except RecursionError:
        raise ConfigError("it is nested too deeply to read") from None


class _Reader:
    def __init__(self, most: int) -> None:
        self.table: list[tuple[Any, int]] = []
        """(value, its size) so far: a value refers to earlier ones only."""
        self.size = 0
        """Bytes that the values take in memory, estimated before they take them."""
        self._most = most

    def read(self, value: Any) -> Any:
        if not isinstance(value, Mark):
            self._add(ITEM + (len(value) if isinstance(value, str) else 0))
            if isinstance(value, dict):
                return {name: self.read(item) for name, item in value.items()}
            return list(map(self.read, value)) if isinstance(value, list) else value
        if isinstance(value.value, str):
            return self._unpack(value.value)
        if not 0 <= value.value < len(self.table):
            raise ConfigError(f"unknown shared value {value.value}"[:100])
        found, size = self.table[value.value]
        self._add(size)
        return found

    def _unpack(self, text: str) -> Any:
        try:
            reader = zlib.decompressobj()
            plain = reader.decompress(b64decode(text, validate=True), self._most)
            if not reader.eof:
                raise ValueError("too large or cut")
            self._add(len(plain) + ITEM * (1 + sum(map(plain.count, (b",", b"[", b"{")))))
            return json.loads(plain)
        except (ValueError, zlib.error, RecursionError):
            raise ConfigError("a compressed list of texts is damaged") from None

    def _add(self, size: int) -> None:
        self.size += size
        if self.size > self._most:
            raise ConfigError("its values take far more memory than the file")
