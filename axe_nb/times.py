"""The times of a run, as its result keeps them: its requests, its calls and its waits.

Source: product.md "Notebook" (`%axe time R`); design README "Second generation".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from axe_nb.quick_init import quick_init

Kind = Literal["run", "model", "replay", "tool", "retry", "person"]
"""`run` is the whole run, `replay` a request whose answer was not a model's: recorded, or given."""


@quick_init
@dataclass(frozen=True, slots=True)
class Lap:
    """A part of the time of a run."""

    kind: Kind
    began: float
    """Seconds since the root began."""
    ended: float
    turn: int = 0
    """Number of the turn, of `model`, `replay` and `retry`."""
    call: str = ""
    """Id of the call; empty for a wait that belongs to a request."""
