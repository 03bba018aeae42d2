"""Checked file access for tools, confined to the workdir.

A path is checked as written, and again with links resolved. The real path is then opened folder by
folder, each relative to the descriptor of its parent and never through a link. On Windows, which
has no such descriptors, the real path is checked once more. Writing to a protected file needs the
user's approval, and files with keys are never read. Guards check these rules before a call, and
tools check them again. Source: X-32, X-33, X-37, X-38, D-20, D-83.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from axe_nb.agents.protected import find_read_protection, find_write_protection
from axe_nb.paths import FOLDER, Names, find_names, hold_real_folder, open_real_file
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
def scan_folder(real: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Yields an iterator over the entries of a folder, given by its real path."""
    with (
        hold_real_folder(real, FOLDER) as folder,
        os.scandir(real if folder is None else folder) as entries,
    ):
        yield entries


def kind(names: Names) -> os.stat_result | None:
    try:
        return os.lstat(names.real)
    except FileNotFoundError:
        return None


def open_file(names: Names, flags: int = os.O_RDONLY) -> int:
    """Opens a file and returns the file's descriptor.

    Raises ToolError if the path does not lead to a regular file.
    """
    at = kind(names)
    if at is None:
        raise ToolError(missing(names))
    if stat.S_ISDIR(at.st_mode):
        raise ToolError(f"Path is a folder: {names.path}. Use list_dir to list it")
    if not stat.S_ISREG(at.st_mode):
        raise ToolError(f"Not a regular file: {names.path}. Pipes, devices and sockets are refused")
    return open_real_file(names.real, flags)


def missing(names: Names) -> str:
    try:
        with scan_folder(names.real.parent) as entries:
            near = nearest(names.real.name, [e.name for e in islice(entries, 1000)])
    except OSError:
        near = ""
    hint = f"did you mean {near}? " if near else ""
    return f"File not found: {names.path}; {hint}use list_dir or find_files to see what exists"


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
