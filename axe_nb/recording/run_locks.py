"""Locks that show whether the process of a run still lives; the system releases them if it dies.

A run holds the byte of its own number in a file beside the history.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def identify(path: Path) -> tuple[int, int] | None:
    """Returns what tells a file from another one at the same path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class RunLocks:
    """The locks of this process, and a look at those of others.

    POSIX drops all locks of a process on a file when it closes any descriptor of it: the file is
    opened once and stays open. A forked process has none of its parent's locks.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file, which is made if it is missing.

        Raises:
            OSError: it cannot be opened.
        """
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self._path = path
        self._descriptor = os.open(path, flags, 0o600)
        self._file = identify(path)
        self._own: set[int] = set()
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def is_gone(self) -> bool:
        """True if the path names another file by now, or none."""
        return identify(self._path) != self._file

    def hold(self, run: int) -> None:
        """Takes the lock of a run, where the file system has locks."""
        with self._lock:
            self._list_own().add(run)
            self._try(run)

    def release(self, run: int) -> None:
        """Releases the lock of a run that has ended."""
        with self._lock:
            self._list_own().discard(run)
            self._unlock(run)

    def is_held(self, run: int) -> bool:
        """True if the process of the run lives, here or elsewhere, or if that is unknown."""
        with self._lock:
            if run in self._list_own():
                return True
            is_free = self._try(run, shared=True)
            if is_free:
                self._unlock(run)
            return not is_free

    def _list_own(self) -> set[int]:
        if self._pid != os.getpid():
            self._own, self._pid = set(), os.getpid()
        return self._own

    if sys.platform == "win32":

        def _try(self, run: int, *, shared: bool = False) -> bool:
            try:
                os.lseek(self._descriptor, run, os.SEEK_SET)
                msvcrt.locking(self._descriptor, msvcrt.LK_NBLCK, 1)
            except OSError:
                return False
            return True

        def _unlock(self, run: int) -> None:
            os.lseek(self._descriptor, run, os.SEEK_SET)
            msvcrt.locking(self._descriptor, msvcrt.LK_UNLCK, 1)

    else:

        def _try(self, run: int, *, shared: bool = False) -> bool:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            try:
                fcntl.lockf(self._descriptor, kind | fcntl.LOCK_NB, 1, run)
            except OSError:
                return False
            return True

        def _unlock(self, run: int) -> None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, run)
