"""Places in a tree of runs: `0.2/3` is the third turn of run `0.2`.

Source: D-59.
"""

from __future__ import annotations

import re
from typing import TypeAlias

_PLACE = re.compile(r"0(?:\.\d{1,9}(?:-[A-Za-z0-9_]{1,40})?){0,100}/\d{1,9}")

LAST = 1_000_000
"""Sort position of children with named keys: after the numbered ones, in order of key."""

CallOrder: TypeAlias = "tuple[int, int, str]"
"""Sort key of a child among those of its parent: number of the call, position there, key."""

Order: TypeAlias = "tuple[tuple[CallOrder, ...], int]"
"""Sort key of a place: the calls and keys on the way to its run, then the turn."""


def is_place(text: str) -> bool:
    """True if a text is a place."""
    return _PLACE.fullmatch(text) is not None


def run_of(place: str) -> str:
    """Returns the id of the run of a place."""
    return place.partition("/")[0]


def turn_of(place: str) -> int:
    """Returns the turn of a place."""
    return int(place.rpartition("/")[2])


def is_below(place: str, other: str) -> bool:
    """True if a place is in the same run as another, or in a descendant of it."""
    return f"{run_of(place)}.".startswith(f"{run_of(other)}.")


def order_of(place: str) -> Order:
    """Returns the sort key of a place: runs in the order of their calls, parents first."""
    run, _, turn = place.partition("/")
    return tuple(map(_order_call, run.split("."))), int(turn or 0)


def order_child(run: str) -> CallOrder:
    """Returns the sort key of a run among the children of its parent."""
    return _order_call(run.rpartition(".")[2])


def _order_call(part: str) -> CallOrder:
    number, _, key = part.partition("-")  # of an id in a file, too
    position = int(key) if key.isdecimal() and len(key) < 7 else LAST if key else 0
    return int(number) if number.isdecimal() and len(number) < 10 else 0, position, key
