"""Protected files for the file tools: approval for each path, keys never read.

The guard asks about the path before the call; the tool checks the file that it has opened, since a
link may have been exchanged meanwhile. All names of a file count: as it is given, as each link
on the way says, and those of links directly in the workdir that lead to it.
Source: D-83; issue 9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from axe_nb.agents.protected import find_read_protection, find_write_protection
from axe_nb.builtin.paths import locate
from axe_nb.links import Names
from axe_nb.text import printable
from axe_nb.tools.tool import CallSite, Guard, PermissionDenied, ToolContext, text_argument

MAX_NAMES = 100
"""Names of one file that are looked at."""


def guard_write(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """The guard of write_file.

    Raises:
        ToolError: the path is not valid, or leads out of the workdir.
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
    """The guard of edit_file, which also reads the file.

    Raises:
        ToolError: the path is not valid, leads out of the workdir, or may not be read.
    """
    check_read(locate(site.workdir, text_argument(arguments, "path")))
    return guard_write(arguments, site)


def check_write(names: Names, ctx: ToolContext) -> None:
    """Checks that a file is not protected, or was approved for this call.

    Raises:
        PermissionDenied: it is protected, and its path was not approved.
    """
    reason = _find_reason(names, partial(find_write_protection, sources=ctx.sources))
    approved = ctx.guard.path if ctx.guard else ""
    if reason and names.path != approved:
        raise PermissionDenied(f"permission denied: {printable(names.path)} is protected: {reason}")


def check_read(names: Names) -> None:
    """Checks that a file may be read.

    Raises:
        PermissionDenied: it may hold keys.
    """
    if reason := _find_reason(names, find_read_protection):
        raise PermissionDenied(
            f"permission denied: tools cannot read {printable(names.path)}: {reason}. Ask the user "
            "for what you need from it"
        )


def may_read(names: Names) -> bool:
    """True if a file may be read."""
    return not _find_reason(names, find_read_protection)


def _find_reason(names: Names, find: Callable[[Path, Path], str]) -> str:
    """Returns the first reason for a name of a file, with the name if a link says it."""
    if len(names.all) > MAX_NAMES:
        return "too many links lead to it"
    for path in reversed(names.all):
        if reason := find(path, names.folder):
            shown = printable(path.relative_to(names.folder).as_posix())
            return reason if path == names.real else f"{reason} (as {shown})"
    return ""
