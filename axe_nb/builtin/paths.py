"""Checked file access for tools, confined to the workdir.

A path is checked as written, and again with links resolved. It is then opened folder by folder,
each relative to the descriptor of the parent folder and never through a link. On Windows, which has
no such descriptors, the real path is checked once more. Writing to a protected file needs the
user's approval, and files with keys are never read. Guards check these rules before a call, and
tools check them again once the parent folder is open. Source: X-32, X-33, X-37, X-38, D-20, D-83.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from axe_nb.agents.protected import find_read_protection, find_write_protection
from axe_nb.paths import FILE, FOLDER, Names, find_names, hold_real_folder
from axe_nb.text import nearest, printable, quote
from axe_nb.tools.tool import (
    CallSite,
    Guard,
    PermissionDenied,
    ToolContext,
    ToolError,
    text_argument,
)

STAY = "Use a relative path inside the workdir"
MAX_PATH, MAX_FOLDERS, MAX_NAMES = 4096, 64, 100  # characters, folders to resolve, links to a file

DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Spot:
    """A path in the workdir, with the descriptor of the open parent folder."""

    name: str
    """Name to open relative to `folder`; an absolute path if `folder` is None."""
    folder: int | None
    """Descriptor of the parent folder; None on Windows, which does not support `dir_fd`."""
    names: Names

    @property
    def path(self) -> str:
        return self.names.path

    def child(self, name: str, folder: int | None) -> Spot:
        """Returns the `Spot` of an entry of this folder; `folder` is this folder's descriptor."""
        inner = name if folder is not None else str(Path(self.name, name))
        return Spot(inner, folder, self.names.child(name))


def locate(workdir: Path, path: str) -> Names:
    """Checks a path from a model; returns the names under which the file can be reached.

    The file need not exist. Raises ToolError if the path is invalid or leads out of the workdir.
    """
    if Path(os.path.realpath(workdir)) != workdir:
        raise ToolError(f"The working directory {workdir} was replaced by a link. Start a new run")
    if not workdir.is_dir():
        raise ToolError(
            f"Working directory not found: {workdir}. Create it, or set another workdir"
        )
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    of_windows = (":" in p or p[-1] in " ." or DEVICES.fullmatch(p) for p in parts)
    folded = [
        "".join(c for c in normalize("NFKC", part) if category(c) not in ("Cf", "Mn"))
        for part in parts
    ]
    problems = {
        "Path is empty": not path.strip(),
        "Path is too long": len(path) > MAX_PATH,
        "Path contains control characters": {"Cc", "Cs"} & {*map(category, path)},
        "Path contains backslashes; use / between folders": "\\" in path,
        "Path starts with a home folder": re.match(r"~[\w.-]*(/|$)", path),
        "Path starts with a drive": re.match(r"[A-Za-z]:", path),
        "Path contains look-alike characters": any(
            not part.strip(" .") or "/" in part or "\\" in part for part in folded
        ),
        "Path contains a name that Windows treats specially": os.name == "nt" and any(of_windows),
    }
    for problem, is_there in problems.items():
        if is_there:
            raise ToolError(f"{problem}: {quote(path[:200])}. {STAY}")
    given = Path(os.path.normpath(workdir / path))
    places = [*reversed(given.parents), given]
    if not path.startswith("/") and workdir not in places:
        raise ToolError(f"Path leads out of the workdir: {path}. {STAY}")
    real_places = map(os.path.realpath, places[:MAX_FOLDERS])
    # on Windows, two slashes precede the name of a server
    if path.startswith("//") or (path.startswith("/") and str(workdir) not in real_places):
        raise ToolError(f"Path is outside the workdir: {path}. {STAY}")
    with errors_for_model(path):
        names = find_names(workdir, given)
    if not names.real.is_relative_to(workdir):
        raise ToolError(f"Path leads out of the workdir through a link: {path}. {STAY}")
    return names


