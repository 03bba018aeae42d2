"""A cassette: the recorded exchanges of a notebook or a test in one text file.

Source: product.md "Cassettes"; D-59, D-61, D-68.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from axe_nb.data_files import read_data, write_data
from axe_nb.errors import CassetteMiss, ConfigError
from axe_nb.recording.approvals import is_test
from axe_nb.recording.asked import Asked
from axe_nb.recording.cleaning import Cleaner, make_cleaner
from axe_nb.recording.records import Record, Root, from_data, to_data
from axe_nb.text import plural, quote

Mode = Literal["live", "record", "replay", "auto"]

MODES: tuple[Mode, ...] = ("live", "record", "replay", "auto")

MODE = "AXE_CASSETTE_MODE"
"""Environment variable with the mode of cassettes that are opened without one."""

SHARE = 20
"""A file is written at the end of a run if this many times the last writing have passed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteStatus:
    """Counts of one session with a cassette."""

    path: str
    mode: str
    hits: int
    """Exchanges played."""
    misses: int
    """Exchanges that were not recorded."""
    recorded: int
    """Exchanges recorded."""
    unused: int
    """Records that no run of this session has used."""

    def __str__(self) -> str:
        counts = f"{self.hits} played, {self.misses} missed, {self.recorded} recorded"
        unused = plural(self.unused, "record")
        return f"{self.path} ({self.mode}): {counts}; {unused} not used"


class Cassette:
    """The file, and the claims of this session's runs to what is recorded in it."""

    def __init__(self, path: str | os.PathLike[str], mode: Mode | None = None) -> None:
        """Reads the file, if there is one.

        Args:
            path: the file.
            mode: None = `auto` where a person can be asked, else `replay`.

        Raises:
            ConfigError: it is not a cassette, or cannot be read; or there is no such mode.
        """
        self.path = Path(path).expanduser().absolute()
        self.shown = os.fspath(path)
        """The path as it was given."""
        self.how_to_record = (
            f"record it with %axe cassette {self.shown} --mode auto, then run this again"
        )
        """The next step after a miss."""
        self.missed: list[CassetteMiss] = []
        """The errors for all that was not recorded."""
        self.mode: Mode | None = None
        self.change_mode(mode)
        self.folders = {Path.cwd(): "."}
        """Folder of this machine → what takes the place of its path in all that is kept."""
        self.hits = self.misses = self.recorded = 0
        self.cell = ""
        """The cell that runs; empty = unknown."""
        self._lock = threading.RLock()
        self._claims: dict[Root, str] = {}
        """Root → the cell of the run that has it."""
        self._begun = 0
        self._is_changed = False
        self._written_at, self._writing = 0.0, 0.0
        self._roots = self._read()

    def make_cleaner(self) -> Cleaner:
        """Returns what removes secrets, and paths of this machine, from all that is kept."""
        return make_cleaner(self.folders)

    def _read(self) -> list[Root]:
        if not os.path.lexists(self.path):
            return []
        return read_data(self.path, "cassette", from_data)

    def change_mode(self, mode: Mode | None) -> None:
        """Changes the mode, for the runs that begin after it.

        Raises:
            ConfigError: there is no such mode.
        """
        self.mode = None if mode is None else check_mode(mode)

    def enter_cell(self, cell: str | None) -> None:
        """Notes that a cell runs, possibly again: then its runs find their records again."""
        with self._lock:
            self.cell = cell or ""
            if self.cell:
                for root, owner in list(self._claims.items()):
                    if owner == self.cell:
                        del self._claims[root]

    def take_number(self) -> int:
        """Returns the number of a root that begins, from 1."""
        with self._lock:
            self._begun += 1
            return self._begun

    def claim(self, asked: Asked, agent: str, number: int) -> tuple[Root, Root]:
        """Returns the root whose records a run may play, and the one that takes its own.

        They are the same if the run was recorded, whether or not its agent has changed since. With
        another prompt it is a new run, which may play what its children are still asked.

        Args:
            asked: the first request of the run.
            agent: its agent.
            number: number of the run in this session.
        """
        with self._lock:
            free = [root for root in self._roots if root not in self._claims and root.first]
            free.sort(key=lambda root: (root.number != number, root.number))
            for is_same in (_is_same, _has_same_prompt, _has_same_agent):
                found = next((r for r in free if r.first and is_same(r.first, asked, agent)), None)
                if found:
                    break
            target = found
            if found is None or is_same is _has_same_agent:
                target = Root(1 + max((root.number for root in self._roots), default=0))
                self._roots.append(target)
            assert target is not None
            self._claims[target] = self.cell
            return found or target, target

    def commit(self, root: Root, new: Iterable[Record], stale: Iterable[Record]) -> str:
        """Adds the new records of a run, and writes the file if that is not too often.

        Returns:
            The problem, if the file cannot be written.
        """
        with self._lock:
            for old in stale:
                root.records.pop(old.key, None)
            for record in new:
                root.records[record.key] = record
                self._is_changed = True
            if time.monotonic() < self._written_at + SHARE * self._writing:
                return ""
            return self.save_quietly()

    def save_quietly(self) -> str:
        """Writes the file, if there is something new; returns the problem, if there is one."""
        try:
            self.save()
        except ConfigError as error:
            return f"{error.message}; the exchanges are kept in this session only"
        return ""

    def save(self) -> None:
        """Writes the file, if there is something new.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._lock:
            if not self._is_changed:
                return
            began = time.monotonic()
            write_data(self.path, "cassette", to_data(self._roots))
            self._is_changed = False
            self._written_at = time.monotonic()
            self._writing = self._written_at - began

    def status(self) -> CassetteStatus:
        """Returns the counts of this session."""
        return CassetteStatus(
            path=self.shown, mode=self.mode or "auto or replay", hits=self.hits,
            misses=self.misses, recorded=self.recorded, unused=len(self._list_unused()),
        )  # fmt: skip

    def prune(self) -> int:
        """Removes the records that this session has not used; returns their number.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._lock:
            unused = self._list_unused()
            for root, record in unused:
                del root.records[record.key]
            self._roots = [root for root in self._roots if root.records]
            self._is_changed = self._is_changed or bool(unused)
            self.save()
        return len(unused)

    def _list_unused(self) -> list[tuple[Root, Record]]:
        with self._lock:
            return [(r, one) for r in self._roots for one in r.records.values() if not one.is_used]

    def count_same(self, asked: Asked) -> int:
        """Returns the number of recorded runs that began with a request."""
        with self._lock:
            return sum(bool(root.first and root.first.asked == asked) for root in self._roots)

    def list_records(self) -> list[tuple[Root, Record]]:
        """Returns all records, with their roots."""
        with self._lock:
            return [(root, record) for root in self._roots for record in root.records.values()]


