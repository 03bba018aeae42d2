"""The part of the machine that a command sees: its workdir, toolchains, and no other home files.

Source: D-82; safety-facts §1 (protected paths, toolchains).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from axe_nb.agents.config import config_dir, state_dir
from axe_nb.agents.protected import KEY_PATHS, is_hidden
from axe_nb.errors import ConfigError
from axe_nb.paths import follow_links

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

GIT_ABSENT = {"hooks": None, "config": "", "config.worktree": "", "commondir": ".\n"}
"""Names in `.git` to be kept from being made → a text without effect; None = an empty folder."""

GIT_SETTINGS = (
    *GIT_ABSENT, "modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer", "remotes",
    "branches",
)  # fmt: skip
"""Names in `.git` that decide what git runs; all else in it is written by a commit."""

NOTHING = Path("/dev/null")
"""Seen in place of a file with keys."""

LINE_OF_GIT = re.compile(r"gitdir: *(.+?)\s*", re.DOTALL)
"""A file `.git`, as worktrees and submodules have."""

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
    closed: Mapping[Path, Path | None] = field(default_factory=dict)
    """Protected files and folders in the workdir that exist → what it sees there, read-only; None =
    an empty folder. None of them is a link; those that hold keys are the last."""
    missing: Mapping[Path, str | None] = field(default_factory=dict)
    """Those that are to be kept from being made → their text; None = a folder."""
    anchored: tuple[Path, ...] = ()
    """Writable folders in the workdir that must not be renamed: they hold protected paths."""


def make_view(workdir: Path, *, network: bool = False, sources: Iterable[Path] = ()) -> View:
    """Returns the view of a command in a workdir, a real path, before its files are looked at.

    Raises:
        ConfigError: the workdir contains the home folder, which could not be hidden, or was
            replaced by a link.
        OSError: the workdir does not exist.
    """
    _check_place(workdir)
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - never raises
    is_home = workdir == home != Path(home.anchor)
    if home.is_relative_to(workdir) and not is_home:
        raise ConfigError(
            f"the workdir {workdir} contains the home folder, which commands must not read",
            hint="use a project folder as workdir",
        )
    loaded = tuple(path for path in sources if is_inside(path, workdir))
    readable = tuple(_find_toolchains(workdir, home))
    return View(workdir=workdir, home=home, network=network, sources=loaded, readable=readable)


def fill_view(view: View) -> View:
    """Returns the view with the files of its workdir as they are now."""
    workdir, home = view.workdir, view.home
    _check_place(workdir)
    there = sorted(os.listdir(workdir))  # noqa: PTH208
    # git and most programs ignore the empty folder that stands for a name that does not exist
    absent: dict[Path, str | None] = dict.fromkeys(
        workdir / name for name in _list_names(there, is_home=workdir == home)
    )
    named = [*absent, *view.sources]
    if repository := _find_repository(workdir / ".git", workdir):
        absent |= {repository / name: text for name, text in GIT_ABSENT.items()}
        named += (repository / name for name in GIT_SETTINGS)
    every = dict.fromkeys([*named, *_follow(named, workdir)])
    names = tuple(path for path in every if path != repository)
    inner = [*there, *(KEY_PATHS if workdir == home else ())]
    hidden = (p for p in [*names, *(workdir / name for name in inner)] if is_hidden(p, workdir))
    keys = {  # axe's own folders are among them, wherever in the workdir they are
        path: None if path.is_dir() else NOTHING
        for path in _find_real([config_dir(), state_dir(), *hidden], workdir)
    }
    found = (path for path in _find_real([*names, sys.prefix], workdir) if path != repository)
    missing = {path: text for path, text in absent.items() if not os.path.lexists(path)}
    closed = {**{path: path for path in found if path not in keys}, **keys}
    above = {folder for path in (*closed, *missing) for folder in path.parents}
    anchored = sorted(
        p for p in above if is_inside(p, workdir) and closed.keys().isdisjoint((p, *p.parents))
    )
    return replace(view, names=names, closed=closed, missing=missing, anchored=tuple(anchored))


def _check_place(workdir: Path) -> None:
    if (real := Path(os.path.realpath(workdir, strict=True))) != workdir:
        raise ConfigError(
            f"the workdir {workdir} was replaced by a link, to {real}", hint="start a new run"
        )


def _follow(paths: Iterable[Path], workdir: Path) -> Iterator[Path]:
    """Yields the places in the workdir that the links among the paths lead over, and to.

    The last one need not exist.
    """
    for path in filter(Path.is_symlink, paths):
        with suppress(OSError):  # a cycle
            yield from (place for place in follow_links(path)[1:] if is_inside(place, workdir))


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


def _list_names(there: Iterable[str], *, is_home: bool) -> list[str]:
    """Returns the protected names, which need not exist; those with `.env` and any end, if they do.

    Args:
        there: the names in the workdir.
        is_home: true if it is the home folder.
    """
    found = [*FOLDERS, *FILES, *(name for name in there if name.startswith(".env"))]
    if is_home:
        found += [*HOME_FOLDERS, *HOME_FILES]
        found += (name for name in there if name.startswith(".") and name not in OF_PROGRAMS)
    return found


def _find_repository(path: Path, workdir: Path) -> Path | None:
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


def _find_real(paths: Iterable[Path | str], folder: Path) -> list[Path]:
    """Returns what the paths lead to, if it exists and is below a folder; none of it is a link."""
    there = filter(os.path.lexists, paths)
    real = dict.fromkeys(Path(os.path.realpath(path)) for path in there)
    return [path for path in real if is_inside(path, folder) and path.exists()]