@contextmanager
def hold_place(workdir: Path, path: str, *, create: bool = False) -> Iterator[Spot]:
    """Yields a path's `Spot`, its parent folder open; `create` creates missing folders."""
    names = locate(workdir, path)
    is_top = names.real == workdir
    above = workdir if is_top else names.real.parent
    made = len(above.parts) - len(workdir.parts) if create else 0
    with errors_for_model(path), hold_real_folder(above, FOLDER, made) as folder:
        name = str(names.real) if folder is None else "." if is_top else names.real.name
        yield Spot(name, folder, names)


@contextmanager
def scan_folder(spot: Spot) -> Iterator[tuple[int | None, Iterator[os.DirEntry[str]]]]:
    """Yields a folder's descriptor (None on Windows) and an iterator over its entries."""
    if spot.folder is None:
        with os.scandir(spot.name) as entries:
            yield None, entries
        return
    folder = os.open(spot.name, FOLDER, dir_fd=spot.folder)
    try:
        with os.scandir(folder) as entries:
            yield folder, entries
    finally:
        os.close(folder)


def kind(spot: Spot) -> os.stat_result | None:
    try:
        return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(spot: Spot, flags: int = os.O_RDONLY) -> int:
    """Opens a file and returns the file's descriptor.

    Raises ToolError if the path does not lead to a regular file.
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
    try:
        yield
    except OSError as error:
        is_missing = error.errno == errno.ENOENT
        what = "File not found" if is_missing else error.strerror or str(error)
        step = "use list_dir or find_files to see what exists, or choose another path"
        raise ToolError(f"{what}: {path}; {step}") from None


def guard_write(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """Returns the guard of a call to write_file; protected files need the user's approval.

    Raises ToolError if the path is invalid.
    """
    names = locate(site.workdir, text_argument(arguments, "path"))
    reason = _find_reason(names, partial(find_write_protection, sources=site.sources))
    if not reason:
        folder = names.path.rpartition("/")[0]
        where = f"files in {printable(folder)}/" if folder else "files directly in the workdir"
        return Guard(covers=where)
    is_hidden = os.path.lexists(names.real) and _find_reason(names, find_read_protection)
    replaces = "it replaces a file whose content is hidden here" if is_hidden else ""
    told = f"{printable(names.path)} is protected: {reason}"
    return Guard(floor="ask", reason=told, path=names.path, note=replaces)


def guard_edit(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """Returns the guard of a call to edit_file; protected files need the user's approval.

    Raises ToolError if the path is invalid or the file must not be read.
    """
    check_read(locate(site.workdir, text_argument(arguments, "path")))
    return guard_write(arguments, site)


def check_write(names: Names, ctx: ToolContext) -> None:
    """Raises PermissionDenied if a protected path was not approved for this call."""
    reason = _find_reason(names, partial(find_write_protection, sources=ctx.sources))
    approved = ctx.guard.path if ctx.guard else ""
    if reason and names.path != approved:
        raise PermissionDenied(f"permission denied: {printable(names.path)} is protected: {reason}")


def check_read(names: Names) -> None:
    if reason := _find_reason(names, find_read_protection):
        raise PermissionDenied(
            f"permission denied: tools cannot read {printable(names.path)}: {reason}. Ask the user "
            "for what you need from it"
        )


def may_read(names: Names) -> bool:
    return not _find_reason(names, find_read_protection)


def _find_reason(names: Names, find: Callable[[Path, Path], str]) -> str:
    """Returns the reason why a file is protected; empty if the file is not protected.

    `find` is called for each name of the file, and returns a reason or an empty string. A file with
    more than `MAX_NAMES` names is always protected.
    """
    if len(names.all) > MAX_NAMES:
        return "too many links lead to it"
    for path in reversed(names.all):
        if reason := find(path, names.folder):
            shown = printable(path.relative_to(names.folder).as_posix())
            return reason if path == names.real else f"{reason} (as {shown})"
    return ""
