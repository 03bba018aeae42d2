"""The part of the machine that a command sees: its workdir, toolchains, and no other home files.

Source: D-52, D-55; safety-facts §1 (protected paths, toolchains).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path

from axe_nb.agents.config import config_dir, state_dir
from axe_nb.descriptors import hold_real_folder
from axe_nb.errors import ConfigError
from axe_nb.protected import Places, is_hidden, list_protected
from axe_nb.protected_names import KEY_PATHS
from axe_nb.quick_dataclass import dataclass

TOOLCHAINS = (
    ".pyenv", ".nvm", ".rustup", ".asdf", ".volta", ".sdkman", ".ghcup", ".deno", ".bun",
    ".juliaup", ".cargo/bin", ".cargo/registry", "go/bin", "go/pkg", ".local/bin", ".local/lib",
    ".local/share/uv/python", ".local/share/fnm", ".local/share/mise", "bin",
    "miniconda3", "miniforge3", "mambaforge", "anaconda3", "micromamba",
)  # fmt: skip
"""Folders below home with programs and no keys: commands may read them."""

GIT_SETTINGS = (
    "hooks", "config", "config.worktree", "commondir", "modules", "worktrees",
    "rebase-merge", "rebase-apply", "sequencer", "remotes", "branches",
)  # fmt: skip
"""Names in `.git` that decide what git runs; all else in it is written by a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The files and network that a command may use."""

    workdir: Path
    """The real folder that it works in; it may change it."""
    home: Path
    """The user's real home folder, where it sees only `readable`."""
    network: bool = False
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables of a container; elsewhere the program is started with them."""
    sources: tuple[Path, ...] = ()
    """Files in the workdir that the running agents were loaded from."""
    readable: tuple[Path, ...] = ()
    """Folders of toolchains outside the workdir."""
    folders: tuple[Path, ...] = ()
    """Folders below the workdir that Python imports from, where names count as directly in it."""
    protected: tuple[Path, ...] = ()
    """Protected files, folders and links that are directly in the workdir or one of these."""
    read_only: tuple[Path, ...] = ()
    """Protected files and folders in the workdir that exist; none of them is a link."""
    anchored: tuple[Path, ...] = ()
    """Writable folders in the workdir that must not be renamed: they hold protected paths."""
    hidden: tuple[Path, ...] = ()
    """Files and folders in the workdir that hold keys."""
    prefix: Path | None = None
    """The running Python's environment, if it lies in the workdir; one of `read_only`."""


def make_view(workdir: Path, *, network: bool = False, sources: Iterable[Path] = ()) -> View:
    """Returns the view of a command in a workdir, a real path, before its files are looked at.

    Raises:
        ConfigError: a link has taken the place of the workdir or a folder above it, or the workdir
            contains the home folder, which could not be hidden.
    """
    _check_place(workdir)
    home = find_home()
    is_home = workdir == home != Path(home.anchor)
    if home.is_relative_to(workdir) and not is_home:
        raise ConfigError(
            f"the workdir {workdir} contains the home folder, which commands must not read",
            hint="use a project folder as workdir",
        )
    loaded = tuple(p for p in sources if p.is_relative_to(workdir) and p != workdir)
    readable = tuple(_find_toolchains(workdir, home))
    return View(workdir=workdir, home=home, network=network, sources=loaded, readable=readable)


def fill_view(view: View) -> View:
    """Returns the view with the files of its workdir as they are now.

    Raises:
        ConfigError: a link has taken the place of the workdir or a folder above it.
    """
    _check_place(view.workdir)
    workdir, home, folders = view.workdir, view.home, _find_folders(view.workdir)
    protected = tuple(list_protected(workdir, folders))
    every = _find_outermost(
        [*protected, *_find_targets(protected, workdir), *view.sources], workdir
    )
    found = [path for path in every if not path.is_symlink()]
    repository = [path for path in found if path.name == ".git" and path.is_dir()]
    hidden = tuple(dict.fromkeys(_find_keys(workdir, home, protected)))
    whole = set(found) - set(repository)
    parents = _list_parents([*found, *hidden], workdir)
    anchored = (*repository, *(p for p in parents if not whole & {p, *p.parents}))
    inner = (p / name for p in repository for name in GIT_SETTINGS)
    settings = [path for path in inner if path.exists() and not path.is_symlink()]
    return replace(
        view,
        folders=folders,
        protected=protected,
        read_only=tuple(p for p in [*found, *settings] if p not in {*anchored, *hidden}),
        anchored=anchored,
        hidden=hidden,
        prefix=_find_prefix(workdir),
    )


