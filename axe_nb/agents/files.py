"""Bounded reads and atomic writes of the user's files, and paths for display.

Source: B-1, B-6, B-12.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from axe_nb.errors import ConfigError
from axe_nb.paths import open_real_file, replace_file

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MAX_TEXT = 1024 * 1024  # bytes of an agent, settings or skill file


def expand_home(path: str | Path) -> Path:
    """Expands a leading `~`; returns the path unchanged if the home folder is unknown."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  Path.expanduser raises without a home


def display_path(path: Path) -> str:
    """Formats a path with `~` for the home folder, so that messages do not vary between users."""
    try:
        below = path.relative_to(expand_home("~")).as_posix()
    except ValueError:
        return str(path)
    return "~" if below == "." else f"~/{below}"


def reason(error: Exception) -> str:
    return getattr(error, "strerror", "") or str(error)


def read_text(path: Path) -> str:
    """Reads a UTF-8 text file of at most `MAX_TEXT` bytes, with or without a byte order mark."""
    try:
        return read_real_text(Path(os.path.realpath(path)))
    except ValueError:  # a NUL
        raise OSError(errno.EINVAL, "not a path") from None


def read_real_text(path: Path) -> str:
    """Reads a file like `read_text`; raises OSError if the (absolute) path contains a link."""
    with os.fdopen(open_real_file(path), "rb") as file:
        data = file.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise OSError(errno.EFBIG, f"larger than {MAX_TEXT} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OSError(errno.EILSEQ, f"not UTF-8 (at line {line})") from None


def write_whole(path: Path, text: str, mode: int | None = None) -> None:
    """Writes a file atomically; if `mode` is None, an existing file keeps its permissions."""
    try:
        target = Path(os.path.realpath(path))  # keeps a symbolic link
        if target.is_symlink():  # a loop of links; it would be replaced otherwise
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        is_inside = target.is_relative_to(os.path.realpath(path.parent))
        if path.is_symlink() and not is_inside and not target.exists():  # may come with a project
            problem = f"it is a link to {display_path(target)}, which does not exist"
            raise OSError(errno.ENOENT, problem)
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, text.encode(), mode)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ConfigError(f"cannot write {display_path(path)}: {reason(error)}") from None


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Holds a lock, so that only one process at a time reads, changes and rewrites a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot write {display_path(path)}: {reason(error)}") from None
    try:
        with suppress(OSError):
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # waits for up to ten seconds
            else:
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # releases the lock


def write_new(path: Path, text: str, mode: int = 0o666) -> None:
    """Writes a new file. Raises ConfigError if the file exists or cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.lexists(path):
            message = f"{display_path(path)} already exists"
            raise ConfigError(message, hint="it was not changed") from None
        raise ConfigError(f"cannot write {display_path(path)}: {reason(error)}") from None
