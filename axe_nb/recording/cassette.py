"""A cassette: the recorded exchanges of a notebook or a test in one text file.

Source: D-59, D-61, D-68.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from axe_nb.agents.data_files import read_data, write_data
from axe_nb.agents.files import expand_home, hold_lock
from axe_nb.agents.user_config import format_path, state_dir
from axe_nb.errors import CassetteMiss, ConfigError
from axe_nb.recording.modes import Mode, check_mode, name_command
from axe_nb.recording.records import (
    FOLDER,
    Cleaner,
    Key,
    Record,
    Root,
    from_data,
    make_cleaner,
    to_data,
)
from axe_nb.recording.same_request import Description, digest, is_same
from axe_nb.secrets import MASK
from axe_nb.text import plural

SHARE = 20
"""Minimum time between writes of a file, as a multiple of the duration of the last write."""

Likeness: TypeAlias = "tuple[str, ...]"
"""Key shared by roots that are alike in some respect."""

PROMPT, AGENT = ("messages",), ("model", "system", "tools")
"""Fields of a first request by which two runs are alike: same prompt, or same agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteStatus:
    """Counts of one session with a cassette."""

    path: str
    mode: str
    hits: int
    """Exchanges replayed."""
    misses: int
    """Exchanges that were not recorded."""
    recorded: int
    """Exchanges recorded."""
    unused: int
    """Records that no run of this session has used."""

    def __str__(self) -> str:
        counts = f"{self.hits} replayed, {self.misses} missed, {self.recorded} recorded"
        unused = plural(self.unused, "record")
        return f"{self.path} ({self.mode}): {counts}; {unused} not used"


