"""Protected files for the file tools: approval for each path, keys never read.

The guard asks about the path before the call; the tool checks the file that it has opened, since a
link may have been exchanged meanwhile.
Source: D-52; issue 9.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_nb.agents.config import config_dir, state_dir
from axe_nb.builtin.paths import Spot, locate
from axe_nb.protected import find_read_protection, find_write_protection
from axe_nb.sandbox.claim import Claim
from axe_nb.text import printable
from axe_nb.tools.tool import (
    CallSite,
    Guard,
    PermissionDenied,
    ToolContext,
    ToolError,
    text_argument,
)

PATIENCE = 600.0
"""Seconds that a write of a protected file waits for commands to end."""


def guard_write(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """The guard of write_file.

    Raises:
        ToolError: the path is not valid, or leads out of the workdir.
    """
    root, real = locate(site.workdir, text_argument(arguments, "path"))
    path = real.relative_to(root).as_posix()
    reason = _find_write_protection(real, root, site.sources)
    if not reason:
        folder = path.rpartition("/")[0]
        where = f"files in {printable(folder)}/" if folder else "files directly in the workdir"
        return Guard(covers=where)
    replaces = "it replaces a file that is not shown here" if _is_hidden(real, root) else ""
    told = f"{printable(path)} is protected: {reason}"
    return Guard(floor="ask", reason=told, path=path, note=replaces)


def guard_edit(arguments: Mapping[str, Any], site: CallSite) -> Guard:
    """The guard of edit_file, which also reads the file.

    Raises:
        ToolError: the path is not valid, leads out of the workdir, or may not be read.
    """
    root, real = locate(site.workdir, text_argument(arguments, "path"))
    _check_read(real, root)
    return guard_write(arguments, site)


@contextmanager
def claim_approved(ctx: ToolContext) -> Iterator[None]:
    """Waits until no command works where the approved file of a call lies, and keeps it so.

    A command is taken to have made every change of protected files that happens beside it.

    Raises:
        ToolError: a command works there for too long.
    """
    if not (ctx.guard and ctx.guard.path):
        yield
        return
    claim = Claim(Path(os.path.realpath(ctx.workdir)) / ctx.guard.path)
    try:
        if not claim.wait(PATIENCE):
            shown = printable(ctx.guard.path)
            raise ToolError(f"Commands still run where {shown} lies. Write it after their end")
        yield
    finally:
        claim.drop()


def check_write(spot: Spot, ctx: ToolContext) -> None:
    """Checks that the file at a place is not protected, or was approved for this call.

    Raises:
        PermissionDenied: it is protected, and its path was not approved.
    """
    reason = _find_write_protection(spot.real, spot.root, ctx.sources)
    approved = ctx.guard.path if ctx.guard else ""
    if reason and spot.path != approved:
        raise PermissionDenied(f"permission denied: {printable(spot.path)} is protected: {reason}")


def check_read(spot: Spot) -> None:
    """Checks that the file at a place may be read.

    Raises:
        PermissionDenied: it may hold keys.
    """
    _check_read(spot.real, spot.root)


def may_read(spot: Spot) -> bool:
    """True if the file at a place may be read."""
    return not _find_read_protection(spot.real, spot.root)


def _check_read(real: Path, root: Path) -> None:
    if reason := _find_read_protection(real, root):
        shown = printable(real.relative_to(root).as_posix())
        raise PermissionDenied(
            f"permission denied: {shown} is not read by tools: {reason}. "
            "Ask the user for what you need from it"
        )


def _is_hidden(real: Path, root: Path) -> bool:
    return os.path.lexists(real) and bool(_find_read_protection(real, root))


def _find_read_protection(real: Path, root: Path) -> str:
    return find_read_protection(real, root, _real_config())


def _find_write_protection(real: Path, root: Path, sources: Collection[Path]) -> str:
    if real.is_relative_to(os.path.realpath(state_dir())):
        return "it holds what you trust"
    return find_write_protection(real, root, sources, _real_config())


def _real_config() -> Path:
    return Path(os.path.realpath(config_dir()))
