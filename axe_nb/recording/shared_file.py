"""The file of a cassette, which other processes and threads may write at the same time.

What it held when it was last read or written is the base of a three-way merge: what others have
changed since is taken over, unless it was changed here too.
Source: D-59, D-61; product.md "Cassettes".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from axe_nb.agents.config import state_dir
from axe_nb.agents.files import hold_lock
from axe_nb.data_files import read_data, write_data
from axe_nb.errors import ConfigError
from axe_nb.recording.records import Key, Record, Root, from_data, to_data
from axe_nb.records.shelf import write_picture

Digests: TypeAlias = "dict[Key, str]"


class Kept(NamedTuple):
    """A root as it is in the file."""

    number: int
    root: Root
    records: Mapping[Key, Record]


class Base(NamedTuple):
    """A root as it was in the file when that was last read or written."""

    root: Root
    asked: str
    """Digest of its first request."""
    digests: Digests


class SharedFile:
    """The file, and what it held last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        """The state of the file when it was read or written."""
        self.base: dict[int, Base] = {}
        """Number of a root → the root."""

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
        digests = [_make_base(one.root, one.records) for one in kept]
        data = to_data((one.number, one.records.values()) for one in kept)
        write_data(self._path, "cassette", data)
        self._stamp = _find_stamp(self._path)
        self.base.clear()
        self.base.update(zip((one.number for one in kept), digests, strict=True))


def merge(base: dict[int, Base], theirs: Iterable[Root], ours: list[Root]) -> list[Root]:
    """Takes over what others have changed in the file; returns the roots that they added.

    Args:
        base: what the file held before; what it holds now at the end.
        theirs: what the file holds now.
        ours: all roots of this session; theirs are added.
    """
    now = {root.number: root for root in theirs}
    before = dict(base)
    base.clear()
    for number, was in before.items():
        their = now.get(number)
        if their is not None and _make_base(their, their.records).asked == was.asked:
            _merge_records(was, their)
            base[number] = _make_base(was.root, their.records)
            del now[number]
        else:
            _merge_records(was, Root(number))
    known = {json.dumps(sorted(_make_base(r, r.records).digests.items())) for r in ours}
    added = []
    for number, their in now.items():
        found = _make_base(their, their.records)
        if json.dumps(sorted(found.digests.items())) in known:
            continue
        for our in ours:
            if our.number == number:
                our.number = 1 + max(root.number for root in (*ours, *now.values()))
        ours.append(their)
        added.append(their)
        base[number] = found
    return added


def _merge_records(was: Base, their: Root) -> None:
    """Takes over the records that others have changed, added or removed, unless we changed them."""
    merged = dict(was.root.records)
    for key in {*was.digests, *their.records}:
        before = was.digests.get(key)
        our, new = merged.get(key), their.records.get(key)
        is_ours = (our and digest(_list(our))) != before
        if is_ours or (new and digest(_list(new))) == before:
            continue
        if new is not None:
            merged[key] = new
        elif our is not None and not our.is_used:
            del merged[key]
    was.root.records = merged


def _make_base(root: Root, records: Mapping[Key, Record]) -> Base:
    first = Root(0, dict(records)).first
    asked = digest([first.agent, first.asked]) if first else ""
    return Base(root, asked, {key: digest(_list(one)) for key, one in records.items()})


def _list(record: Record) -> list[Any]:
    return [record.agent, record.asked, record.outcome]


def digest(value: Any) -> str:
    """Returns a short text that is the same for equal JSON data only."""
    text = json.dumps(value, sort_keys=True, default=write_picture)
    return hashlib.sha256(text.encode()).hexdigest()


def _find_stamp(path: Path) -> tuple[int, int, int] | None:
    """Returns the state of a file; None if there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # the second for a NUL in the name
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
