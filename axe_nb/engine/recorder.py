"""The interface of a recorder, which keeps a tree of runs while it happens.

Source: product.md "Runs are recordings" (History).
"""

from __future__ import annotations

from typing import Protocol

from axe_nb.events import Event
from axe_nb.results import RunResult


class Recorder(Protocol):
    """Keeps one root run with its tree; neither blocks nor raises."""

    def event(self, event: Event) -> None:
        """Takes an event of the tree."""

    def problem(self) -> str:
        """Returns the reason why the run cannot be kept, once, at its end; empty = it is kept."""

    def finish(self, result: RunResult) -> None:
        """Takes the result of the root, whatever ended it."""
