"""Workdirs in which the files that a command left could not be checked or cleared away.

A command may make files that keep the check after it from ending. Then no other command starts
there until the check has succeeded: to it, those files would be as they should be.
Source: D-52, D-55.
"""

from __future__ import annotations

import threading
from pathlib import Path

from axe_nb.sandbox.claim import overlap
from axe_nb.sandbox.watch import Watch


class Pending:
    """Watches that have not settled, and notes that came too late."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: list[Watch] = []
        self._notes: list[tuple[Path, tuple[str, ...]]] = []

    def add(self, watch: Watch) -> None:
        """Keeps a watch that has not settled."""
        with self._lock:
            self._watches.append(watch)

    def keep_notes(self, workdir: Path, notes: tuple[str, ...]) -> None:
        """Keeps notes that came too late for the call that they belong to."""
        with self._lock:
            self._notes.append((workdir, notes))

    def settle(self, workdir: Path) -> list[str]:
        """Settles what concerns a workdir; returns all notes on it.

        Raises:
            ValueError: something is left that could not be settled.
            OSError: as for `Watch.settle`.
        """
        with self._lock:
            notes = [
                note for place, kept in self._notes if overlap(place, workdir) for note in kept
            ]
            self._notes = [kept for kept in self._notes if not overlap(kept[0], workdir)]
            for watch in [w for w in self._watches if overlap(w.view.workdir, workdir)]:
                watch.settle()
                if not watch.is_settled:
                    left = "; ".join(watch.take_notes())
                    raise ValueError(f"an earlier command left protected files: {left}")
                self._watches.remove(watch)
                notes += watch.take_notes()
            return notes


PENDING = Pending()
