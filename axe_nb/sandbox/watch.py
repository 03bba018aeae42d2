"""Protected files after a command: what it created is moved aside, what it changed is restored.

A file that does not exist cannot be made read-only, and covering its place would leave an empty
file on the machine. At level `files` those that exist cannot be either.
Source: D-52, D-55; safety-facts §1 (absent paths).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from axe_nb.agents.files import reason
from axe_nb.descriptors import FILE, hold_real_folder, open_up
from axe_nb.links import find_real_folder
from axe_nb.protected import list_protected
from axe_nb.protected_names import AT_START
from axe_nb.sandbox.leftovers import is_compiled, list_leftovers, look_around
from axe_nb.sandbox.view import GIT_SETTINGS, View
from axe_nb.text import quote

MOST_BYTES, MOST_FILES = 32_000_000, 5_000
"""Maximum size and number of protected files that are kept to restore them."""

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
        self.is_settled = False
        """True once everything has been checked and restored."""
        self.view = view
        self._notes: list[str] = []
        self._seen = look_around(view.workdir)
        self._since = time.time_ns()
        self._before = dict(self._look(view.protected))
        self._folders = {_identify(path) for path in view.folders if path.is_dir()}
        self._kept = Copies(view) if restores else None
        _ALL.add(self)

    def take_notes(self) -> tuple[str, ...]:
        """Returns a note on each thing that was moved or restored since this was last called."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def settle(self) -> None:
        """Moves aside what is new, restores what has changed.

        It may be repeated if it fails, or leaves something in its place.

        Raises:
            OSError: a folder cannot be looked through, or a file not be restored.
        """
        if not self.view.workdir.exists():
            self.is_settled = True
            return
        folders = (*self.view.folders, *self._find_moved())
        for folder in (self.view.workdir, *self.view.anchored, *folders):
            if folder.is_dir() and os.path.realpath(folder) == str(folder):
                open_up(folder, self.view.workdir)
        found = dict(self._look(list(list_protected(self.view.workdir, folders))))
        for path in self._undo():  # not before, as it makes names of its own
            self._notes.append(f"{self._name(path)} is protected; the change was undone")
        what = "has a protected name, because other programs may run or load it"
        new = ((path, its) for path, its in sorted(found.items()) if self._is_new(path, its))
        are_gone = [self._move_aside(path, identity, what) for path, identity in new]
        are_gone += self._clear_leftovers()
        self._restore_links()
        self.is_settled = all(are_gone)

    def _find_moved(self) -> Iterator[Path]:
        """Yields the current folder if the command moved it; Python still imports from it."""
        with suppress(OSError):  # it was deleted
            here = Path(find_real_folder())
            if here not in self.view.folders and _identify(here) in self._folders:
                yield here

    def _undo(self) -> Iterator[Path]:
        if self._kept is not None:
            yield from self._kept.restore()

    def _clear_leftovers(self) -> Iterator[bool]:
        """Moves links aside and removes compiled files; yields true for each that is gone."""
        what = "is a link that leads out of the workdir or to a protected file"
        for path in sorted(list_leftovers(self.view, self._since, self._seen)):
            with suppress(FileNotFoundError):
                identity = _identify(path)
                if is_compiled(path):
                    with hold_real_folder(path.parent) as folder:
                        os.unlink(_name_in(path, folder), dir_fd=folder)
                elif path not in self._before and _MOVED.get(path) != identity:
                    yield self._move_aside(path, identity, what)

    def _restore_links(self) -> None:
        for path, (kind, _, _, target) in list(self._before.items()):
            if kind == stat.S_IFLNK and not os.path.lexists(path):
                with suppress(OSError), hold_real_folder(path.parent) as folder:
                    os.symlink(target, _name_in(path, folder), dir_fd=folder)
                    note = f"the link {self._name(path)} is protected; it was restored"
                    self._notes.append(note)

    def _look(self, protected: Sequence[Path]) -> Iterator[tuple[Path, Identity]]:
        git = self.view.workdir / ".git"
        inner = [git / name for name in GIT_SETTINGS] if not git.is_symlink() else []
        for path in {*protected, *self.view.sources, *inner}:
            with suppress(FileNotFoundError, NotADirectoryError):
                yield path, _identify(path)

    def _is_new(self, path: Path, identity: Identity) -> bool:
        """True if nothing was at a path, or a link has taken its place or has been replaced."""
        before = self._before.get(path)
        return before is None or (before != identity and stat.S_IFLNK in (before[0], identity[0]))

    def _move_aside(self, path: Path, identity: Identity, what: str) -> bool:
        """Moves a new file aside; returns true if it is gone from its place."""
        problem = f"{self._name(path)} {what}; "
        place = _find_free(path)
        try:
            open_up(path.parent, self.view.workdir)
            with hold_real_folder(path.parent) as folder:
                old, new = _name_in(path, folder), _name_in(place, folder)
                if _identify(old, folder) != identity:
                    return True
                os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._notes.append(f"{problem}it could not be moved ({reason(error)}): remove it")
            return False
        _MOVED[place] = identity
        for watch in _ALL - {self}:  # of commands that go on, and might create it again
            watch._before.pop(path, None)
        self._notes.append(f"{problem}it was moved to {self._name(place)}")
        return True

    def _name(self, path: Path) -> str:
        return quote(path.relative_to(self.view.workdir).as_posix())


