"""The user's own files: read within bounds, written whole or not at all, shown without their home.

Source: B-1, B-6, B-12.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path

from axe_nb.errors import ConfigError

MAX_TEXT = 1024 * 1024
"""Bytes of a file that is read whole: an agent, settings, a skill."""


def expand_home(path: str | Path) -> Path:
    """The path with a leading `~` as the home folder; as it is where there is no such home."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  Path.expanduser raises without a home


def display_path(path: Path) -> str:
    """The path with the home folder as `~`, so that messages are the same everywhere."""
    try:
        return f"~/{path.relative_to(expand_home('~')).as_posix()}"
    except ValueError:
        return str(path)


def reason(error: OSError) -> str:
    """Why a file could not be used, in a few words."""
    return error.strerror or str(error)


def read_text(path: Path) -> str:
    """Text of a file of UTF-8, with or without a byte order mark, whatever its line ends.

    Raises:
        OSError: it is not there, no file, too large or not UTF-8; `reason` says which.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a file")
        with path.open("rb") as file:
            data = file.read(MAX_TEXT + 1)
    except ValueError:  # a NUL in the path
        raise OSError(errno.EINVAL, "not a path") from None
    if len(data) > MAX_TEXT:
        raise OSError(errno.EFBIG, f"larger than {MAX_TEXT} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OSError(errno.EILSEQ, f"not UTF-8 (at line {line})") from None


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader sees the old or the new one, never a part.

    Raises:
        ConfigError: it cannot be written; the old one, if any, is as it was.
    """
    target = path.resolve()  # a link stays a link
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), text)
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"cannot write {display_path(path)}: {reason(error)}") from None


def write_new(path: Path, text: str, mode: int = 0o666) -> None:
    """Writes a file that must not exist yet.

    Args:
        mode: who may do what with it, before the umask.

    Raises:
        ConfigError: it exists, or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), text)
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.lexists(path):
            known = f"{display_path(path)} exists already"
            raise ConfigError(known, hint="it was left as it is") from None
        raise ConfigError(f"cannot write {display_path(path)}: {reason(error)}") from None


def _write(handle: int, text: str) -> None:
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
