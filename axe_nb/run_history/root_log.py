"""One root run as the history keeps it: its row in the list, and the parts with its events.

Source: product.md "Runs are recordings" (History); D-60.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from axe_nb.events import Event, RunFinished, RunStarted, TurnFinished
from axe_nb.redaction import Filter
from axe_nb.run_history.tree import Tree
from axe_nb.text import one_line

if TYPE_CHECKING:
    from axe_nb.run_history.store import Row

MAX_PROMPT = 200
"""Maximum characters of a prompt in the list."""


@dataclass(eq=False)
class RootLog:
    """One root run that is kept; used by the writer's thread, `problem` also by others."""

    tree: Tree
    began: float
    """Seconds since the epoch."""
    process: int = field(default_factory=os.getpid)
    """The process that runs it; a fork of it does not."""
    row: Row | None = None
    problem: str = ""
    """The reason why it is not written; empty if it is."""
    is_told: bool = False
    """True once a warning has told the problem."""
    is_over: bool = False

    def add(self, event: Event, at: float, clean: Filter) -> None:
        """Adds an event to its row, `at` seconds after its beginning."""
        from axe_nb.run_history.store import Row

        if isinstance(event, RunStarted) and self.row is None:
            prompt = clean.text(event.task).strip().partition("\n")[0]
            self.row = Row(
                started=self.began, agent=clean.text(event.agent), model=clean.text(event.model),
                prompt=one_line(prompt, MAX_PROMPT),
            )  # fmt: skip
        row = self.row
        if row is None:
            return
        for one in self._list_ends(event):
            self.tree.add(one, at, clean)
        row.seconds = at
        match event:
            case RunStarted():
                row.runs += 1
            case TurnFinished():
                row.turns += 1
                row.tokens += event.usage.total
            case RunFinished(run="0", result=result):
                self.is_over = True
                row.status, row.seconds = result.status, result.duration_ms / 1000
                row.turns = sum(one.turns for one in result.walk())
                row.tokens = result.total_usage.total
                row.cost = result.total_cost

    def _list_ends(self, event: Event) -> list[Event]:
        """Returns the event; before the end of the root those of runs that no event has ended."""
        if not (isinstance(event, RunFinished) and event.run == "0"):
            return [event]
        left = [one for one in event.result.walk() if one.id not in self.tree.ended]
        return [RunFinished(one.id, one) for one in reversed(left)]

    def take_parts(self, clean: Filter) -> None:
        """Adds the parts of the latest events to its row."""
        if self.row is not None:
            parts = self.tree.take(clean)
            self.row.parts += parts
            self.row.bytes += sum(map(len, parts))
