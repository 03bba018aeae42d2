"""A command's view of the file system; hides the home folder except the workdir and toolchains.

Where possible, protected files in the workdir are read-only while a command runs. They are compared
before and after. A sandbox can mount only over existing files, so a protected name that does not
exist gets a placeholder, which the last command in the workdir removes. If the kernel is killed
before that, the next command recognizes the placeholder by its modification time. Placeholders are
created and removed without following links, as a command may have replaced a folder with a link.
Changes that no mount prevents are reported, not undone. Source: D-82.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from axe_nb.agents.protected import KEY_PATHS, is_hidden
from axe_nb.agents.user_config import config_dir, state_dir
from axe_nb.errors import ConfigError
from axe_nb.paths import FOLDER, PASSED, follow_links, hold_real_folder
from axe_nb.text import quote

FOLDERS = (".git", "axe", ".ipython", ".jupyter", ".vscode", ".idea", ".github", ".ssh")
FILES = (".env", ".envrc", ".env.local")

HOME_FOLDERS = (".config", ".local")
HOME_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".inputrc", ".gitconfig",
)  # fmt: skip
"""Dotfiles that are protected if the workdir is the home folder, even if they do not exist. Other
dotfiles there are protected only if they exist."""

OF_PROGRAMS = (".cache",)  # folders in the home folder that programs must be able to write to

GIT_ABSENT = {"hooks": None, "config": "", "config.worktree": "", "commondir": ".\n"}
"""Names in `.git` that commands must not create → placeholder content, or None for a folder."""

GIT_SETTINGS = (
    *GIT_ABSENT, "modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer", "remotes",
    "branches",
)  # fmt: skip
"""Names in `.git` that determine which programs git runs; commits write to none of them."""

NOTHING = Path("/dev/null")
LINE_OF_GIT = re.compile(r"gitdir: *(.+?)\s*", re.DOTALL)  # `.git` as a file, as in worktrees

TOOLCHAINS = (
    ".pyenv", ".nvm", ".rustup", ".asdf", ".volta", ".sdkman", ".ghcup", ".deno", ".bun",
    ".juliaup", ".cargo/bin", ".cargo/registry", "go/bin", "go/pkg", ".local/bin", ".local/lib",
    ".local/share/uv/python", ".local/share/fnm", ".local/share/mise", "bin",
    "miniconda3", "miniforge3", "mambaforge", "anaconda3", "micromamba",
)  # fmt: skip
"""Folders in the home folder that commands may read, as they hold programs and no keys."""

TIME = 946_684_807  # modification time of placeholders: 1 January 2000, plus 7 seconds
LONGEST, MOST_HELD = 2, 100  # maximum bytes of a placeholder, and maximum folders held open
PATIENCE = 2.0  # maximum seconds to wait while another kernel removes its placeholders
MOST, MOST_TOLD = 20_000, 10  # maximum protected files to compare, and changes to list
CONTENTS = ("objects", "logs")  # folders of repositories with many files and no settings

Look: TypeAlias = Mapping[str, tuple[int, ...]]

Protection = Literal["mounts", "rules", "notes", "none"]
"""Protection of files in the workdir: `mounts` cover existing files only, `rules` cover all paths,
`notes` only report changes, and `none` does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The files and network that a command may use."""

    workdir: Path
    """Real path of the command's working folder, in which the command may write."""
    home: Path
    """Real path of the user's home folder, where a command sees only its workdir and `readable`."""
    network: bool = False
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for a container; empty for other sandboxes."""
    sources: tuple[Path, ...] = ()
    """Files and folders in the workdir that the running agents were loaded from."""
    readable: tuple[Path, ...] = ()
    names: tuple[Path, ...] = ()
    """Protected files, folders and links, whether or not they exist."""
    closed: Mapping[Path, Path | None] = field(default_factory=dict)
    """Existing protected path (not a link) → read-only path that the command sees in its place, or
    None for an empty folder. Paths that hold keys come last."""
    missing: Mapping[Path, str | None] = field(default_factory=dict)
    """Protected path that commands must not create → placeholder content, or None for a folder."""
    anchored: tuple[Path, ...] = ()
    """Writable folders in the workdir that must not be renamed, as they contain protected paths."""


def make_view(workdir: Path, *, network: bool = False, sources: Iterable[Path] = ()) -> View:
    """Creates the view for commands in a workdir. Raises ConfigError for an unsuitable workdir."""
    _check_place(workdir)
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - never raises
    is_home = workdir == home != Path(home.anchor)
    if home.is_relative_to(workdir) and not is_home:
        raise ConfigError(
            f"the workdir {workdir} contains the home folder, which commands must not read",
            hint="use a project folder as workdir",
        )
    loaded = tuple(path for path in sources if is_inside(path, workdir))
    named = (sys.prefix, sys.base_prefix, *map(os.environ.get, ("VIRTUAL_ENV", "CONDA_PREFIX")))
    places = [*(Path(name) for name in named if name), *(home / name for name in TOOLCHAINS)]
    real = [Path(os.path.realpath(place)) for place in places]
    readable = []
    for place in sorted({*places, *real}):
        shows_too_much = any(p.is_relative_to(place) for p in (home, workdir))
        is_there = any(place.is_relative_to(p) for p in (workdir, "/usr"))
        if place.is_absolute() and place.is_dir() and not shows_too_much and not is_there:
            readable.append(place)
    return View(
        workdir=workdir, home=home, network=network, sources=loaded, readable=tuple(readable)
    )


def fill_view(view: View) -> View:
    workdir, home = view.workdir, view.home
    _check_place(workdir)
    there = sorted(os.listdir(workdir))  # noqa: PTH208
    own = [*FOLDERS, *FILES, *(name for name in there if name.startswith(".env"))]
    if workdir == home:
        own += [*HOME_FOLDERS, *HOME_FILES]
        own += (name for name in there if name.startswith(".") and name not in OF_PROGRAMS)
    # git and most other programs ignore an empty folder in place of a missing file
    absent: dict[Path, str | None] = dict.fromkeys(workdir / name for name in own)
    named = [*absent, *view.sources]
    repositories = _find_repositories(workdir / ".git", workdir)
    for repository in repositories:
        absent |= {repository / name: text for name, text in GIT_ABSENT.items()}
        named += (repository / name for name in GIT_SETTINGS)
    every = dict.fromkeys(named)
    for path in filter(Path.is_symlink, named):
        try:
            passed = follow_links(path)
        except OSError:  # a cycle of links, which a command could replace with a folder
            problem = f"the protected name {path.name} is a link that leads to itself"
            raise ConfigError(problem, hint=f"remove {path} and run again") from None
        every |= dict.fromkeys(place for place in passed[1:] if is_inside(place, workdir))
    names = tuple(path for path in every if not _holds(path, repositories))
    inner = [*there, *(KEY_PATHS if workdir == home else ())]
    hidden = (p for p in [*names, *(workdir / name for name in inner)] if is_hidden(p, workdir))
    keys = {  # including axe's own folders, wherever they are in the workdir
        path: None if path.is_dir() else NOTHING
        for path in _find_real([config_dir(), state_dir(), *hidden], workdir)
    }
    real = _find_real([*names, sys.prefix], workdir)
    found = (path for path in real if not _holds(path, repositories))
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


def _find_repositories(path: Path, workdir: Path) -> list[Path]:
    """Returns the git repository folders in the workdir that a `.git` entry is or refers to."""
    found = [Path(os.path.realpath(path))]
    if found[0].is_file() and (line := LINE_OF_GIT.fullmatch(_read_line(found[0]))):
        found = [Path(os.path.realpath(found[0].parent / line[1]))]
    if (common := found[0] / "commondir").is_file():
        found.append(Path(os.path.realpath(found[0] / _read_line(common).rstrip("\r\n"))))
    return [one for one in found if is_inside(one, workdir) and os.path.lexists(one / "HEAD")]


def _holds(path: Path, repositories: Sequence[Path]) -> bool:
    return any(one.is_relative_to(path) for one in repositories)


def _read_line(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(4096).decode("utf-8", "replace")


def is_inside(path: Path, folder: Path) -> bool:
    return path != folder and path.is_relative_to(folder)


def _find_real(paths: Iterable[Path | str], folder: Path) -> list[Path]:
    there = filter(os.path.lexists, paths)
    real = dict.fromkeys(Path(os.path.realpath(path)) for path in there)
    return [path for path in real if is_inside(path, folder) and path.exists()]


@contextmanager
def cover(view: View, protection: Protection) -> Iterator[View]:
    """Yields the view with its lists of protected paths filled in.

    If mounts protect the files, placeholders are created for missing ones, and removed once no
    command in the workdir needs them.
    """
    if protection == "none":
        yield view
        return
    if protection != "mounts":
        view = fill_view(view)
        yield replace(view, closed={}) if protection == "notes" else view
        return
    import fcntl

    folder = os.open(view.workdir, FOLDER)
    try:
        _lock(folder, fcntl.LOCK_SH, PATIENCE)
        view = fill_view(view)
        made = {path: path for path, text in view.missing.items() if _make(path, text)}
        view = replace(view, closed={**made, **view.closed})
        with ExitStack() as held:  # keeps inode numbers from being reused by new folders
            for path in [*view.anchored, *view.closed][:MOST_HELD]:
                with suppress(OSError):
                    held.callback(os.close, os.open(path, PASSED))
            yield view
    finally:
        if _lock(folder, fcntl.LOCK_EX):
            for path in view.names:
                with suppress(OSError), hold_real_folder(path.parent) as above:
                    its = os.stat(path.name, dir_fd=above, follow_symlinks=False)
                    if int(its.st_mtime) == TIME and stat.S_ISDIR(its.st_mode):
                        os.rmdir(path.name, dir_fd=above)
                    elif int(its.st_mtime) == TIME and its.st_size <= LONGEST:
                        os.unlink(path.name, dir_fd=above)
        _lock(folder, fcntl.LOCK_UN)  # forked processes may have the folder open, too
        os.close(folder)


def _make(path: Path, text: str | None) -> bool:
    """Creates a placeholder; returns True if the path exists afterwards."""
    try:
        with hold_real_folder(path.parent) as folder:
            if text is None:
                os.mkdir(path.name, dir_fd=folder)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                file = os.open(path.name, flags, 0o666, dir_fd=folder)
                os.write(file, text.encode())
                os.close(file)
            os.utime(path.name, (TIME, TIME), dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return True  # another command needs it too
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return False  # the command could not create it either
    return True


def _lock(folder: int, operation: int, patience: float = 0.0) -> bool:
    """Locks or unlocks a folder, waiting at most `patience` seconds; returns True on success."""
    import fcntl

    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(folder, operation | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        except OSError:
            return False


def look(view: View) -> Look:
    """Returns the modes, sizes and times of the protected files that a command could change.

    Folders are not searched if mounts or rules protect their contents. Raises ValueError if there
    are too many files.
    """
    there = (view.workdir / name for name in os.listdir(view.workdir))  # noqa: PTH208
    late = (path for path in there if path.name.startswith(".env") or path.name == "HEAD")
    names = (*view.names, *late, *view.closed)
    outermost = [str(path) for path in names if view.closed.keys().isdisjoint(path.parents)]
    shallow = {*map(str, view.anchored), *(outermost if view.closed else ())}
    left = [*outermost, *shallow]
    found: dict[str, tuple[int, ...]] = {}
    while left:
        path = left.pop()
        with suppress(FileNotFoundError, NotADirectoryError):
            its = os.lstat(path)
            if not stat.S_ISDIR(its.st_mode):  # its time of change cannot be set back
                times = (its.st_mtime_ns, its.st_ctime_ns)
                found[path] = (its.st_mode, its.st_ino, its.st_size, *times)
                continue
            found[path] = (its.st_mode, its.st_ino)
            if not (path in shallow or os.path.basename(path) in CONTENTS):  # noqa: PTH119
                left += (entry.path for entry in os.scandir(path))
        if len(found) > MOST:
            raise ValueError(f"there are more than {MOST} protected files in the workdir")
    return found


def compare(before: Look, after: Look, workdir: Path) -> tuple[str, ...]:
    done = {
        path: "created" if path not in before else "changed" if path in after else "removed"
        for path in sorted(dict(before.items() ^ after.items()))
    }
    notes = [
        f"{quote(os.path.relpath(path, workdir))} is protected, and was {what}"
        for path, what in done.items()
        if done.get(os.path.dirname(path), "changed") == "changed"  # noqa: PTH120 - else with it
    ]
    left = len(notes) - MOST_TOLD
    return (*notes[:MOST_TOLD], *([f"and {left} more changes"] if left > 0 else []))
