"""The four kinds of value: a single one, a list, an object, a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias


class Leaf(NamedTuple):
    """A single value, in a type of JSON."""

    value: str | int | float | bool | None


class Items(NamedTuple):
    """A list, of which only as much is read as fits."""

    values: Iterator[Any]
    size: int
    is_set: bool = False
    """True if the order of the values has no meaning, and may differ in another process."""


class Entries(NamedTuple):
    """An object, of which only as much is read as fits; keys of any type."""

    pairs: Iterator[tuple[Any, Any]]
    size: int


class Table(NamedTuple):
    """Rows and columns, of which only as much is read as fits."""

    label: Callable[[int], Sequence[str]]
    """Returns the labels of the first columns, in a number."""
    width: int
    height: int
    read: Callable[[int, int, int], Sequence[Sequence[Any]]]
    """(first row, row after the last, number of columns) -> each column's values."""

    def rows(self, width: int) -> Iterator[tuple[Any, ...]]:
        """The rows, with their first `width` columns; read in blocks."""
        block = max(1, BLOCK // max(1, width))
        for start in range(0, self.height, block):
            stop = min(start + block, self.height)
            yield from zip(*self.read(start, stop, width), strict=True)


class Instead(NamedTuple):
    """Another value, of simpler type, that stands for one."""

    value: Any


Opened: TypeAlias = Leaf | Items | Entries | Table | Instead

BLOCK = 4096
"""Maximum number of values that are read at once from a table or an array."""
