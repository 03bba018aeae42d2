"""Protected files of a workdir: covered before a command, and compared after it.

A sandbox can mount something read-only only over what exists. So a protected name that does not
exist is made before the command, as an empty placeholder, and removed with the last command that
runs there. If the kernel is killed meanwhile, the next command removes it: it is known by its time.
No link is followed: a command may have put one in the place of a folder above it. What no mount
prevents is seen, not undone.
Source: D-82; safety-facts §1.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from axe_nb.paths import FOLDER, hold_real_folder
from axe_nb.sandbox.launch import Protection
from axe_nb.sandbox.view import View, fill_view
from axe_nb.text import quote

TIME = 946_684_807
"""Seconds since 1970 at which all placeholders were last changed: 1 January 2000, and 7 s."""

LONGEST = 2
"""Most bytes of a placeholder."""

PATIENCE = 2.0
"""Seconds to wait for a kernel that removes its placeholders, which takes milliseconds."""

NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The command could not make the name either."""

MOST = 20_000
"""Protected files that are compared; a command could make any number of them."""

CONTENTS = ("objects", "logs")
"""Folders of repositories that hold contents only, and any number of them."""

MOST_TOLD = 10
"""Changes that are listed."""

Look: TypeAlias = Mapping[str, tuple[int, ...]]
"""Path → what changes with it."""


@contextmanager
def cover(view: View, protection: Protection) -> Iterator[View]:
    """Yields the view with the files of its workdir; for mounts, placeholders among them.

    They stay until no other command of this or another process needs them.
    """
    if protection != "mounts":
        view = fill_view(view)
        yield replace(view, closed={}) if protection == "notes" else view
        return
    import fcntl

    folder = os.open(view.workdir, FOLDER)
    try:
        _lock(folder, fcntl.LOCK_SH, PATIENCE)
        view = fill_view(view)
        made = {path: path for path, text in view.missing.items() if _make(path, text)}
        yield replace(view, closed={**made, **view.closed})
    finally:
        if _lock(folder, fcntl.LOCK_EX):
            for path in view.names:
                with suppress(OSError):
                    _remove(path)
        _lock(folder, fcntl.LOCK_UN)  # processes that were forked meanwhile have it open, too
        os.close(folder)


def _make(path: Path, text: str | None) -> bool:
    """Makes a placeholder; returns true if there is something now."""
    try:
        with hold_real_folder(path.parent) as folder:
            if text is None:
                os.mkdir(path.name, dir_fd=folder)
            else:
                with open(
                    path.name, "x", opener=partial(os.open, mode=0o666, dir_fd=folder)
                ) as file:
                    file.write(text)
            os.utime(path.name, (TIME, TIME), dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return True  # another command needs it too
    except OSError as error:
        if error.errno in NOT_WRITABLE:
            return False
        raise
    return True


def _remove(path: Path) -> None:
    with hold_real_folder(path.parent) as folder:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        if int(found.st_mtime) == TIME and stat.S_ISDIR(found.st_mode):
            os.rmdir(path.name, dir_fd=folder)
        elif int(found.st_mtime) == TIME and found.st_size <= LONGEST:
            os.unlink(path.name, dir_fd=folder)


def _lock(folder: int, operation: int, patience: float = 0.0) -> bool:
    """Tries to lock or unlock a folder; true if it did. Without locks, placeholders stay."""
    import fcntl

    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(folder, operation | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        except OSError:
            return False


def look(view: View) -> Look:
    """Returns the state of the protected files that a command could change.

    Where existing ones are read-only to it, what is left are links, names that nothing could be
    mounted on, and what the user replaces meanwhile, as `git config` and editors do: a mount goes
    with the file that it is on.
    """
    there = (view.workdir / name for name in os.listdir(view.workdir))  # noqa: PTH208
    late = (path for path in there if path.name.startswith(".env") or path.name == "HEAD")
    names = (*view.names, *late, *view.closed)
    outermost = [str(path) for path in names if view.closed.keys().isdisjoint(path.parents)]
    shallow = {*map(str, view.anchored), *(outermost if view.closed else ())}
    left = [*outermost, *shallow]
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


def compare(before: Look, after: Look, workdir: Path) -> tuple[str, ...]:
    """Returns a note on each protected file that was made, changed or removed meanwhile."""
    changed = dict(before.items() ^ after.items())
    done = {
        path: "made" if path not in before else "changed" if path in after else "removed"
        for path in sorted(changed)
    }
    notes = [
        f"{quote(os.path.relpath(path, workdir))} is protected, and was {what}"
        for path, what in done.items()
        if done.get(os.path.dirname(path), "changed") == "changed"  # noqa: PTH120 - else with it
    ]
    left = len(notes) - MOST_TOLD
    return (*notes[:MOST_TOLD], *([f"and {left} more changes"] if left > 0 else []))
