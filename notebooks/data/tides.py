"""When the landing at Skerry Point is usable; good enough for planning a supply run."""

from dataclasses import dataclass
from datetime import datetime, timedelta

LUNAR_DAY = timedelta(hours=24, minutes=50)
WINDOW = timedelta(hours=3)


@dataclass(frozen=True)
class Tide:
    """One low water."""

    at: datetime
    height: float


def next_low(after: datetime, known: Tide) -> datetime:
    """The first low water after a moment, counted on from a known one."""
    half = LUNAR_DAY / 2
    steps = -((known.at - after) // half)
    return known.at + max(steps, 0) * half


def landing_window(low: datetime) -> tuple[datetime, datetime]:
    """From when to when the landing is usable around a low water."""
    return low - WINDOW, low + WINDOW


def can_land(at: datetime, known: Tide, swell: float) -> bool:
    """Whether the supply boat can come in."""
    start, end = landing_window(next_low(at - WINDOW, known))
    return start <= at <= end and swell < 2.0
