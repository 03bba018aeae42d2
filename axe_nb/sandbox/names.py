"""The protected names of a workdir: what other programs run or obey, so that no command writes it.

They count directly in the workdir. File tools have a list of their own.
Source: D-82.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

FOLDERS = (".git", "axe", ".ipython", ".jupyter", ".vscode", ".idea", ".github", ".ssh")
FILES = (".env", ".envrc", ".env.local")

HOME_FOLDERS = (".config", ".local")
HOME_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".inputrc", ".gitconfig",
)  # fmt: skip
"""More of them, if the workdir is the home folder; there, whatever exists and begins with a dot."""

OF_PROGRAMS = (".cache",)
"""Folders of the home folder that programs must be able to write."""

GIT_SETTINGS = (
    "hooks", "config", "config.worktree", "commondir", "modules", "worktrees",
    "rebase-merge", "rebase-apply", "sequencer", "remotes", "branches",
)  # fmt: skip
"""Names in `.git` that decide what git runs; all else in it is written by a commit."""

GIT_ABSENT = {"hooks": None, "config": "", "config.worktree": "", "commondir": ".\n"}
"""Those to be kept from being made → a text without effect; None = an empty folder."""

LINE_OF_GIT = re.compile(r"gitdir: *(.+?)\s*", re.DOTALL)
"""A file `.git`, as worktrees and submodules have."""


def list_names(workdir: Path, home: Path) -> list[str]:
    """Returns the protected names, which need not exist; those with `.env` and any end, if they do.

    Where one does not exist, an empty folder stands for it: git and most programs ignore it.
    """
    there = sorted(os.listdir(workdir))  # noqa: PTH208
    found = [*FOLDERS, *FILES, *(name for name in there if name.startswith(".env"))]
    if workdir == home:
        found += [*HOME_FOLDERS, *HOME_FILES]
        found += (name for name in there if name.startswith(".") and name not in OF_PROGRAMS)
    return list(dict.fromkeys(found))


def find_repository(path: Path, workdir: Path) -> Path | None:
    """Returns the folder of a repository that `.git` is, or leads to, if it lies in the workdir."""
    found = Path(os.path.realpath(path))
    if found.is_file():
        with found.open("rb") as file:
            line = LINE_OF_GIT.fullmatch(file.read(4096).decode("utf-8", "replace"))
        found = Path(os.path.realpath(found.parent / line[1])) if line else found
    return found if is_inside(found, workdir) and os.path.lexists(found / "HEAD") else None


def is_inside(path: Path, folder: Path) -> bool:
    """True if a path is below a folder."""
    return path != folder and path.is_relative_to(folder)


def find_real(paths: Iterable[Path | str], folder: Path) -> list[Path]:
    """Returns what the paths lead to, if it exists and is below a folder; none of it is a link."""
    real = dict.fromkeys(Path(os.path.realpath(path)) for path in paths)
    return [path for path in real if is_inside(path, folder) and path.exists()]
