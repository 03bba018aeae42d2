"""A cassette: the recorded exchanges of a notebook or a test in one text file.

Source: D-59, D-61, D-68.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from axe_nb.agents.config import format_path
from axe_nb.agents.files import expand_home
from axe_nb.errors import CassetteMiss, ConfigError
from axe_nb.recording.cleaning import FOLDER, Cleaner, make_cleaner
from axe_nb.recording.kept_answers import replaces
from axe_nb.recording.modes import Mode, check_mode, name_command
from axe_nb.recording.records import Record, Root
from axe_nb.recording.same_request import Description, is_same
from axe_nb.recording.shared_file import Kept, SharedFile, digest
from axe_nb.secrets import MASK
from axe_nb.text import plural

SHARE = 20
"""A file is written again after this many times the duration of the last write."""

Likeness: TypeAlias = "tuple[str, ...]"
"""Key of the roots that are alike in some way."""

PROMPT, AGENT = ("messages",), ("model", "system", "tools")
"""Fields of a first request: two runs of an agent with the same prompt, or the same agent."""


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
    """A cassette file, and the records in it that this session's runs have claimed."""

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
        """The path as it was given, or without the folders of this machine."""
        self.how_to_record = f"record it with {name_command(typed)}, then run this again"
        """The next step after a miss."""
        self.missed: list[CassetteMiss] = []
        """The errors for all that was not recorded."""
        self.mode: Mode | None = None
        self.change_mode(mode)
        self.folders = {Path.cwd(): FOLDER}
        """Folder of this machine → the mark that replaces its path in records."""
        self.hits = self.misses = self.recorded = 0
        self.cell = ""
        """The cell that runs; empty = unknown."""
        self._lock = threading.RLock()
        self._owners: dict[Root, str] = {}
        """Root → the cell of the run that uses it."""
        self._replaces: dict[Root, Root] = {}
        """Root of a changed run → the root that it replaces, unless that is still used."""
        self._alike: dict[Likeness, list[Root]] = {}
        self._begin_at: dict[Likeness, int] = {}
        """Position of the first root that may be free."""
        self._is_changed, self._written_at, self._writing = False, 0.0, 0.0
        self._problem = ""
        """The reason why the last write failed; empty if it succeeded."""
        self._roots: list[Root] = []
        self._saving = threading.Lock()
        """Held before `_lock`, by the only thread that reads or writes the file."""
        self._file = SharedFile(self.path)
        try:
            self._merge(self._file.read_changes() or ())
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
        """Notes that a cell runs; if it runs again, its runs find their records again."""
        with self._lock:
            self.cell = cell or ""
            freed = [root for root, owner in self._owners.items() if self.cell and owner == cell]
            for root in freed:
                del self._owners[root]
            if freed:
                self._begin_at.clear()

    def claim(self, asked: Description, agent: str) -> tuple[Root, Root]:
        """Returns the root whose records a run may play, and the one that takes its own.

        They are the same if a recorded run began with the same request. A changed run with the
        same prompt replaces the recorded one. With another prompt it is a new run, which may play
        the exchanges of children that are still asked the same.
        """
        with self._lock:
            root = self._find_free(_make_likeness(asked, agent, asked))
            if root is None:  # its first request may have secrets where the recorded one has masks
                masked = (one for one in self._alike.get((MASK,), ()) if one not in self._owners)
                found = (one for one in masked if one.first and is_same(one.first.asked, asked))
                root = next(found, None)
            if root is not None:
                self._owners[root] = self.cell
                replacing = next((new for new, old in self._replaces.items() if old is root), None)
                if replacing is not None:
                    del self._replaces[replacing]
                    self._is_changed = True
                return root, root
            target = Root(1 + max((root.number for root in self._roots), default=0))
            self._roots.append(target)
            self._owners[target] = self.cell
            if source := self._find_free(_make_likeness(asked, agent, PROMPT)):
                self._replaces[target] = source
            source = source or self._find_free(_make_likeness(asked, agent, AGENT))
            return source or target, target

    def _find_free(self, likeness: Likeness) -> Root | None:
        roots, at = self._alike.get(likeness, []), self._begin_at.get(likeness, 0)
        while at < len(roots) and roots[at] in self._owners:
            at += 1
        self._begin_at[likeness] = at
        replaced = set(self._replaces.values()) if likeness[0] != "" else set()
        return next((r for r in roots[at:] if r not in self._owners and r not in replaced), None)

    def _list_likenesses(self, root: Root) -> None:
        first = root.first
        if first is None or not isinstance(first.asked, dict):
            return
        likenesses = [
            _make_likeness(first.asked, first.agent, fields)
            for fields in (first.asked, PROMPT, AGENT)
        ]
        if MASK in json.dumps(first.asked):
            likenesses.append((MASK,))
        for likeness in likenesses:
            roots = self._alike.setdefault(likeness, [])
            if root not in roots[-1:]:
                roots.append(root)

    def count_same(self, asked: Description) -> int:
        """Returns the number of recorded runs that began with a request."""
        with self._lock:
            return len(self._alike.get(_make_likeness(asked, "", asked), ()))

    def commit(self, root: Root, new: Iterable[Record], stale: Iterable[Record]) -> str:
        """Adds the new records of a run that has ended; writes the file if that is not too often.

        Returns:
            The problem, if the file cannot be written.
        """
        with self._lock:
            old = {record.key for record in stale}
            kept = {key: record for key, record in root.records.items() if key not in old}
            added = {record.key: record for record in new}
            self._is_changed = self._is_changed or bool(old or added)
            is_new, root.records = root.first is None, {**kept, **added}
            if is_new:
                self._list_likenesses(root)
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
        with self._saving:
            if not self._is_changed:
                return
            began = time.monotonic()
            try:
                with self._file.hold():
                    self._is_changed = False  # what comes from now on is written next time
                    theirs = self._file.read_changes()
                    with self._lock:
                        if theirs is not None:
                            self._merge(theirs)
                        kept = self._list_kept()
                    self._file.write(kept)
            except BaseException:
                self._is_changed = True
                raise
            finally:
                self._written_at = time.monotonic()
                self._writing = self._written_at - began

    def _merge(self, theirs: Iterable[Root]) -> None:
        for root in self._file.merge(theirs, self._roots):
            self._list_likenesses(root)

    def _list_kept(self) -> list[Kept]:
        """Returns all roots that no changed run has replaced, as they are in the file."""
        pairs = [(old, new) for new, old in self._replaces.items() if old not in self._owners]
        replaced = {old: new for old, new in pairs if replaces(new.records, old.records)}
        numbers = {new: old.number for old, new in replaced.items()}
        roots = [root for root in self._roots if root not in replaced]
        return [Kept(numbers.get(root, root.number), root, root.records) for root in roots]

    def status(self) -> CassetteStatus:
        """Returns the counts of this session."""
        return CassetteStatus(
            path=self.shown, mode=self.mode or "default mode", hits=self.hits,
            misses=self.misses, recorded=self.recorded, unused=len(self._list_unused()),
        )  # fmt: skip

    def prune(self) -> int:
        """Removes the records that this session has not used; returns their number.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._lock:
            unused = self._list_unused()
            if not self.hits and not self.recorded:
                raise ConfigError(
                    f"no run in this session has used {self.shown}: nothing would be left",
                    hint="run the whole notebook first",
                )
            for root, record in unused:
                root.records = {k: one for k, one in root.records.items() if one is not record}
            self._is_changed = self._is_changed or bool(unused)
        self.save()
        return len(unused)

    def _list_unused(self) -> list[tuple[Root, Record]]:
        with self._lock:
            kept = [
                (one.root, record) for one in self._list_kept() for record in one.records.values()
            ]
            return [(root, record) for root, record in kept if not record.is_used]

    def list_records(self) -> list[tuple[Root, Record]]:
        """Returns all records, with their roots."""
        with self._lock:
            return [(root, record) for root in self._roots for record in root.records.values()]


def _make_likeness(asked: Description, agent: str, fields: Iterable[str]) -> Likeness:
    """Returns the key of the runs whose first requests agree in some fields."""
    if fields is asked:
        return "", digest(asked)
    return agent, *fields, digest([asked.get(name) for name in fields])
