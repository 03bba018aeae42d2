"""Confines file access to the workdir, whatever the spelling of a path and the targets of links.

A path is checked twice: as it is written, and after resolving links. Then it is opened folder by
folder, each by the descriptor of its parent and never through a link, so that nothing can be
exchanged between check and use. On systems without such calls (Windows), the real path is
checked again after opening instead.
Source: X-32, X-33, X-37, X-38; D-20.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from axe_nb.descriptors import FILE, FOLDER, hold_real_folder
from axe_nb.links import Names, find_names
from axe_nb.text import nearest, quote
from axe_nb.tools.tool import ToolError

STAY = "Use a relative path inside the workdir"

MAX_PATH = 4096
"""Characters of a path."""

MAX_FOLDERS = 64
"""Folders of an absolute path that are compared with the workdir."""

DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(\..*)?", re.IGNORECASE)
"""Names that are devices on Windows."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place below the workdir whose folder is held open while it is used."""

    name: str
    """Name to open in `folder`; without `folder`, an absolute path."""
    folder: int | None
    """Descriptor of its folder; None if the system has no such calls."""
    names: Names
    """The names that it is reached by; each can protect it."""

    @property
    def path(self) -> str:
        """Its path relative to the workdir, with `/`; `.` is the workdir itself."""
        return self.names.path

    def child(self, name: str, folder: int | None) -> Spot:
        """Returns the place of a name in this folder, which `folder` holds open."""
        inner = name if folder is not None else str(Path(self.name, name))
        return Spot(inner, folder, self.names.child(name))


def locate(workdir: Path, path: str) -> Names:
    """Returns the names of a path in the workdir; the path need not exist.

    Args:
        workdir: its real path, as the run began; another folder may have taken its place.
        path: path from the model.

    Raises:
        ToolError: the path is not valid, or leads out of the workdir; or a link has taken the place
            of the workdir or of a folder above it.
    """
    if Path(os.path.realpath(workdir)) != workdir:
        raise ToolError(f"The working directory {workdir} was replaced by a link. Start a new run")
    if not workdir.is_dir():
        raise ToolError(
            f"Working directory not found: {workdir}. Create it, or set another workdir"
        )
    given = workdir.joinpath(*words(path, workdir))
    with errors_for_model(path):
        names = find_names(workdir, given)
    if not names.real.is_relative_to(workdir):
        raise ToolError(f"Path leads out of the workdir through a link: {path}. {STAY}")
    return names


@contextmanager
def hold_place(workdir: Path, path: str, *, create: bool = False) -> Iterator[Spot]:
    """Yields the place of a path while its folder is held open.

    Args:
        workdir: as for `locate`.
        path: path from the model.
        create: create missing parent folders.

    Raises:
        ToolError: the path is not valid, leads out of the workdir, or a parent folder is missing.
    """
    names = locate(workdir, path)
    is_top = names.real == workdir
    above = workdir if is_top else names.real.parent
    made = len(above.parts) - len(workdir.parts) if create else 0
    with errors_for_model(path), hold_real_folder(above, FOLDER, made) as folder:
        name = str(names.real) if folder is None else "." if is_top else names.real.name
        yield Spot(name, folder, names)


def words(path: str, root: Path) -> tuple[str, ...]:
    """Splits a path into its names below the workdir.

    Args:
        path: path from the model. An absolute one may name the workdir through links.
        root: the real workdir.

    Raises:
        ToolError: the path is not valid, or is written to lead out of the workdir.
    """
    if problem := _check_form(path):
        raise ToolError(f"{problem}: {quote(path[:200])}. {STAY}")
    given = Path(path)
    if path.startswith("/"):
        bases = [*reversed(given.parents), given][:MAX_FOLDERS]
        base = next((base for base in bases if os.path.realpath(base) == str(root)), None)
        if base is None or path.startswith("//"):  # that may be a server of Windows
            raise ToolError(f"Path is outside the workdir: {path}. {STAY}")
        given = given.relative_to(base)
    names: list[str] = []
    for name in given.parts:
        if name != "..":
            names.append(name)
        elif names:
            names.pop()
        else:
            raise ToolError(f"Path leads out of the workdir: {path}. {STAY}")
    return tuple(names)


