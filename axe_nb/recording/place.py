"""Places in a tree of runs: `0.2/3` is the third turn of run `0.2`.

Source: D-59.
"""

from __future__ import annotations

import re
from typing import TypeAlias

_PLACE = re.compile(r"0(?:\.\d{1,9}(?:-[A-Za-z0-9_]{1,40})?){0,100}/\d{1,9}")

Order: TypeAlias = "tuple[tuple[tuple[int, int, str], ...], int]"
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
    parts = (part.partition("-") for part in run.split("."))
    calls = (
        (int(number), int(key) if key.isdecimal() else 1_000_000 if key else 0, key)
        for number, _, key in parts
    )
    return tuple(calls), int(turn or 0)
