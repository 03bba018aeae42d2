"""Placeholders: empty files and folders in the workdir that keep a command from making its own.

A sandbox can mount something read-only only over what exists. So a protected name that does not
exist is made before the command, and removed with the last command that runs there. If the kernel
is killed meanwhile, the next command removes it: it is known by its time. No link is followed: a
command may have put one in the place of a folder above it.
Source: D-82; safety-facts §1.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from axe_nb.descriptors import FOLDER, hold_real_folder
from axe_nb.sandbox.view import View, fill_view

TIME = 946_684_807
"""Seconds since 1970 at which all placeholders were last changed: 1 January 2000, and 7 s."""

LONGEST = 2
"""Most bytes of a placeholder."""

PATIENCE = 2.0
"""Seconds to wait for a kernel that removes its placeholders, which takes milliseconds."""

NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The command could not make the name either."""


@contextmanager
def cover(view: View) -> Iterator[View]:
    """Yields the view with the files of its workdir, placeholders among them.

    They stay until no other command of this or another process needs them.

    Raises:
        ConfigError: a link has taken the place of the workdir or a folder above it.
        OSError: the workdir cannot be opened.
    """
    import fcntl

    folder = os.open(view.workdir, FOLDER)
    try:
        _lock(folder, fcntl.LOCK_SH, PATIENCE)
        view = fill_view(view)
        made = [path for path, text in view.missing.items() if _make(path, text)]
        yield replace(view, read_only=(*view.read_only, *made))
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
    """Tries to lock or unlock a folder, for a while; returns true if it did.

    Where the file system has no locks, or another program holds one, placeholders stay.
    """
    import fcntl

    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(folder, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        except OSError:
            return False
        else:
            return True
