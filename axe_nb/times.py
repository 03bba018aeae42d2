"""The times of a run, as its result keeps them: its requests, its calls and its waits.

Source: product.md "Notebook" (`%axe time R`); design README "Second generation".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

Kind = Literal["run", "model", "replay", "tool", "retry", "person"]
"""`run` is the whole run, `replay` a request whose answer was not a model's: recorded, or given."""


@dataclass(frozen=True, slots=True)
class Lap:
    """A part of the time of a run."""

    kind: Kind
    began: float
    """Seconds since the root began."""
    ended: float
    turn: int = 0
    """Number of the turn; 0 for the whole run, and for a wait that belongs to a request."""
    call: int = 0
    """Number of the call in its turn, from 1; 0 for what belongs to no call."""


MAX_WRITTEN: Final = 1e11
"""Seconds; a later time, which a virtual clock can reach, is written as this one."""

_WRITTEN: Final = re.compile(
    rf"({'|'.join(get_args(Kind))})(?: (\d{{1,9}})(?:\.(\d{{1,9}}))?)?"
    r" (\d{1,15}(?:\.\d{1,3})?)\+(\d{1,15}(?:\.\d{1,3})?)",
    re.ASCII,
)


def write_laps(laps: Sequence[Lap]) -> str:
    """Returns times as a short text for files: kind, turn and call, beginning+length in ms.

    They are as exact as those of a run, in microseconds: a run that began just after another had
    ended is not beside it in a file either.
    """
    return ", ".join(map(_write, laps))


def read_laps(text: str) -> tuple[Lap, ...]:
    """Returns the times that `write_laps` wrote.

    Raises:
        ValueError: it did not write this text.
    """
    return tuple(map(_read, text.split(", "))) if text else ()


def _write(lap: Lap) -> str:
    place = f" {lap.turn}.{lap.call}" if lap.call else f" {lap.turn}" if lap.turn else ""
    return f"{lap.kind}{place} {_milliseconds(lap.began)}+{_milliseconds(lap.ended - lap.began)}"


def _milliseconds(seconds: float) -> str:
    """Never a text that `read_laps` refuses: the whole result could not be read."""
    return f"{min(max(0.0, seconds), MAX_WRITTEN) * 1000:.3f}".rstrip("0").removesuffix(".")


def _read(text: str) -> Lap:
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    kind, turn, call, began, took = found.groups()
    start = round(float(began) / 1000, 6)
    end = round(start + float(took) / 1000, 6)
    return Lap(cast(Kind, kind), start, end, int(turn or 0), int(call or 0))
