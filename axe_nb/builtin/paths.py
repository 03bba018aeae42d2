"""Where tools may touch files: below the workdir, however a path is written, wherever links lead.

A path is judged twice: by its words, and by where it really leads. Then it is opened folder by
folder, each by the descriptor of the one above and never through a link, so that nothing can be
exchanged between check and use. Where the system has no such calls (Windows) the real path is
looked at again after opening instead.
Source: X-32, X-33, X-37, X-38; D-20.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from axe_nb.text import nearest, quote
from axe_nb.tools.tool import ToolError

BY_DESCRIPTOR = {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
"""Whether folders can be held open and walked one by one."""

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = os.O_RDONLY | NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
FILE = NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
FILE |= getattr(os, "O_BINARY", 0)

STAY = "Use a path relative to the workdir, inside it"

MAX_PATH = 4096
"""Characters of a path."""

DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(\..*)?", re.IGNORECASE)
"""Names that are no files on Windows."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place below the workdir, held fast while it is used."""

    path: str
    """Relative to the workdir, with `/`; `.` is the workdir itself."""
    name: str
    """What to open in `folder`; without one, an absolute path."""
    folder: int | None
    """Descriptor of the folder that it is in; None where the system has no such calls."""

    def child(self, name: str, folder: int | None) -> Spot:
        """The place of a name in this folder, which `folder` holds open."""
        path = name if self.path == "." else f"{self.path}/{name}"
        return Spot(path, name if folder is not None else str(Path(self.name, name)), folder)


def locate(workdir: Path, path: str) -> tuple[Path, Path]:
    """(the real workdir, where a path really leads, below it); nothing need be there.

    Raises:
        ToolError: it is no path, or leads out of the workdir.
    """
    root = Path(os.path.realpath(workdir))
    if not root.is_dir():
        raise ToolError(f"Working directory not found: {workdir}. Make it, or set another workdir")
    names = words(path, (workdir, root))
    with errors_for_model(path):
        real = Path(os.path.realpath(root.joinpath(*names)))
    if not real.is_relative_to(root):
        raise ToolError(f"Path leads out of the workdir through a link: {path}. {STAY}")
    return root, real


@contextmanager
def hold_place(workdir: Path, path: str, *, create: bool = False) -> Iterator[Spot]:
    """The place that a path means, its folder held open.

    Args:
        path: as a model wrote it.
        create: whether missing folders on the way are made.

    Raises:
        ToolError: it is no path, leads out of the workdir, or a folder on the way is not there.
    """
    root, real = locate(workdir, path)
    parts = real.relative_to(root).parts
    shown = "/".join(parts) or "."
    with errors_for_model(path):
        if BY_DESCRIPTOR:
            with _walked(root, parts[:-1], create) as folder:
                yield Spot(shown, parts[-1] if parts else ".", folder)
        else:
            if create:
                real.parent.mkdir(parents=True, exist_ok=True)
            yield Spot(shown, str(real), None)


def words(path: str, roots: Sequence[Path]) -> tuple[str, ...]:
    """The names that a path consists of, below the workdir; where links lead is not looked at.

    Args:
        roots: absolute paths of the workdir; a path may begin with one of them.

    Raises:
        ToolError: the path is no path, or leads out by its words alone.
    """
    if problem := _malformed(path):
        raise ToolError(f"{problem}: {quote(path[:200])}. {STAY}")
    text = path
    if path.startswith("/"):
        bases = [root.as_posix().rstrip("/") for root in roots]
        inside = [base for base in bases if path == base or path.startswith(f"{base}/")]
        if not inside:
            raise ToolError(f"Path is outside the workdir: {path}. {STAY}")
        text = path[len(inside[0]) :]
    names: list[str] = []
    for name in text.split("/"):
        if name == "..":
            if not names:
                raise ToolError(f"Path leads out of the workdir: {path}. {STAY}")
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def _malformed(path: str) -> str:
    """Why a text is no path that tools take; empty if it is one."""
    if not path.strip():
        return "Path is empty"
    if len(path) > MAX_PATH:
        return "Path is too long"
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in path):
        return "Path has control characters"
    if "\\" in path:
        return "Path has backslashes; write / between folders"
    if re.match(r"~[\w.-]*(/|$)", path):
        return "Path begins with a home folder"
    if re.match(r"[A-Za-z]:", path):
        return "Path begins with a drive"
    names = [name for name in path.split("/") if name not in ("", ".", "..")]
    if any(_is_disguised(name) for name in names):
        return "Path has a name that only looks like another"
    if os.name == "nt" and any(":" in n or n[-1] in " ." or DEVICES.fullmatch(n) for n in names):
        return "Path has a name that Windows reads in another way"
    return ""


