"""The part of the machine that a command sees: its workdir, toolchains, and no other home files.

Source: D-82; safety-facts §1 (protected paths, toolchains).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from axe_nb.agents.config import config_dir, state_dir
from axe_nb.descriptors import hold_real_folder
from axe_nb.errors import ConfigError
from axe_nb.protected import is_hidden
from axe_nb.protected_names import KEY_PATHS
from axe_nb.sandbox.covers import is_placeholder
from axe_nb.sandbox.names import (
    GIT_ABSENT,
    GIT_SETTINGS,
    find_repository,
    find_targets,
    list_names,
)

TOOLCHAINS = (
    ".pyenv", ".nvm", ".rustup", ".asdf", ".volta", ".sdkman", ".ghcup", ".deno", ".bun",
    ".juliaup", ".cargo/bin", ".cargo/registry", "go/bin", "go/pkg", ".local/bin", ".local/lib",
    ".local/share/uv/python", ".local/share/fnm", ".local/share/mise", "bin",
    "miniconda3", "miniforge3", "mambaforge", "anaconda3", "micromamba",
)  # fmt: skip
"""Folders below home with programs and no keys: commands may read them."""


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
    names: tuple[Path, ...] = ()
    """Protected files, folders and links, which need not exist."""
    read_only: tuple[Path, ...] = ()
    """Protected files and folders in the workdir that exist; none of them is a link."""
    missing: Mapping[Path, str | None] = field(default_factory=dict)
    """Those that are to be kept from being made → their text; None = a folder."""
    anchored: tuple[Path, ...] = ()
    """Writable folders in the workdir that must not be renamed: they hold protected paths."""
    hidden: tuple[Path, ...] = ()
    """Files and folders in the workdir that hold keys."""


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
    workdir, home = view.workdir, view.home
    stand_ins: dict[Path, str | None] = dict.fromkeys(
        workdir / name for name in list_names(workdir, home)
    )
    git = workdir / ".git"
    repository = None if is_placeholder(git) else find_repository(git, workdir)
    if repository is not None:
        stand_ins |= {repository / name: GIT_ABSENT.get(name) for name in GIT_SETTINGS}
    prefix = _find_prefix(workdir)
    names = [*stand_ins, *view.sources, *([prefix] if prefix else [])]
    names = [path for path in (*names, *find_targets(names, workdir)) if path != repository]
    found = [path for path in names if path.exists() and not path.is_symlink()]
    hidden = tuple(dict.fromkeys(_find_keys(workdir, home, names)))
    kept_out = [p for p in stand_ins if p.parent != repository or p.name in GIT_ABSENT]
    missing = {p: stand_ins[p] for p in kept_out if not os.path.lexists(p)}
    parents = _list_parents([*found, *hidden, *missing], workdir)
    anchored = [path for path in parents if not {path, *path.parents} & set(found)]
    return replace(
        view,
        names=tuple(path for path in names if path != prefix),
        read_only=tuple(p for p in dict.fromkeys(found) if p not in hidden),
        missing=missing,
        anchored=tuple(anchored),
        hidden=hidden,
    )


def cover(view: View, made: Iterable[Path]) -> View:
    """Returns the view with placeholders, which commands see as read-only and empty."""
    return replace(view, read_only=(*view.read_only, *made))


def list_covers(view: View) -> list[Path]:
    """Returns the places where placeholders may have been left when a kernel was killed."""
    return [path for path in view.read_only if path.parent != view.workdir] + [
        view.workdir / name for name in list_names(view.workdir, view.home)
    ]


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


def _list_parents(paths: Iterable[Path], workdir: Path) -> list[Path]:
    """Returns the folders between the workdir and the paths, from the top down."""
    below = {p for path in paths for p in path.parents if p != workdir}
    return sorted(p for p in below if p.is_relative_to(workdir))


def _find_prefix(workdir: Path) -> Path | None:
    prefix = Path(os.path.realpath(sys.prefix))
    return prefix if prefix != workdir and prefix.is_relative_to(workdir) else None


def _find_keys(workdir: Path, home: Path, names: Sequence[Path]) -> Iterator[Path]:
    """Yields what holds keys directly in the workdir, and below it if that is home.

    Axe's own folders are among them, wherever in the workdir they are.
    """
    for folder in {Path(os.path.realpath(folder)) for folder in (config_dir(), state_dir())}:
        if folder.is_dir() and folder != workdir and folder.is_relative_to(workdir):
            yield folder
    there = (workdir / name for name in sorted(os.listdir(workdir)))  # noqa: PTH208
    keys = [path for path in dict.fromkeys([*names, *there]) if is_hidden(path, workdir)]
    keys = [*keys, *find_targets(keys, workdir)]
    yield from (path for path in keys if path.exists() and not path.is_symlink())
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
