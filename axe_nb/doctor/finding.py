"""One line of the doctor's report.

Source: product.md "Notebook" (`%axe doctor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from axe_nb.errors import AxeError
from axe_nb.views.appearance import LOOKS

State = Literal["right", "note", "wrong"]
SIGNS: Mapping[State, str] = {
    "right": LOOKS["completed"].sign,
    "note": "·",
    "wrong": LOOKS["error"].sign,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    state: State
    what: str
    message: str
    next_step: str = ""
    """Empty if there is nothing to do."""

    def __str__(self) -> str:
        first = f"{SIGNS[self.state]} {self.what:<16} {self.message}"
        return f"{first}\n{'':<19}→ {self.next_step}" if self.next_step else first


def make_failed_finding(what: str, error: AxeError) -> Finding:
    place = f" ({error.place})" if error.place else ""
    return Finding("wrong", what, f"{error}{place}", error.hint)