def _is_disguised(name: str) -> bool:
    """Whether a name is `..` or has a separator once folded as some file systems fold it."""
    folded = unicodedata.normalize("NFKC", name)
    bare = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn"))
    return not bare.strip(" .") or any(c in bare for c in "/\\")


@contextmanager
def _walked(root: Path, names: tuple[str, ...], create: bool) -> Iterator[int]:
    """The descriptor of a folder, reached name by name and never through a link."""
    folder = os.open(root, FOLDER & ~NO_LINK)
    try:
        for name in names:
            if create:
                _make(name, folder)
            inner = os.open(name, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _make(name: str, folder: int) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return


@contextmanager
def open_folder(spot: Spot) -> Iterator[int | None]:
    """The descriptor of a folder to look into; None where the system has no such calls.

    Raises:
        OSError: it is no folder, or may not be read.
    """
    if spot.folder is None:
        yield None
        return
    folder = os.open(spot.name, FOLDER, dir_fd=spot.folder)
    try:
        yield folder
    finally:
        os.close(folder)


def kind(spot: Spot) -> os.stat_result | None:
    """What is at a place, a link as the link that it is; None where nothing is."""
    try:
        return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(spot: Spot, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the plain file at a place.

    Raises:
        ToolError: there is none, or something that is no plain file.
        OSError: it may not be opened.
    """
    before = kind(spot)
    if before is None:
        raise ToolError(missing(spot))
    if stat.S_ISDIR(before.st_mode):
        raise ToolError(f"Path is a folder: {spot.path}. Use list_dir to see what is in it")
    if not stat.S_ISREG(before.st_mode):
        raise ToolError(f"Not a plain file: {spot.path}. Pipes, devices and sockets are refused")
    descriptor = os.open(spot.name, flags | FILE, dir_fd=spot.folder)
    moved = spot.folder is None and os.path.realpath(spot.name) != spot.name
    if moved or not os.path.samestat(before, os.fstat(descriptor)):
        os.close(descriptor)
        raise ToolError(f"File was exchanged while it was opened: {spot.path}. Try again")
    return descriptor


def missing(spot: Spot) -> str:
    """That there is nothing at a place, and what is near it."""
    folder = Path(spot.name).parent if spot.folder is None else spot.folder
    try:
        with os.scandir(folder) as entries:
            near = nearest(spot.path.rpartition("/")[2], [e.name for e in islice(entries, 1000)])
    except OSError:
        near = ""
    hint = f"did you mean {near}? " if near else ""
    return f"File not found: {spot.path}; {hint}list_dir and find_files show what there is"


@contextmanager
def errors_for_model(path: str) -> Iterator[None]:
    """Turns what the system says inside into an error for the model."""
    try:
        yield
    except OSError as error:
        what, hint = WORDS.get(error.errno or 0, (error.strerror or str(error), ""))
        raise ToolError(f"{what}: {path}" + (f"; {hint}" if hint else "")) from None


FULL = ("No space left to write", "nothing was changed; free some space or write less")

WORDS = {
    errno.ENOENT: ("File not found", "list_dir and find_files show what there is"),
    errno.EACCES: ("Permission denied", "choose another path"),
    errno.EPERM: ("Permission denied", "choose another path"),
    errno.EROFS: ("Permission denied (read-only file system)", "choose another path"),
    errno.ENOTDIR: ("Not a folder on the way", "list_dir shows what there is"),
    errno.EISDIR: ("Path is a folder", "use list_dir to see what is in it"),
    errno.ELOOP: ("Link on the way", "it was made while the path was used, or leads in a circle"),
    errno.ENAMETOOLONG: ("Path is too long", "choose a shorter name"),
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: FULL,
}
"""Number of a system error → (what is wrong, what to do next)."""
