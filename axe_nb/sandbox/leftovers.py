"""Links and compiled files that a command left anywhere in the workdir.

A program of the person that writes a file follows a link in its place: git its own
`.git/COMMIT_EDITMSG`, Jupyter a notebook. And Python runs a compiled copy of a module, which people
do not read, in place of the module.
Source: D-52, D-55; issue 9.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from typing import TypeAlias

from axe_nb.descriptors import open_up
from axe_nb.protected import find_write_protection
from axe_nb.sandbox.mounts import SYSTEM
from axe_nb.sandbox.view import View

CACHE = "__pycache__"

MARGIN = 50_000_000
"""Nanoseconds that the times of files may be behind the clock."""


Seen: TypeAlias = frozenset[tuple[str, int]]
"""Path and number of links and compiled files."""

_seen: dict[Path, Seen] = {}
"""Workdir → those that the last command in it left."""


def look_around(workdir: Path) -> Seen:
    """Returns the links and compiled files that the last command left; before the first, all."""
    if workdir not in _seen:
        with suppress(OSError):  # as it is, the check after the command will fail too
            found = (entry for entry, _ in _walk(workdir, 0))
            _seen[workdir] = frozenset((entry.path, entry.inode()) for entry in found)
    return _seen.get(workdir, frozenset())


def list_leftovers(view: View, since: int, seen: Seen) -> Iterator[Path]:
    """Yields the links to places where a command must not write, and the compiled files.

    A moved folder takes what it holds along without changing its times. So what lies below a folder
    that has changed is new too, unless it has been seen there before.

    Args:
        view: the view of the command.
        since: when it began, in nanoseconds since 1970; what is older is not from it.
        seen: what was there before.

    Raises:
        OSError: a folder cannot be read.
    """
    left = set()
    for entry, has_changed in _walk(view.workdir, since - MARGIN):
        key = entry.path, entry.inode()
        is_old = not _is_new(entry, since - MARGIN) and (not has_changed or key in seen)
        if is_old or _is_harmless(Path(entry.path), view):
            left.add(key)
        else:
            yield Path(entry.path)
    _seen[view.workdir] = frozenset(left)


def is_compiled(path: Path) -> bool:
    """True for a compiled file, or a link that puts some in place."""
    return CACHE in (path.parent.name, path.name)


def _walk(workdir: Path, since: int) -> Iterator[tuple[os.DirEntry[str], bool]]:
    """Yields links and compiled files, and if a folder between them and the workdir has changed."""
    left = [(str(workdir), False)]
    while left:
        folder, has_changed = left.pop()
        is_cache = folder.endswith(f"/{CACHE}")
        with suppress(FileNotFoundError), _scan(folder, workdir) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append((entry.path, has_changed or _is_new(entry, since)))
                elif entry.is_symlink() or (is_cache and entry.name.endswith(".pyc")):
                    yield entry, has_changed


def _is_new(entry: os.DirEntry[str], since: int) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_ctime_ns >= since
    except FileNotFoundError:  # another command goes on
        return False


def _scan(folder: str, workdir: Path) -> os._ScandirIterator[str]:
    try:
        return os.scandir(folder)
    except PermissionError:
        open_up(Path(folder), workdir)
        return os.scandir(folder)


def _is_harmless(path: Path, view: View) -> bool:
    """True for a link that leads to an ordinary place in the workdir, or to a program outside.

    A target such as `a/../b` would lead elsewhere once `a` is a link.
    """
    if is_compiled(path):
        return False
    target = Path(os.path.realpath(path))
    if target.is_relative_to(view.workdir):
        if ".." in dropwhile("..".__eq__, path.readlink().parts):
            return False
        return not find_write_protection(target, view.workdir, view.sources)
    if path.is_relative_to(view.workdir / ".git"):
        return False
    is_shown = any(target.is_relative_to(place) for place in (*map(Path, SYSTEM), *view.readable))
    return str(target) == os.devnull or (is_shown and os.access(target, os.X_OK))
