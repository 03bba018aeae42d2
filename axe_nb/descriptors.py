"""Folders and files opened name by name, each by its parent's descriptor, never through a link.

What is then done by the descriptor of a folder is done there, whatever takes its place meanwhile.
Source: X-32, X-33; D-53.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BY_DESCRIPTOR = {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
"""True if the system can open and walk folders by descriptor; Windows cannot."""

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = os.O_RDONLY | NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
PASSED = FOLDER | getattr(os, "O_PATH", getattr(os, "O_SEARCH", 0))
"""Flags for a folder that need not be readable."""

FILE = NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
FILE |= getattr(os, "O_BINARY", 0)
"""Flags for a file; opening a pipe does not wait for its writer."""


@contextmanager
def hold_real_folder(path: Path, flags: int = PASSED, made: int = 0) -> Iterator[int | None]:
    """Yields the descriptor of a folder; None if the system has no such calls.

    Args:
        path: the folder, an absolute path without links.
        flags: for the folder itself; those above it need not be readable.
        made: number of its last names that are made where they are missing.

    Raises:
        OSError: a link is in its place, or in that of a folder above it; or it cannot be opened.
    """
    if not BY_DESCRIPTOR:
        if made:
            path.mkdir(parents=True, exist_ok=True)
        yield None
        return
    folder = os.open(path.anchor, PASSED)
    try:
        for rest, name in enumerate(path.parts[1:], 2 - len(path.parts)):
            if rest > -made:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            inner = os.open(name, PASSED if rest else flags, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def open_real_file(path: Path) -> int:
    """Returns the descriptor of a regular file, an absolute path without links, for reading.

    Raises:
        OSError: a link is in its place, or in that of a folder above it; or it cannot be opened, or
            is not a regular file.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "not a path")
    with hold_real_folder(path.parent) as folder:
        name = str(path) if folder is None else path.name
        handle = os.open(name, os.O_RDONLY | FILE, dir_fd=folder)
    try:
        if folder is None and os.path.realpath(path) != str(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a file")
    except OSError:
        os.close(handle)
        raise
    return handle
