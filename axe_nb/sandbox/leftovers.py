"""Links and compiled files that a command left anywhere in the workdir.

A program of the person that writes a file follows a link in its place: git its own
`.git/COMMIT_EDITMSG`, Jupyter a notebook. And Python runs a compiled copy of a module, which people
do not read, in place of the module.
Source: D-52, D-55; issue 9.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from axe_nb.descriptors import open_up
from axe_nb.protected import find_write_protection
from axe_nb.sandbox.mounts import SYSTEM
from axe_nb.sandbox.view import View

MARGIN = 50_000_000
"""Nanoseconds that the times of files may be behind the clock."""


def list_leftovers(view: View, since: int) -> Iterator[Path]:
    """Yields the links that lead where a command may not write, and the compiled files.

    Args:
        view: the view of the command.
        since: when it began, in nanoseconds since 1970; what is older is not from it.

    Raises:
        OSError: a folder cannot be read.
    """
    for path, status in _list_new(view.workdir, since - MARGIN):
        if not stat.S_ISLNK(status.st_mode) or not _is_harmless(path, view):
            yield path


def _list_new(workdir: Path, since: int) -> Iterator[tuple[Path, os.stat_result]]:
    left = [str(workdir)]
    while left:
        folder = left.pop()
        is_cache = folder.endswith("/__pycache__")
        with _scan(folder, workdir) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif entry.is_symlink() or (is_cache and entry.name.endswith(".pyc")):
                    status = entry.stat(follow_symlinks=False)
                    if status.st_ctime_ns >= since:
                        yield Path(entry.path), status


def _scan(folder: str, workdir: Path) -> os._ScandirIterator[str]:
    try:
        return os.scandir(folder)
    except PermissionError:
        open_up(Path(folder), workdir)
        return os.scandir(folder)


def _is_harmless(path: Path, view: View) -> bool:
    """True if a link leads to an ordinary place in the workdir, or to a program outside."""
    target = Path(os.path.realpath(path))
    if target.is_relative_to(view.workdir):
        return not find_write_protection(target, view.workdir, view.sources)
    if path.is_relative_to(view.workdir / ".git"):
        return False
    is_shown = any(target.is_relative_to(place) for place in (*map(Path, SYSTEM), *view.readable))
    return str(target) == os.devnull or (is_shown and os.access(target, os.X_OK))