_ALL: WeakSet[Watch] = WeakSet()
"""The watches of running commands, and of some that have ended."""

_MOVED: dict[Path, Identity] = {}
"""New place → what was moved aside to it."""


class Copies:
    """The contents of protected files, kept in memory."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._files: dict[Path, tuple[bytes, int]] = {}
        self._links: dict[Path, str] = {}
        self._folders: dict[Path, int] = {}
        size = 0
        for path in self._list_paths():
            mode = stat.S_IMODE(path.lstat().st_mode)
            if path.is_symlink():
                self._links[path] = os.readlink(path)  # noqa: PTH115 - as written
            elif path.is_dir():
                self._folders[path] = mode
            else:
                self._files[path] = path.read_bytes(), mode
                size += len(self._files[path][0])
            if size > MOST_BYTES or len(self) > MOST_FILES:
                raise ValueError("protected files in the workdir are too large to back up")

    def __len__(self) -> int:
        return len(self._files) + len(self._folders) + len(self._links)

    def restore(self) -> Iterator[Path]:
        """Puts everything back as it was; yields each path that had changed.

        Only by descriptors: a container may exchange folders of the workdir meanwhile.

        Raises:
            OSError: it could not be done, or a link was in the way.
        """
        for folder, mode in self._folders.items():
            if not folder.is_dir() or folder.is_symlink():
                self._clear(folder)
                self._make_folders(folder)
                yield folder
            with hold_real_folder(folder) as number:
                Path(f"/proc/self/fd/{number}").chmod(mode)
        for path, (content, mode) in self._files.items():
            if not _holds(path, content, mode):
                self._clear(path)
                self._make_folders(path.parent)
                _write_new(path, content, mode)
                yield path
        for path, target in self._links.items():
            if not _leads_to(path, target):
                self._clear(path)
                with hold_real_folder(path.parent) as number:
                    os.symlink(target, path.name, dir_fd=number)
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
        return [path for path in found if not self._has(path)]

    def _has(self, path: Path) -> bool:
        return path in self._files or path in self._folders or path in self._links

    def _clear(self, path: Path) -> None:
        """Moves away what lies at a path, which need not exist, or at a folder of it."""
        for place in (*reversed(path.parents), path):
            is_folder = place.is_dir() and not place.is_symlink()
            if os.path.lexists(place) and (not is_folder or place == path):
                self._move_out(place)
                return

    def _make_folders(self, path: Path) -> None:
        """Makes a folder, and those between it and the workdir, where they are missing."""
        for place in (*reversed(path.parents), path):
            if place.is_relative_to(self._view.workdir) and not os.path.lexists(place):
                with hold_real_folder(place.parent) as folder:
                    os.mkdir(place.name, dir_fd=folder)

    def _move_out(self, path: Path) -> None:
        place = _find_free(self._view.workdir / path.name)
        with hold_real_folder(path.parent) as old, hold_real_folder(place.parent) as new:
            os.rename(path.name, place.name, src_dir_fd=old, dst_dir_fd=new)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    with hold_real_folder(path.parent) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
        handle = os.open(path.name, flags, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        os.fchmod(handle, mode)


def _leads_to(path: Path, target: str) -> bool:
    with suppress(OSError):
        return os.readlink(path) == target  # noqa: PTH115 - as written
    return False


def _holds(path: Path, content: bytes, mode: int) -> bool:
    """True if a regular file holds exactly that."""
    try:
        found = path.lstat()
        is_same = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode
        return is_same and found.st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def _walk(path: Path) -> Iterator[Path]:
    """Yields a path and, of a folder, what is below it, but no special files; follows no link."""
    left = [path]
    while left:
        path = left.pop()
        if path.is_symlink() or path.is_file():
            yield path
        elif path.is_dir():
            yield path
            left += sorted(path.iterdir(), reverse=True)


def _list_startup(prefix: Path) -> Iterator[Path]:
    """Yields the files of a Python environment that are run whenever it starts."""
    for pattern in ("pyvenv.cfg", "bin/*", "lib/python*/site-packages/*"):
        for path in sorted(prefix.glob(pattern)):
            is_hook = path.suffix == ".pth" or path.stem in AT_START
            is_startup = is_hook or "site-packages" not in pattern
            if is_startup and (path.is_symlink() or path.is_file()):
                yield path


def _find_free(path: Path) -> Path:
    """Returns an unused name beside a path that no program loads."""
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
