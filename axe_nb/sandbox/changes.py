"""Changes of protected files by a command where no mount prevents them: seen, not undone.

Source: D-82.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
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
    found: dict[str, tuple[int, ...]] = {}
    mounted = _list_mounted(view) if is_read_only else {}
    for path in (*mounted, *_list_paths(view, is_read_only=is_read_only)):
        try:
            its = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISDIR(its.st_mode):
            found[path] = (its.st_mode, its.st_ino)
        else:  # its time of change cannot be set back
            found[path] = (its.st_mode, its.st_ino, its.st_size, its.st_mtime_ns, its.st_ctime_ns)
        if len(found) > MOST:
            raise ValueError(f"there are more than {MOST} protected files in the workdir")
    return found


@contextmanager
def hold_folders(view: View) -> Iterator[None]:
    """Keeps mounted folders open: a new one in the place of one would else get its number."""
    flags = getattr(os, "O_PATH", 0) | FOLDER
    with ExitStack() as stack:
        for path in islice(_list_mounted(view), MOST_HELD):
            with suppress(OSError):
                stack.callback(os.close, os.open(path, flags))
        yield


def compare(before: Look, after: Look, workdir: Path) -> tuple[str, ...]:
    """Returns a note on each protected file that was made, changed or removed meanwhile."""
    notes: list[str] = []
    whole: set[str] = set()
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path):
            continue
        if os.path.dirname(path) in whole:  # noqa: PTH120
            whole.add(path)
            continue
        what = "changed" if path in before and path in after else "made"
        if path not in after:
            what = "removed"
        if what != "changed":
            whole.add(path)
        notes.append(f"{quote(os.path.relpath(path, workdir))} is protected, and was {what}")
    left = len(notes) - MOST_TOLD
    return (*notes[:MOST_TOLD], *([f"and {left} more changes"] if left > 0 else []))


def _list_mounted(view: View) -> Mapping[str, None]:
    """Returns what is mounted for a command in folders that it may write."""
    covered = {*view.read_only, *view.hidden}
    every = dict.fromkeys([*view.anchored, *view.read_only, *view.hidden])
    return {str(path): None for path in every if covered.isdisjoint(path.parents)}


def _list_paths(view: View, *, is_read_only: bool) -> Iterator[str]:
    names = sorted(os.listdir(view.workdir))  # noqa: PTH208
    late = (name for name in names if name.startswith(".env") or name == "HEAD")
    every = dict.fromkeys([*view.names, *(view.workdir / name for name in late)])
    if is_read_only:
        covered = {*view.read_only, *view.hidden, *view.anchored}
        yield from (str(path) for path in every if path not in covered)
        return
    yield from map(str, view.anchored)
    for path in every:
        yield str(path)
        if not path.is_symlink():
            yield from _walk(str(path))


def _walk(folder: str) -> Iterator[str]:
    """Yields what is in a folder, if it is one; follows no link."""
    left = [folder]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    yield entry.path
                    if entry.name not in CONTENTS and entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