def identify(path: Path) -> str:
    """Returns the device and number of what is at a real path, as `stat -c %d:%i` prints them.

    Raises:
        OSError: a link is in its place, or in that of a folder above it; or nothing is there.
    """
    with hold_real_folder(path.parent) as folder:
        found = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return f"{found.st_dev}:{found.st_ino}"


def _check_place(workdir: Path) -> None:
    if (real := Path(os.path.realpath(workdir))) != workdir:
        raise ConfigError(
            f"the workdir {workdir} was replaced by a link, to {real}", hint="start a new run"
        )


def find_home() -> Path:
    """Returns the user's real home folder; the root folder if there is none."""
    return Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - never raises


def _find_folders(workdir: Path) -> tuple[Path, ...]:
    """Returns the folders below the workdir that Python imports from, without its environment."""
    places = Places(workdir)
    found = (path for path in places.import_folders if not path.is_relative_to(places.prefix))
    return tuple(sorted(path for path in found if path != workdir))


def _find_outermost(paths: Iterable[Path], workdir: Path) -> Iterator[Path]:
    """Yields the paths that exist and the Python in the workdir, but nothing inside another."""
    found = dict.fromkeys(path for path in paths if os.path.lexists(path))
    if (prefix := _find_prefix(workdir)) is not None:
        found[prefix] = None
    yield from (path for path in found if not any(parent in found for parent in path.parents))


def _find_targets(paths: Iterable[Path], workdir: Path) -> Iterator[Path]:
    """Yields the files and folders in the workdir that the links among the paths lead to."""
    for real in (Path(os.path.realpath(path)) for path in paths if path.is_symlink()):
        if real != workdir and real.is_relative_to(workdir) and real.exists():
            yield real


def _list_parents(paths: Iterable[Path], workdir: Path) -> list[Path]:
    """Returns the folders between the workdir and the paths, from the top down."""
    below = {p for path in paths for p in path.parents if p != workdir}
    return sorted(p for p in below if p.is_relative_to(workdir))


def _find_prefix(workdir: Path) -> Path | None:
    prefix = Path(os.path.realpath(sys.prefix))
    return prefix if prefix != workdir and prefix.is_relative_to(workdir) else None


def _find_keys(workdir: Path, home: Path, protected: Iterable[Path]) -> Iterator[Path]:
    """Yields what holds keys among protected files, and below the workdir if that is home.

    Axe's own folders are among them, wherever in the workdir they are.
    """
    for folder in {Path(os.path.realpath(folder)) for folder in (config_dir(), state_dir())}:
        if folder.is_dir() and folder != workdir and folder.is_relative_to(workdir):
            yield folder
    keys = [path for path in protected if is_hidden(path, workdir)]
    yield from (path for path in keys if not path.is_symlink())
    yield from _find_targets(keys, workdir)
    if workdir == home:
        below = (workdir.joinpath(*names) for names in KEY_PATHS if len(names) > 1)
        yield from (path for path in below if path.exists() and not path.is_symlink())


def _find_toolchains(workdir: Path, home: Path) -> Iterator[Path]:
    """Yields the folders outside the workdir that programs are run from, real and as named."""
    named = (sys.prefix, sys.base_prefix, *map(os.environ.get, ("VIRTUAL_ENV", "CONDA_PREFIX")))
    places = [Path(name) for name in named if name]
    places += [home / name for name in TOOLCHAINS]
    real = [Path(os.path.realpath(place)) for place in places]
    for place in sorted({*places, *real}):
        shows_too_much = any(p.is_relative_to(place) for p in (home, workdir))
        is_there = any(place.is_relative_to(p) for p in (workdir, "/usr"))
        if place.is_absolute() and place.is_dir() and not shows_too_much and not is_there:
            yield place
