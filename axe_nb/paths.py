"""Finds all names of a file, and opens files without following links.

The names of a file are the given path, the path after following each link on the way, and the real
path; any name may be protected. Folders are opened one by one, each relative to the descriptor of
its parent, so that replacing a folder meanwhile does no harm. Source: D-53, D-83, X-32, X-33.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

BY_DESCRIPTOR = {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
"""True if the system can open and walk folders by descriptor; Windows cannot."""

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = os.O_RDONLY | NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
PASSED = FOLDER | getattr(os, "O_PATH", getattr(os, "O_SEARCH", 0))
"""Flags for opening a folder that need not be readable."""

FILE = NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
FILE |= getattr(os, "O_BINARY", 0)
"""Flags for opening a file; opening a pipe does not wait for a writer."""

Links: TypeAlias = Mapping[str, Sequence[Path]]
"""Maps each real path, case-folded, to the links that lead to that path."""


@dataclass(frozen=True, slots=True)
class Names:
    """All names of a file or folder below `folder`, which is a real path."""

    folder: Path
    path: str
    """The real path relative to `folder`, with `/` as the separator; `.` is the folder itself."""
    all: tuple[Path, ...]
    """All absolute paths of the file. The last is the real path, which may be outside `folder`;
    the others are inside."""
    links: Links = field(repr=False)
    """The links directly in `folder` that lead to other places inside `folder`."""

    @property
    def real(self) -> Path:
        return self.all[-1]

    def child(self, name: str) -> Names:
        """Returns all paths of the entry `name` in this folder; the entry must not be a link."""
        path = name if self.path == "." else f"{self.path}/{name}"
        linked = self.links.get(_fold(self.real / name), ()) if self.links else ()
        return Names(self.folder, path, (*linked, *(p / name for p in self.all)), self.links)


def find_names(folder: Path, path: Path, links: Links | None = None) -> Names:
    """Returns all names of the file at the absolute `path`, inside the real path `folder`."""
    *passed, real = follow_links(path)
    links = list_links(folder) if links is None else links
    for place in (real, *real.parents):
        passed += (link / real.relative_to(place) for link in links.get(_fold(place), ()))
    inside = (name for name in passed if name.is_relative_to(folder) and name != real)
    shown = Path(os.path.relpath(real, folder)).as_posix()
    return Names(folder, shown, (*dict.fromkeys(inside), real), links)


def follow_links(path: Path) -> tuple[Path, ...]:
    """Returns the given absolute path, the path after following each link, and the real path."""
    passed = [path]
    while BY_DESCRIPTOR and (
        link := next(filter(os.path.islink, (*reversed(passed[-1].parents), passed[-1])), None)
    ):
        if len(passed) > 40:  # the limit of Linux
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = os.readlink(link)  # noqa: PTH115 - as written
        passed.append(Path(link.parent, target, passed[-1].relative_to(link)))
    return *(Path(os.path.normpath(name)) for name in passed), Path(os.path.realpath(path))


def list_links(folder: Path) -> Links:
    """Returns the links directly in a real folder that lead to other places inside the folder."""
    found: dict[str, list[Path]] = {}
    with os.scandir(folder) as entries:
        for link in (folder / entry.name for entry in entries if entry.is_symlink()):
            real = Path(os.path.realpath(link))
            if real != folder and real.is_relative_to(folder):
                found.setdefault(_fold(real), []).append(link)
    return found


def _fold(path: Path) -> str:
    """Normalizes a path as a case-insensitive file system does."""
    return unicodedata.normalize("NFC", str(path)).casefold()


@contextmanager
def hold_real_folder(path: Path, flags: int = PASSED, made: int = 0) -> Iterator[int | None]:
    """Opens a folder, given as an absolute path without links, and yields its descriptor.

    `flags` apply to the folder itself; its parents need not be readable. The last `made` folders of
    the path are created if they are missing. Yields None where `BY_DESCRIPTOR` is False.
    """
    if not BY_DESCRIPTOR:
        if made:
            path.mkdir(parents=True, exist_ok=True)
        yield None
        return
    folder = os.open(path.anchor, PASSED if path.parts[1:] else flags)
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


def open_real_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Opens a regular file, by default for reading.

    Raises OSError if the path leads through a link, or to anything but a regular file.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "not a path")
    with hold_real_folder(path.parent) as folder:
        name = str(path) if folder is None else path.name
        handle = os.open(name, flags | FILE, dir_fd=folder)
    try:
        if folder is None and os.path.realpath(path) != str(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a file")
    except OSError:
        os.close(handle)
        raise
    return handle


def replace_file(path: Path, data: bytes, mode: int | None = None, made: int = 0) -> None:
    """Writes a file atomically, given its absolute path without links.

    The last `made` folders above the file are created if they are missing. If `mode` is None, an
    existing file keeps its permissions. It keeps its owner, if the system allows that.
    """
    with hold_real_folder(path.parent, made=made) as folder:
        name = str(path) if folder is None else path.name
        temporary = str(Path(name).with_name(f".axe-{secrets.token_hex(6)}.tmp"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
        handle = os.open(temporary, flags, 0o666 if mode is None else mode, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                with suppress(FileNotFoundError):
                    old = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    mode = stat.S_IMODE(old.st_mode) if mode is None else mode
                    if hasattr(os, "fchown"):
                        with suppress(OSError):  # only an administrator may change owners
                            os.fchown(handle, old.st_uid, old.st_gid)
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(handle, mode)
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
