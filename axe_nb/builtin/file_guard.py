"""Protected files for the file tools: approval for each path, keys never read.

The guard asks about the path before the call; the tool checks the file that it has opened, since a
link may have been exchanged meanwhile. All names of a file count: as it is given, as each link
on the way says, and those of links directly in the workdir that lead to it.
Source: D-83; issue 9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from axe_nb.agents.config import config_dir, state_dir
from axe_nb.builtin.paths import Spot, locate
from axe_nb.links import Names
from axe_nb.protected import find_read_protection, find_write_protection
from axe_nb.protected_names import KEYS
from axe_nb.text import printable
from axe_nb.tools.tool import (
    CallSite,
    Guard,
    PermissionDenied,
    ToolContext,
    text_argument,
)

MAX_NAMES = 100
"""Names of one file that are looked at."""


def guard_write(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """The guard of write_file.

    Raises:
        ToolError: the path is not valid, or leads out of the workdir.
    """
    root, names = locate(site.workdir, text_argument(arguments, "path"))
    path = names.real.relative_to(root).as_posix()
    reason = _find_write_protection(names, root, site.sources)
    if not reason:
        folder = path.rpartition("/")[0]
        where = f"files in {printable(folder)}/" if folder else "files directly in the workdir"
        return Guard(covers=where)
    replaces = "it replaces a file whose content is hidden here" if _is_hidden(names, root) else ""
    told = f"{printable(path)} is protected: {reason}"
    return Guard(floor="ask", reason=told, path=path, note=replaces)


def guard_edit(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """The guard of edit_file, which also reads the file.

    Raises:
        ToolError: the path is not valid, leads out of the workdir, or may not be read.
    """
    root, names = locate(site.workdir, text_argument(arguments, "path"))
    _check_read(names, root)
    return guard_write(arguments, site)


def check_write(spot: Spot, ctx: ToolContext) -> None:
    """Checks that the file at a place is not protected, or was approved for this call.

    Raises:
        PermissionDenied: it is protected, and its path was not approved.
    """
    reason = _find_write_protection(spot.names, spot.root, ctx.sources)
    approved = ctx.guard.path if ctx.guard else ""
    if reason and spot.path != approved:
        raise PermissionDenied(f"permission denied: {printable(spot.path)} is protected: {reason}")


def check_read(spot: Spot) -> None:
    """Checks that the file at a place may be read.

    Raises:
        PermissionDenied: it may hold keys.
    """
    _check_read(spot.names, spot.root)


def may_read(spot: Spot) -> bool:
    """True if the file at a place may be read."""
    return not _find_read_protection(spot.names, spot.root)


def _check_read(names: Names, root: Path) -> None:
    if reason := _find_read_protection(names, root):
        shown = printable(names.real.relative_to(root).as_posix())
        raise PermissionDenied(
            f"permission denied: tools cannot read {shown}: {reason}. Ask the user for what you "
            "need from it"
        )


def _is_hidden(names: Names, root: Path) -> bool:
    return os.path.lexists(names.real) and bool(_find_read_protection(names, root))


def _find_read_protection(names: Names, root: Path) -> str:
    if names.real.is_relative_to(os.path.realpath(state_dir() / "undo")):
        return KEYS  # old contents of files, whatever they hold
    config = _real_config()
    return _find_reason(names, root, lambda path: find_read_protection(path, root, config))


def _find_write_protection(names: Names, root: Path, sources: Collection[Path]) -> str:
    if names.real.is_relative_to(os.path.realpath(state_dir())):
        return "it records which agents you trust"
    config = _real_config()
    return _find_reason(
        names, root, lambda path: find_write_protection(path, root, sources, config)
    )


def _find_reason(names: Names, root: Path, find: Callable[[Path], str]) -> str:
    """Returns the first reason for a name of a file, with the name if a link says it."""
    if len(names.all) > MAX_NAMES:
        return "too many links lead to it"
    for path in reversed(names.all):
        if reason := find(path):
            shown = printable(path.relative_to(root).as_posix())
            return reason if path == names.real else f"{reason} (as {shown})"
    return ""


def _real_config() -> Path:
    return Path(os.path.realpath(config_dir()))