def _check_form(path: str) -> str:
    """Returns the reason to reject a path; empty if it is well-formed."""
    names = [name for name in path.split("/") if name not in ("", ".", "..")]
    of_windows = (":" in n or n[-1] in " ." or DEVICES.fullmatch(n) for n in names)
    problems = {
        "Path is empty": not path.strip(),
        "Path is too long": len(path) > MAX_PATH,
        "Path contains control characters": {"Cc", "Cs"} & {*map(unicodedata.category, path)},
        "Path contains backslashes; use / between folders": "\\" in path,
        "Path starts with a home folder": re.match(r"~[\w.-]*(/|$)", path),
        "Path starts with a drive": re.match(r"[A-Za-z]:", path),
        "Path contains look-alike characters": any(map(_is_disguised, names)),
        "Path contains a name that Windows treats specially": os.name == "nt" and any(of_windows),
    }
    return next((problem for problem, is_there in problems.items() if is_there), "")


def _is_disguised(name: str) -> bool:
    """True if a name becomes `..` or gains a separator under Unicode normalization."""
    folded = unicodedata.normalize("NFKC", name)
    bare = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn"))
    return not bare.strip(" .") or any(c in bare for c in "/\\")


@contextmanager
def open_folder(spot: Spot) -> Iterator[int | None]:
    """Yields the descriptor of a folder to list; None if the system has no such calls.

    Raises:
        OSError: it is not a folder, or cannot be read.
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
    """Returns the status of a place without following links; None if nothing exists there."""
    try:
        return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(spot: Spot, flags: int = os.O_RDONLY) -> int:
    """Opens the regular file at a place and returns its descriptor.

    Raises:
        ToolError: there is no file, or it is not a regular one.
        OSError: the file cannot be opened.
    """
    before = kind(spot)
    if before is None:
        raise ToolError(missing(spot))
    if stat.S_ISDIR(before.st_mode):
        raise ToolError(f"Path is a folder: {spot.path}. Use list_dir to list it")
    if not stat.S_ISREG(before.st_mode):
        raise ToolError(f"Not a regular file: {spot.path}. Pipes, devices and sockets are refused")
    descriptor = os.open(spot.name, flags | FILE, dir_fd=spot.folder)
    moved = spot.folder is None and os.path.realpath(spot.name) != spot.name
    if moved or not os.path.samestat(before, os.fstat(descriptor)):
        os.close(descriptor)
        raise ToolError(f"File was replaced while it was being opened: {spot.path}. Try again")
    return descriptor


def missing(spot: Spot) -> str:
    """Formats the error for a missing file, with a similar name if there is one."""
    folder = Path(spot.name).parent if spot.folder is None else spot.folder
    try:
        with os.scandir(folder) as entries:
            near = nearest(spot.path.rpartition("/")[2], [e.name for e in islice(entries, 1000)])
    except OSError:
        near = ""
    hint = f"did you mean {near}? " if near else ""
    return f"File not found: {spot.path}; {hint}use list_dir or find_files to see what exists"


@contextmanager
def errors_for_model(path: str) -> Iterator[None]:
    """Turns system errors raised inside into tool errors."""
    try:
        yield
    except OSError as error:
        what, hint = WORDS.get(error.errno or 0, (error.strerror or str(error), ""))
        raise ToolError(f"{what}: {path}" + (f"; {hint}" if hint else "")) from None


DENIED = ("Permission denied", "choose another path")
FULL = ("No space left to write", "nothing was changed; free some space, or write less")
WORDS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), DENIED),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), FULL),
    errno.ENOENT: ("File not found", "use list_dir or find_files to see what exists"),
    errno.EROFS: ("Permission denied (read-only file system)", "choose another path"),
    errno.ENOTDIR: ("A parent of this path is not a folder", "use list_dir to see what exists"),
    errno.EISDIR: ("Path is a folder", "use list_dir to list it"),
    errno.ELOOP: ("Path contains a link", "it was created during the call, or is part of a cycle"),
    errno.ENAMETOOLONG: ("Path is too long", "choose a shorter name"),
}
"""Number of a system error → (problem, next step)."""