class Cassette:
    """A cassette file, and the records in it that this session's runs have claimed.

    Other processes and threads may write the file at the same time: before it is written, what they
    have changed since is taken over, a run as a whole.
    """

    def __init__(self, path: str | os.PathLike[str], mode: Mode | None = None) -> None:
        """Reads the file, if there is one.

        Args:
            path: the file.
            mode: None = `auto` where a person can be asked, else `replay`.

        Raises:
            ConfigError: it is not a cassette, or cannot be read; or there is no such mode.
        """
        self.path = expand_home(os.fspath(path)).absolute()
        typed = format_path(self.path) if Path(path).is_absolute() else os.fspath(path)
        self.shown = Path(typed).name if Path(typed).is_absolute() else typed
        """The path as given, or without the folders of this machine."""
        self.how_to_record = f"record it with {name_command(typed)}, then run this again"
        """The next step after a miss."""
        self.missed: list[CassetteMiss] = []
        """Errors for everything that was not recorded."""
        self.mode: Mode | None = None
        self.change_mode(mode)
        self.folders = {Path.cwd(): FOLDER}
        """Folder of this machine → the mark that replaces its path in records."""
        self.hits = self.misses = self.recorded = 0
        self.cell = ""
        """The running cell; empty = unknown."""
        self._lock = threading.RLock()
        self._saving = threading.Lock()
        """Held before `_lock`, by the only thread that reads or writes the file."""
        self._roots: list[Root] = []
        self._owners: dict[Root, str] = {}
        """Root → the cell of the run that uses it."""
        self._free: dict[Likeness, dict[Root, None]] = {}
        """Likeness → the roots that no run uses yet."""
        self._base: dict[int, tuple[Root, Mapping[Key, Record]]] = {}
        """Number in the file → root and its records, as last read or written."""
        self._stamp: tuple[int, int, int] | None = None
        """State of the file when it was last read or written."""
        self._is_changed, self._written_at, self._writing = False, 0.0, 0.0
        self._problem = ""
        """The reason why the last write failed; empty if it succeeded."""
        try:
            self._read_changes()
        except ConfigError as error:
            message = error.message.replace(format_path(self.path), self.shown)
            raise ConfigError(message, hint=error.hint) from None

    def change_mode(self, mode: Mode | None) -> None:
        """Changes the mode, for the runs that begin after it.

        Raises:
            ConfigError: there is no such mode.
        """
        self.mode = None if mode is None else check_mode(mode)

    def make_cleaner(self) -> Cleaner:
        """Returns a filter that removes secrets and paths of this machine from records."""
        return make_cleaner(self.folders)

    def enter_cell(self, cell: str | None) -> None:
        """Notes that a cell runs; when it runs again, its runs find their records again."""
        with self._lock:
            self.cell = cell or ""
            freed = [root for root, owner in self._owners.items() if self.cell and owner == cell]
            for root in freed:
                del self._owners[root]
            if freed:
                self._list_free()

    def _list_free(self) -> None:
        """Groups the roots that no run uses by their likenesses."""
        self._free = {}
        for root in self._roots:
            first = root.first
            if not root.likenesses and first and isinstance(first.asked, dict):
                asked, agent = first.asked, first.agent
                found = [_make_likeness(asked, agent, fields) for fields in (asked, PROMPT, AGENT)]
                masked = [(MASK,)] if MASK in json.dumps(asked) else []
                root.likenesses = (*found, *masked)
            if root not in self._owners:
                for likeness in root.likenesses:
                    self._free.setdefault(likeness, {})[root] = None

    def claim(self, asked: Description, agent: str) -> tuple[Root, Root]:
        """Returns the root whose records a run may play, and the root for its new records.

        They are the same if a recorded run began with the same request. Any other is a new run,
        which may play exchanges of children whose requests are unchanged from a similar run.
        """
        with self._lock:
            root = self._find_free(_make_likeness(asked, agent, asked))
            if root is None:  # its first request may have secrets where the recorded one has masks
                masked = self._free.get((MASK,), ())
                found = (one for one in masked if one.first and is_same(one.first.asked, asked))
                root = next(found, None)
            if root is not None:
                for likeness in root.likenesses:
                    self._free[likeness].pop(root, None)
                self._owners[root] = self.cell
                return root, root
            target = Root(1 + max((root.number for root in self._roots), default=0))
            self._roots.append(target)
            self._owners[target] = self.cell
            source = self._find_free(_make_likeness(asked, agent, PROMPT))
            source = source or self._find_free(_make_likeness(asked, agent, AGENT))
            return source or target, target

    def _find_free(self, likeness: Likeness) -> Root | None:
        return next(iter(self._free.get(likeness, ())), None)

    def count_same(self, asked: Description) -> int:
        """Returns the number of recorded runs that began with a request."""
        likeness = _make_likeness(asked, "", asked)
        with self._lock:
            return sum(likeness in root.likenesses for root in self._roots)

    def commit(self, root: Root, new: Iterable[Record], stale: Iterable[Record]) -> str:
        """Adds new records of a run that has ended; writes the file unless it did so recently.

        Returns:
            The problem, if the file cannot be written.
        """
        with self._lock:
            old = {record.key for record in stale}
            kept = {key: record for key, record in root.records.items() if key not in old}
            added = {record.key: record for record in new}
            if old or added:
                self._is_changed, root.records = True, {**kept, **added}
            if time.monotonic() < self._written_at + SHARE * self._writing:
                return self._problem
        return self.save_quietly()

    def save_quietly(self) -> str:
        """Writes the file, if there is something new; returns the problem, if there is one."""
        try:
            self.save()
            self._problem = ""
        except ConfigError as error:
            self._problem = f"{error.message}; the exchanges are kept in this session only"
        return self._problem

    def save(self) -> None:
        """Writes the file, if there is something new; changes by other processes are kept.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._saving, ExitStack() as stack:
            if not self._is_changed:
                return
            began = time.monotonic()
            # one lock for all cassettes, in the state folder: beside them, it would be committed
            with suppress(ConfigError):  # no lock is held if that folder cannot be written
                stack.enter_context(hold_lock(state_dir() / "cassettes"))
            try:
                self._is_changed = False  # what comes from now on is written next time
                self._read_changes()
                with self._lock:
                    kept = [(root, Root(root.number, root.records)) for root in self._roots]
                write_data(self.path, "cassette", to_data(one for _, one in kept))
                self._base = {one.number: (root, one.records) for root, one in kept}
                self._stamp = _find_stamp(self.path)
            except BaseException:
                self._is_changed = True
                raise
            finally:
                self._written_at = time.monotonic()
                self._writing = self._written_at - began

    def _read_changes(self) -> None:
        """Takes over the roots that others have added, changed or removed, unless a run uses them.

        Raises:
            ConfigError: the file cannot be read, or is not a cassette.
        """
        stamp = _find_stamp(self.path)
        if stamp is None or stamp == self._stamp:
            return
        now = {root.number: root for root in read_data(self.path, "cassette", from_data)}
        with self._lock:
            before, self._base, self._stamp = self._base, {}, stamp
            for number, (root, records) in before.items():
                if number in now and now[number].records == records:
                    self._base[number] = root, records
                    del now[number]
                elif root.records is records and root not in self._owners:
                    self._roots.remove(root)
            ours = [root.records for root in self._roots]
            added = [root for root in now.values() if root.records not in ours]
            numbers = {root.number for root in added}
            for root in self._roots:
                if root.number in numbers:
                    root.number = 1 + max(numbers | {one.number for one in self._roots})
            self._roots += added
            self._base |= {root.number: (root, root.records) for root in added}
            self._list_free()

    def status(self) -> CassetteStatus:
        """Returns the counts of this session."""
        unused = sum(not record.is_used for _, record in self.list_records())
        return CassetteStatus(
            path=self.shown, mode=self.mode or "default mode", hits=self.hits,
            misses=self.misses, recorded=self.recorded, unused=unused,
        )  # fmt: skip

    def prune(self) -> int:
        """Removes the records that this session has not used; returns their number.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._lock:
            if not self.hits and not self.recorded:
                raise ConfigError(
                    f"no run in this session has used {self.shown}: nothing would be left",
                    hint="run the whole notebook first",
                )
            removed = 0
            for root in self._roots:
                used = {key: record for key, record in root.records.items() if record.is_used}
                if len(used) < len(root.records):
                    removed += len(root.records) - len(used)
                    self._is_changed, root.records = True, used
            self._roots = [r for r in self._roots if r.records or r in self._owners]
            self._list_free()
        self.save()
        return removed

    def list_records(self) -> list[tuple[Root, Record]]:
        """Returns all records, with their roots."""
        with self._lock:
            return [(root, record) for root in self._roots for record in root.records.values()]


def _make_likeness(asked: Description, agent: str, fields: Iterable[str]) -> Likeness:
    """Returns the key of the runs whose first requests agree in some fields."""
    if fields is asked:
        return "", digest(asked)
    return agent, *fields, digest([asked.get(name) for name in fields])


def _find_stamp(path: Path) -> tuple[int, int, int] | None:
    """Returns a fingerprint of the state of a file; None if there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # the second for a NUL in the name
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
