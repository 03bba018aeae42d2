"""Protected files after a command: what it created is moved aside, what it changed is restored.

A file that does not exist cannot be made read-only, and covering its place would leave an empty
file on the machine. At level `files` those that exist cannot be either.
Source: D-52, D-55; safety-facts §1 (absent paths).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from axe_nb.agents.files import reason
from axe_nb.descriptors import hold_real_folder
from axe_nb.protected import list_protected
from axe_nb.protected_names import AT_START
from axe_nb.sandbox.view import GIT_SETTINGS, View
from axe_nb.text import quote

MOST_BYTES, MOST_FILES = 32_000_000, 5_000
"""Most that is kept of protected files, to restore them."""

LONGEST_NAME = 230
"""Bytes of a name to which a suffix can be added; file systems allow 255."""

Identity = tuple[int, int, int, str]
"""Type, device, number and, for a link, its target."""


class Watch:
    """The protected places of a workdir, as they were before a command."""

    def __init__(self, view: View, *, restores: bool = False) -> None:
        """Looks at the places.

        Args:
            view: the view of the command.
            restores: true if the command could change existing protected files.

        Raises:
            ValueError: they are too large to be restored.
        """
        self._view = view
        self._before = dict(self._look(view.protected))
        self._kept = Copies(view) if restores else None
        _ALL.add(self)

    def settle(self) -> Iterator[str]:
        """Moves aside what is new, restores what has changed; yields a note on each."""
        now: Sequence[Path] = ()
        with suppress(FileNotFoundError):  # the workdir itself is gone
            now = tuple(list_protected(self._view.workdir))
        found = dict(self._look(now))  # before restoring, which makes names of its own
        if self._kept is not None:
            for path in self._kept.restore():
                yield f"{self._name(path)} is protected; its change was undone"
        for path, identity in sorted(found.items()):
            if self._is_new(path, identity) and (note := self._move_aside(path, identity)):
                yield note
        for path, (kind, _, _, target) in list(self._before.items()):
            if kind == stat.S_IFLNK and not os.path.lexists(path):
                with suppress(OSError), hold_real_folder(path.parent) as folder:
                    os.symlink(target, _name_in(path, folder), dir_fd=folder)
                    yield f"the link {self._name(path)} is protected; it was restored"

    def _look(self, protected: Sequence[Path]) -> Iterator[tuple[Path, Identity]]:
        git = self._view.workdir / ".git"
        inner = [git / name for name in GIT_SETTINGS] if not git.is_symlink() else []
        for path in {*protected, *self._view.sources, *inner}:
            with suppress(FileNotFoundError, NotADirectoryError):
                yield path, _identify(path)

    def _is_new(self, path: Path, identity: Identity) -> bool:
        """True if nothing was at a path, or a link has taken its place or has been replaced."""
        before = self._before.get(path)
        return before is None or (before != identity and stat.S_IFLNK in (before[0], identity[0]))

    def _move_aside(self, path: Path, identity: Identity) -> str:
        """Returns the note on it; empty if it is gone already."""
        problem = f"{self._name(path)} is a protected name, which other programs may run or obey; "
        place = _find_free(path)
        try:
            with hold_real_folder(path.parent) as folder:
                old, new = _name_in(path, folder), _name_in(place, folder)
                if _identify(old, folder) != identity:
                    return ""
                os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{problem}it could not be moved ({reason(error)}): remove it"
        for watch in _ALL - {self}:  # of commands that go on, and might create it again
            watch._before.pop(path, None)
        return f"{problem}it was moved to {self._name(place)}"

    def _name(self, path: Path) -> str:
        return quote(path.relative_to(self._view.workdir).as_posix())


_ALL: WeakSet[Watch] = WeakSet()
"""Those of the commands that run now, and some that have ended."""


class Copies:
    """The contents of protected files, kept in memory."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._files: dict[Path, tuple[bytes, int]] = {}
        self._folders: dict[Path, int] = {}
        size = 0
        for path in self._list_paths():
            mode = stat.S_IMODE(path.lstat().st_mode)
            if path.is_dir():
                self._folders[path] = mode
            else:
                self._files[path] = path.read_bytes(), mode
                size += len(self._files[path][0])
            if size > MOST_BYTES or len(self._files) + len(self._folders) > MOST_FILES:
                raise ValueError("protected files in the workdir are too large to keep a copy")

    def restore(self) -> Iterator[Path]:
        """Puts everything back as it was; yields each path that had changed."""
        for folder, mode in self._folders.items():
            if not folder.is_dir() or folder.is_symlink():
                self._clear(folder)
                folder.mkdir(parents=True)
                yield folder
            folder.chmod(mode)
        for path, (content, mode) in self._files.items():
            if not _holds(path, content, mode):
                self._clear(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(mode)
                yield path
        for path in self._list_new():
            self._move_out(path)
            yield path

    def _list_paths(self) -> Iterator[Path]:
        """Yields files and folders; of a Python environment, the files that run at its start."""
        for path in (*self._view.read_only, *self._view.hidden):
            yield from _walk(path) if path != self._view.prefix else _list_startup(path)

    def _list_new(self) -> list[Path]:
        found = [path for folder in self._folders for path in sorted(folder.iterdir())]
        if self._view.prefix is not None:
            found += _list_startup(self._view.prefix)
        return [path for path in found if path not in self._files and path not in self._folders]

    def _clear(self, path: Path) -> None:
        """Moves away what lies at a path, which need not exist, or at a folder of it."""
        for place in (*reversed(path.parents), path):
            is_folder = place.is_dir() and not place.is_symlink()
            if os.path.lexists(place) and (not is_folder or place == path):
                self._move_out(place)
                return

    def _move_out(self, path: Path) -> None:
        path.rename(_find_free(self._view.workdir / path.name))


def _holds(path: Path, content: bytes, mode: int) -> bool:
    """True if a regular file holds exactly that."""
    try:
        found = path.lstat()
        is_same = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode
        return is_same and found.st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def _walk(path: Path) -> Iterator[Path]:
    """Yields a path and, of a folder, what is below it, but neither links nor special files."""
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        return
    yield path
    if path.is_dir():
        for below in sorted(path.iterdir()):
            yield from _walk(below)


def _list_startup(prefix: Path) -> Iterator[Path]:
    """Yields the files of a Python environment that are run whenever it starts."""
    for pattern in ("pyvenv.cfg", "bin/*", "lib/python*/site-packages/*"):
        for path in sorted(prefix.glob(pattern)):
            is_hook = path.suffix == ".pth" or path.stem in AT_START
            is_startup = is_hook or "site-packages" not in pattern
            if is_startup and path.is_file() and not path.is_symlink():
                yield path


def _find_free(path: Path) -> Path:
    """Returns a name beside a path that no program obeys and nothing has."""
    name = path.name if len(os.fsencode(path.name)) <= LONGEST_NAME else "protected"
    place, count = path.with_name(f"{name}.moved"), 1
    while os.path.lexists(place):
        count += 1
        place = path.with_name(f"{name}.moved-{count}")
    return place


def _name_in(path: Path, folder: int | None) -> str:
    """Returns what to call a path for the descriptor of its folder, or without one."""
    return str(path) if folder is None else path.name


def _identify(path: Path | str, folder: int | None = None) -> Identity:
    found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    kind = stat.S_IFMT(found.st_mode)
    target = os.readlink(path, dir_fd=folder) if kind == stat.S_IFLNK else ""
    return kind, found.st_dev, found.st_ino, target
