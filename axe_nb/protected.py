"""Protected files: paths that tools write only after approval of that path, and never read.

Other programs run some files without asking: a hook of git, a start-up file of the shell, a module
beside a notebook. Others hold keys. Both are recognised by name, whatever its case and spelling,
or by their place. Nothing is opened or imported here.
Source: D-52; issue 9.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path

from axe_nb.protected_names import (
    AT_START,
    CONFIG,
    FILES,
    FOLDERS,
    KEY_ENDS,
    KEY_FILES,
    KEY_PATHS,
    KEYS,
    NEEDED_IN,
    NEEDED_KEYS,
    PATTERNS,
    PLUGINS,
    REPOSITORY,
    is_optional,
)

MOST_FOLDERS = 1000
"""Folders of a package that are looked through."""


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
    return _check_all(path, Places(workdir), config)


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


def list_protected(workdir: Path, folders: Sequence[Path] = ()) -> Iterator[Path]:
    """Yields the protected files and folders that exist directly in a workdir.

    Of a package that replaces an installed one, the file that makes it a package; the whole of one
    that is not installed, unless the project brought it.

    Args:
        workdir: a real folder.
        folders: real folders in it where names count as directly in it. If a link has taken the
            place of one, or of a folder above it, that is protected.
    """
    places = Places(workdir, folders)
    yield from _list_in(workdir, places)
    for folder in folders:
        below = (path for path in (folder, *folder.parents) if workdir in path.parents)
        links = [path for path in below if path.is_symlink()]
        yield from links[-1:]
        if not links and folder.is_dir():
            yield from _list_in(folder, places)


def _list_in(folder: Path, places: Places) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for path in (folder / name for name in names):
        if _check_all(path, places):
            yield path
        elif is_optional(path.name) and not _brings_package(folder, path.name):
            if _holds_modules(path):
                yield path
        elif places.has_module(path.name):
            files = [path / f"__init__{suffix}" for suffix in sorted(_SUFFIXES)]
            found = [file for file in files if os.path.lexists(file)]
            yield from [path] if found and path.is_symlink() else found


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


class Places:
    """The folders that decide on the paths of a workdir, resolved once for all of them."""

    def __init__(self, workdir: Path, folders: Sequence[Path] = ()) -> None:
        home = _resolve(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises without one
        here = None
        with suppress(OSError):  # the current folder was deleted
            here = _resolve(os.curdir)
        imported = {path: _resolve(path) for path in sys.path}
        self.workdir = workdir
        self.roots = tuple(_list_roots(workdir, home, here))
        self.import_folders = {
            folder
            for folder in (workdir, here, *folders, *imported.values())
            if folder is not None and folder.is_relative_to(workdir)
        }
        """The folders in the workdir that Python imports from."""
        self.prefix = _resolve(sys.prefix)
        self.runs_here = self.prefix.is_relative_to(workdir)
        """True if the Python of this process is in the workdir."""
        elsewhere = [p for p in sys.path if p and not imported[p].is_relative_to(workdir)]
        found = [(path, _find_time(path)) for path in elsewhere]
        self._modules = set().union(*(_list_modules(path, time) for path, time in found if time))
        """Names of the modules in folders elsewhere, listed once: a workdir may hold any number."""
        self._archives = [path for path, time in found if not time and Path(path).exists()]

    def has_module(self, name: str) -> bool:
        """True if `import name` finds a module outside the workdir; nothing is imported."""
        if name in sys.stdlib_module_names or is_optional(name):
            return True
        if not name.isidentifier():
            return False
        if name in self._modules:
            return True
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(loaded, str) and not _resolve(loaded).is_relative_to(self.workdir):
            return True
        try:
            return bool(self._archives and PathFinder.find_spec(name, self._archives))
        except (ImportError, OSError, ValueError):
            return False


def _resolve(path: str) -> Path:
    return Path(os.path.realpath(path))


def _list_roots(workdir: Path, home: Path, here: Path | None) -> Iterator[tuple[Path, bool]]:
    """Yields the folders that names count from, and if all names below them do.

    A workdir can lie inside a protected folder. Of the names between home and the workdir, only
    hidden ones count: `~/axe` may be anything.
    """
    yield workdir, True
    if here is not None and (here == home or not home.is_relative_to(here)):
        yield here, True
    if home != Path(home.anchor):
        yield home, False


def _check_all(path: Path, places: Places, config: Path | None = None) -> str:
    """Returns the reason that the names or the place of a path protect it; empty if none does."""
    for root, is_project in places.roots:
        if (found := _find_below(path, root)) is not None:
            names = [fold_name(name) for name in found]
            reason = _check_names(names if is_project else [n for n in names if n[:1] == "."])
            if reason:
                return reason
    reason = find_read_protection(path, places.workdir, config)
    return reason or _check_repository(path, places.workdir) or _check_imports(path, places)


def _find_below(path: Path, folder: Path) -> tuple[str, ...] | None:
    """Returns the names of a path below a folder; None if it is not in there.

    As `relative_to`, which takes most of the time if it is asked for every file.
    """
    start = folder.parts
    return path.parts[len(start) :] if path.parts[: len(start)] == start else None


def _check_names(names: list[str]) -> str:
    reasons = (reason for name in names if (reason := _check_name(name)))
    return next(reasons, "") or (_check_file(names[-1]) if names else "")


@lru_cache(10_000)
def _check_name(name: str) -> str:
    """Checks the name of a file or folder."""
    if reason := FOLDERS.get(name):
        return reason
    if name in AT_START:
        return "Python runs it when it starts"
    if CONFIG.fullmatch(name):
        return "Jupyter runs it when it starts here"
    if name.endswith(PLUGINS):
        return "Python uses it to find plugins, which pytest and other programs load"
    if name.startswith(".env"):
        return KEYS
    return next((reason for pattern, reason in PATTERNS if pattern.fullmatch(name)), "")


def _check_file(name: str) -> str:
    """Checks the name of a file."""
    if name.endswith(".pth"):
        return "Python runs it when it starts"
    module = _module_of(name)
    if module in AT_START:
        return "Python runs it when it starts"
    return FILES.get(name, "")


def _check_repository(path: Path, workdir: Path) -> str:
    """Checks a path for names that count beside an existing file `HEAD`."""
    for place in (path, *path.parents):
        if place == workdir:
            break
        if fold_name(place.name) in REPOSITORY and os.path.lexists(place.parent / "HEAD"):
            return "git runs programs that are set here"
    return ""


def _check_imports(path: Path, places: Places) -> str:
    """Checks a path against the places that Python imports from."""
    if places.runs_here and _find_below(path, places.prefix) is not None:
        return "it belongs to the Python that runs here"
    for folder in places.import_folders:
        if (names := _find_below(path, folder)) is not None:
            module = _find_module(names, folder)
            if module and any(places.has_module(m) for m in {module, module.casefold()}):
                return f"`import {module}` would run it instead of the installed module"
    return ""


def _find_module(names: Sequence[str], folder: Path) -> str:
    """Returns the top-level module that a file below an import folder is, or could replace."""
    module = _module_of(names[-1]) if names else ""
    if not module or len(names) == 1:
        return module
    is_package = len(names) == 2 and module.casefold() == "__init__"
    is_part = is_optional(names[0]) and not _brings_package(folder, names[0])
    return names[0] if is_package or is_part else ""


@lru_cache(10_000)
def _brings_package(folder: Path, name: str) -> bool:
    """True if a project had a package of that name when this was first asked, as its own."""
    return any(os.path.lexists(folder / name / f"__init__{suffix}") for suffix in _SUFFIXES)


def _holds_modules(folder: Path) -> bool:
    """True if a folder holds files that can be imported, or too many to tell."""
    left = [str(folder)]
    for _ in range(MOST_FOLDERS):
        if not left:
            return False
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    elif _module_of(entry.name):
                        return True
        except OSError:
            return True
    return bool(left)


def _module_of(name: str) -> str:
    """Returns the name of the module in a file; empty if it cannot be imported."""
    module, dot, suffix = name.partition(".")
    return module if dot and dot + suffix.casefold() in _SUFFIXES else ""


def _find_time(path: str) -> int:
    """Returns when entries of a folder were last added or removed; 0 for anything else."""
    with suppress(OSError, ValueError):
        found = Path(path).stat()
        return found.st_mtime_ns if stat.S_ISDIR(found.st_mode) else 0
    return 0


@lru_cache(64)
def _list_modules(folder: str, time: int) -> frozenset[str]:
    """Returns the names that can be imported from a folder, as it was then."""
    found = set()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found.add(entry.name if entry.is_dir() else _module_of(entry.name))
    return frozenset(found - {""})


_SUFFIXES = frozenset(suffix.casefold() for suffix in (*all_suffixes(), ".pyc", ".pyd", ".so"))


def _has_key_path(names: list[str]) -> bool:
    """True if the names of a path contain those of a place with keys, one after another."""
    starts = (names[i:] for i, name in enumerate(names) if name in _KEY_STARTS)
    return any(tuple(rest[: len(run)]) == run for rest in starts for run in KEY_PATHS)


_KEY_STARTS = frozenset(run[0] for run in KEY_PATHS)
