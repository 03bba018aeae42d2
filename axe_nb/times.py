"""The times of a run, as its result keeps them: its requests, its calls and its waits.

Source: product.md "Notebook" (`%axe time R`); design README "Second generation".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
