"""Placeholders: empty files and folders in the workdir that keep a command from making its own.

A sandbox can mount something read-only only over what exists. So a protected name that does not
exist is made before the command, and removed with the last command that runs there. If the kernel
is killed meanwhile, the next command removes it: it is known by its time.
Source: D-82; safety-facts §1.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from axe_nb.descriptors import FOLDER, hold_real_folder

TIME = 946_684_807
"""Seconds since 1970 at which all placeholders were last changed: 1 January 2000, and 7 s."""

LONGEST = 2
"""Most bytes of a placeholder."""

PATIENCE = 2.0
"""Seconds to wait for a kernel that removes its placeholders, which takes milliseconds."""

NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The command could not make the name either."""


class Covers:
    """The placeholders of a workdir, as long as one of the commands that run there needs them."""

    def __init__(self, workdir: Path) -> None:
        """Waits until no other process removes them, for a moment at most; has to be ended.

        Raises:
            OSError: the workdir cannot be opened.
        """
        self._paths: dict[Path, None] = {}
        self._lock = os.open(workdir, FOLDER)
        _lock(self._lock, is_shared=True)

    def make(self, missing: Mapping[Path, str | None]) -> list[Path]:
        """Makes placeholders.

        Args:
            missing: path → its text; None = a folder.

        Returns:
            Those that exist now; the others could not be made by a command either.
        """
        self._paths |= dict.fromkeys(missing)
        return [path for path, text in missing.items() if _make(path, text)]

    def end(self, others: Iterable[Path] = ()) -> None:
        """Removes them if no other command needs them.

        Args:
            others: paths where a kernel that was killed may have left some.
        """
        if _lock(self._lock, is_shared=False):
            for path in dict.fromkeys([*self._paths, *others]):
                with suppress(OSError):
                    _remove(path)
        _unlock(self._lock)
        os.close(self._lock)


def is_placeholder(path: Path) -> bool:
    """True if an empty file or folder was made here for a command."""
    try:
        return _is_one(path.lstat())
    except OSError:
        return False


def _is_one(found: os.stat_result) -> bool:
    is_empty = stat.S_ISDIR(found.st_mode) or (
        stat.S_ISREG(found.st_mode) and found.st_size <= LONGEST
    )
    return is_empty and int(found.st_mtime) == TIME


def _make(path: Path, text: str | None) -> bool:
    try:
        with hold_real_folder(path.parent) as folder:
            if text is None:
                os.mkdir(path.name, dir_fd=folder)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                number = os.open(path.name, flags, 0o644, dir_fd=folder)
                os.write(number, text.encode())
                os.close(number)
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
        if _is_one(found):
            remove = os.rmdir if stat.S_ISDIR(found.st_mode) else os.unlink
            remove(path.name, dir_fd=folder)


def _lock(folder: int, *, is_shared: bool) -> bool:
    """Tries to lock a folder, for a moment if the lock is to be shared; returns true if it has it.

    Where the file system has no locks, or another program holds one, placeholders stay.
    """
    import fcntl

    end = time.monotonic() + (PATIENCE if is_shared else 0.0)
    while True:
        try:
            fcntl.flock(folder, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        except OSError:
            return False
        else:
            return True


def _unlock(folder: int) -> None:
    """Unlocks a folder, also for processes that were forked meanwhile and have it open."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_UN)