def find_mode(given: Mode | None, *, can_ask: bool) -> Mode:
    """Returns the mode in effect; by default tests never ask a model, nor does a batch job.

    Args:
        given: the mode that the cassette was opened with.
        can_ask: True if a person can be asked.

    Raises:
        ConfigError: the environment names a mode that does not exist.
    """
    if given or (mode := os.environ.get(MODE, "")):
        return given or check_mode(mode)
    return "auto" if can_ask and not is_test() else "replay"


def check_mode(mode: str) -> Mode:
    """Returns the mode.

    Raises:
        ConfigError: it does not exist.
    """
    for known in MODES:
        if known == mode:
            return known
    raise ConfigError(
        f"a cassette has no mode {quote(str(mode))}", hint=f"use one of {', '.join(MODES)}"
    )


def _is_same(first: Record, asked: Asked, agent: str) -> bool:
    return bool(first.asked == asked)


def _has_same_prompt(first: Record, asked: Asked, agent: str) -> bool:
    return _has_same(first, asked, ("messages",)) and first.agent == agent


def _has_same_agent(first: Record, asked: Asked, agent: str) -> bool:
    return _has_same(first, asked, ("model", "system", "tools")) and first.agent == agent


def _has_same(first: Record, asked: Asked, names: Iterable[str]) -> bool:
    kept = first.asked if isinstance(first.asked, dict) else {}
    return all(kept.get(name) == asked.get(name) for name in names)
