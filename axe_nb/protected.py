"""Protected files: paths that tools write only after approval of that path, and never read.

One list of names, compared whatever their case and spelling, and one rule: a new module or package
that `import` finds, and a new hidden file at the project's root. Nothing is opened or imported.
Source: D-83; docs/safety.md "File rules".
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import all_suffixes
from itertools import islice
from pathlib import Path

from axe_nb.protected_names import (
    AT_START,
    AUTOMATIC,
    FILES,
    FOLDERS,
    KEY_ENDS,
    KEY_FILES,
    KEY_PATHS,
    KEYS,
    NEEDED_IN,
    NEEDED_KEYS,
)

MOST_FOLDERS = 1000
"""Folders of a package that are looked through for a module; if there is none, a new one asks."""

HIDDEN = re.compile(r"\.[^.]")
"""Beginning of the name of a hidden file that a program may look for."""


def find_write_protection(
    path: Path, workdir: Path, sources: Collection[Path] = (), config: Path | None = None
) -> str:
    """Returns the reason that writing to a path needs approval; empty if it does not.

    Args:
        path: a real path (absolute, links resolved); it need not exist.
        workdir: the real workdir that it lies in.
        sources: real files and folders that the running tree was loaded from.
        config: the real folder of the user's settings, which is protected as a whole.
    """
    if any(path == source or source in path.parents for source in sources):
        return "this run was loaded from it"
    if config is not None and path.is_relative_to(config):
        return "it belongs to axe's settings"
    prefix = _resolve(sys.prefix)
    if prefix.is_relative_to(workdir) and path.is_relative_to(prefix):
        return "it belongs to the Python that runs here"
    reason = _check_names(path, _find_root(workdir))
    return reason or find_read_protection(path, workdir, config) or _check_new(path, workdir)


def find_read_protection(path: Path, workdir: Path, config: Path | None = None) -> str:
    """Returns the reason that tools may not read a path; empty if they may.

    Args:
        path: a real path (absolute, links resolved).
        workdir: the real workdir that it lies in.
        config: the real folder of the user's settings.
    """
    if is_hidden(path, workdir, config):
        return KEYS
    names = [fold_name(name) for name in path.parts]
    is_needed = names[-1] in NEEDED_KEYS or any(
        names[-1] in files and folder in names for folder, files in NEEDED_IN.items()
    )
    return KEYS if is_needed else ""


def is_hidden(path: Path, workdir: Path, config: Path | None = None) -> bool:
    """True if commands may not read a path either: it holds keys that they do without.

    Args: as for `find_read_protection`.
    """
    if config is not None and path == config / "config.toml":
        return True
    names = [fold_name(name) for name in path.parts]
    below = names[len(workdir.parts) :]
    if any(name in KEY_FILES for name in names) or any(n.startswith(".env") for n in below):
        return True
    return bool(below and KEY_ENDS.fullmatch(below[-1])) or _has_key_path(names)


@lru_cache(10_000)
def fold_name(name: str) -> str:
    """Returns the name as the least strict file system compares it.

    Without case (macOS, Windows), ignorable characters (macOS), streams, and dots or blanks at the
    end (Windows).
    """
    folded = unicodedata.normalize("NFKC", name)
    folded = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Cc"))
    folded = folded.casefold().partition(":")[0].rstrip(" .")
    return ".git" if re.fullmatch(r"git~\d+", folded) else folded


def _find_root(workdir: Path) -> Path:
    """Returns the folder below which all names count, as a workdir may lie in a protected one.

    It is the current folder if the workdir is in it, but never one that contains the home folder:
    `~/axe` may be anything.
    """
    here, home = _find_here(), _resolve(os.path.expanduser("~"))  # noqa: PTH111 - never raises
    if here is None or here in home.parents or not workdir.is_relative_to(here):
        return workdir
    return here


def _check_names(path: Path, root: Path) -> str:
    """Returns the reason that the names of a path protect it; empty if none does.

    Above the root only hidden names count.
    """
    names = [fold_name(name) for name in path.parts]
    above = [name for name in names[: len(root.parts)] if name.startswith(".")]
    for name in (*above, *names[len(root.parts) :]):
        if reason := FOLDERS.get(name):
            return reason
        if name.partition(".")[0] in AT_START:
            return AUTOMATIC
        if name.startswith(".env"):
            return KEYS
    return AUTOMATIC if names[-1].endswith(".pth") else FILES.get(names[-1], "")


def _check_new(path: Path, workdir: Path) -> str:
    """Returns the reason that a file may not be created unasked; empty if it exists."""
    if os.path.exists(path):  # noqa: PTH110 - Path.exists() raises what this takes as "no"
        return ""
    here = _find_here()
    for place in (path, *path.parents):
        if place == workdir:
            break
        is_root = place.parent in (workdir, here) or os.path.lexists(place.parent / ".git")
        if is_root and HIDDEN.match(fold_name(place.name)):
            return "it is new, and programs obey hidden files at the project's root"
    for name in sys.path:
        folder = _resolve(name) if name else here
        if folder and folder in path.parents and (module := _find_new_module(path, folder)):
            return f"it is new, and `import {module}` would find it"
    return ""


def _find_new_module(path: Path, folder: Path) -> str:
    """Returns the top-level module or package that a new file adds to a folder; empty if none.

    A folder of modules is a package also without `__init__.py`.
    """
    *above, last = (fold_name(name) for name in path.parts[len(folder.parts) :])
    module = _module_of(last)
    name = above[0] if above else module
    if not module or not name.isidentifier():
        return ""
    is_first = len(above) == 1 and module == "__init__"
    if above and not is_first and _holds_modules(folder / path.parts[len(folder.parts)]):
        return ""
    return name


def _holds_modules(folder: Path) -> bool:
    files = (file for _, _, files in islice(os.walk(folder), MOST_FOLDERS) for file in files)
    return any(_module_of(file) for file in files)


def _module_of(name: str) -> str:
    """Returns the name of the module in a file; empty if it cannot be imported."""
    module, dot, suffix = name.partition(".")
    return module if dot and dot + suffix.casefold() in _SUFFIXES else ""


_SUFFIXES = frozenset(suffix.casefold() for suffix in (*all_suffixes(), ".pyc", ".pyd", ".so"))


def _find_here() -> Path | None:
    with suppress(OSError):  # it was deleted
        return _resolve(os.curdir)
    return None


def _resolve(path: str) -> Path:
    return Path(os.path.realpath(path))


def _has_key_path(names: list[str]) -> bool:
    """True if the names of a path contain those of a place with keys, one after another."""
    starts = (names[i:] for i, name in enumerate(names) if name in _KEY_STARTS)
    return any(tuple(rest[: len(run)]) == run for rest in starts for run in KEY_PATHS)


_KEY_STARTS = frozenset(run[0] for run in KEY_PATHS)
