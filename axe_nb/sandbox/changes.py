"""Changes of protected files by a command where no mount prevents them: seen, not undone.

Source: D-82.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from axe_nb.descriptors import FOLDER
from axe_nb.sandbox.view import View
from axe_nb.text import quote

MOST = 20_000
"""Protected files that are compared; a command could make any number of them."""

CONTENTS = ("objects", "logs")
"""Folders of repositories that hold contents only, and any number of them."""

MOST_HELD = 100
"""Folders that are kept open: more than are to be protected, fewer than a process may open."""

MOST_TOLD = 10
"""Changes that are listed."""

Look: TypeAlias = Mapping[str, tuple[int, ...]]
"""Path → what changes with it."""


def look(view: View, *, is_read_only: bool) -> Look:
    """Returns the state of the protected files that a command could change.

    Args:
        view: what it sees.
        is_read_only: true if existing protected files are read-only to it; what is left then are
            links, names that nothing could be mounted on, and what the user replaces meanwhile, as
            `git config` and editors do: a mount goes with the file that it is on.

    Raises:
        ValueError: there are too many.
        OSError: a folder cannot be read.
    """
    there = (view.workdir / name for name in os.listdir(view.workdir))  # noqa: PTH208
    late = (path for path in there if path.name.startswith(".env") or path.name == "HEAD")
    covered = {*view.read_only, *view.hidden} if is_read_only else set()
    outermost = [
        path for path in (*view.names, *late, *covered) if covered.isdisjoint(path.parents)
    ]
    shallow = {str(path) for path in (*view.anchored, *(outermost if is_read_only else ()))}
    left = [*map(str, outermost), *shallow]
    found: dict[str, tuple[int, ...]] = {}
    while left:
        path = left.pop()
        with suppress(FileNotFoundError, NotADirectoryError):
            its = os.lstat(path)
            if not stat.S_ISDIR(its.st_mode):  # its time of change cannot be set back
                times = (its.st_mtime_ns, its.st_ctime_ns)
                found[path] = (its.st_mode, its.st_ino, its.st_size, *times)
                continue
            found[path] = (its.st_mode, its.st_ino)
            if not (path in shallow or os.path.basename(path) in CONTENTS):  # noqa: PTH119
                left += (entry.path for entry in os.scandir(path))
        if len(found) > MOST:
            raise ValueError(f"there are more than {MOST} protected files in the workdir")
    return found


@contextmanager
def hold_folders(view: View) -> Iterator[None]:
    """Keeps protected folders open: a new one in the place of one would else get its number."""
    flags = getattr(os, "O_PATH", 0) | FOLDER
    with ExitStack() as opened:
        for path in (*view.anchored, *view.read_only, *view.hidden)[:MOST_HELD]:
            with suppress(OSError):
                opened.callback(os.close, os.open(path, flags))
        yield


def compare(before: Look, after: Look, workdir: Path) -> tuple[str, ...]:
    """Returns a note on each protected file that was made, changed or removed meanwhile."""
    notes: list[str] = []
    whole: set[str] = set()
    for path in sorted(dict(before.items() ^ after.items())):
        if os.path.dirname(path) in whole:  # noqa: PTH120
            whole.add(path)
            continue
        what = "made" if path not in before else "changed" if path in after else "removed"
        if what != "changed":
            whole.add(path)
        notes.append(f"{quote(os.path.relpath(path, workdir))} is protected, and was {what}")
    left = len(notes) - MOST_TOLD
    return (*notes[:MOST_TOLD], *([f"and {left} more changes"] if left > 0 else []))
