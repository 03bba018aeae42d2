"""The file of a cassette, which other processes and threads may write at the same time.

What it held when it was last read or written is the base of a three-way merge: what others have
changed since is taken over, unless it was changed here too.
Source: D-59, D-61.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from axe_nb.agents.config import state_dir
from axe_nb.agents.data_files import read_data, write_data
from axe_nb.agents.files import hold_lock
from axe_nb.errors import ConfigError
from axe_nb.recording.records import BEGINNING, Key, Record, Root, from_data, to_data


class Kept(NamedTuple):
    """A root as it is in the file."""

    number: int
    root: Root
    records: Mapping[Key, Record]


class SharedFile:
    """The file, and what it held last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        """The state of the file when it was read or written."""
        self.base: dict[int, Kept] = {}
        """Number of a root → the root, when the file was read or written."""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keeps others from writing.

        The file of the lock is in the user's state folder, as that of the cassette is usually under
        version control: one for all cassettes, since their locks would pile up. No lock is held if
        the state folder cannot be written.
        """
        with ExitStack() as stack:
            with suppress(ConfigError):
                stack.enter_context(hold_lock(state_dir() / "cassettes"))
            yield

    def read_changes(self) -> list[Root] | None:
        """Returns the roots of the file; None if no one else has changed it.

        Raises:
            ConfigError: it cannot be read, or is not a cassette.
        """
        stamp = _find_stamp(self._path)
        if stamp is None or stamp == self._stamp:
            return None
        roots = read_data(self._path, "cassette", from_data)
        self._stamp = stamp
        return roots

    def write(self, kept: list[Kept]) -> None:
        """Writes the file.

        Raises:
            ConfigError: it cannot be written.
        """
        data = to_data((one.number, one.records.values()) for one in kept)
        write_data(self._path, "cassette", data)
        self._stamp = _find_stamp(self._path)
        self.base = {one.number: one for one in kept}

    def merge(self, theirs: Iterable[Root], ours: list[Root]) -> list[Root]:
        """Takes over what others have changed; returns the roots that they added."""
        now = {root.number: root for root in theirs}
        before, self.base = self.base, {}
        for number, was in before.items():
            their = now.get(number)
            if their is not None and _begin_alike(was.records, their.records):
                _merge_records(was, their.records)
                self.base[number] = Kept(number, was.root, their.records)
                del now[number]
            else:
                _merge_records(was, {})
        added = [root for root in now.values() if all(root.records != our.records for our in ours)]
        for their in added:
            for our in ours:
                if our.number == their.number:
                    our.number = 1 + max(root.number for root in (*ours, *now.values()))
            ours.append(their)
            self.base[their.number] = Kept(their.number, their, their.records)
        return added


def _begin_alike(one: Mapping[Key, Record], other: Mapping[Key, Record]) -> bool:
    """True if two roots began with the same request of the same agent."""
    first, second = (records.get(BEGINNING) for records in (one, other))
    if first is None or second is None:
        return first is second
    return (first.agent, first.asked) == (second.agent, second.asked)


def _merge_records(was: Kept, theirs: Mapping[Key, Record]) -> None:
    """Takes over the records that others have changed, added or removed, unless we changed them."""
    merged = dict(was.root.records)
    for key in {*was.records, *theirs}:
        before, our, new = was.records.get(key), merged.get(key), theirs.get(key)
        if our != before or new == before:
            continue
        if new is not None:
            merged[key] = new
        elif our is not None and not our.is_used:
            del merged[key]
    was.root.records = merged


def digest(value: Any) -> str:
    """Returns a short text that is the same for equal JSON data only."""
    text = json.dumps(value, sort_keys=True, default=lambda picture: picture.digest)
    return hashlib.sha256(text.encode()).hexdigest()


def _find_stamp(path: Path) -> tuple[int, int, int] | None:
    """Returns the state of a file; None if there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # the second for a NUL in the name
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
