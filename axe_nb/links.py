"""The names of a file: as it is given, as each link on the way says, and where it really is.

Other programs find a file by any of them, so that each can protect it.
Source: D-83; issue 9.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from axe_nb.descriptors import BY_DESCRIPTOR

MAX_LINKS = 40
"""Links that a path may lead through, as in Linux."""

Links: TypeAlias = Mapping[str, Sequence[Path]]
"""Folded real path → the links that lead there."""


@dataclass(frozen=True, slots=True)
class Names:
    """All names of a file or folder below a folder."""

    folder: Path
    """A real path."""
    path: str
    """The real path relative to the folder, with `/`; `.` is the folder itself."""
    all: tuple[Path, ...]
    """Absolute paths below the folder; the last is the real one, also if it lies elsewhere."""
    links: Links = field(repr=False)
    """The links directly in the folder that lead to places in it."""

    @property
    def real(self) -> Path:
        """The real path."""
        return self.all[-1]

    def child(self, name: str) -> Names:
        """Returns the names of an entry of this folder, which must not be a link."""
        path = name if self.path == "." else f"{self.path}/{name}"
        linked = self.links.get(_fold(self.real / name), ()) if self.links else ()
        return Names(self.folder, path, (*linked, *(p / name for p in self.all)), self.links)


def find_names(folder: Path, path: Path, links: Links | None = None) -> Names:
    """Returns the names of a path below a folder, as its links are now.

    Args:
        folder: a real path.
        path: an absolute path; it need not exist.
        links: those directly in the folder; None = they are looked for.

    Raises:
        OSError: its links are a cycle, or the folder cannot be read.
    """
    *passed, real = follow_links(path)
    links = list_links(folder) if links is None else links
    for place in (real, *real.parents):
        passed += (link / real.relative_to(place) for link in links.get(_fold(place), ()))
    inside = (name for name in passed if name.is_relative_to(folder) and name != real)
    shown = Path(os.path.relpath(real, folder)).as_posix()
    return Names(folder, shown, (*dict.fromkeys(inside), real), links)


def follow_links(path: Path) -> tuple[Path, ...]:
    """Returns an absolute path, the path at each link that it leads through, and the real path.

    Raises:
        OSError: the links are a cycle, or too many.
    """
    passed = [path]
    while BY_DESCRIPTOR and (link := _find_link(passed[-1])):
        if len(passed) > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = os.readlink(link)  # noqa: PTH115 - as written
        passed.append(Path(link.parent, target, passed[-1].relative_to(link)))
    return *(Path(os.path.normpath(name)) for name in passed), Path(os.path.realpath(path))


def _find_link(path: Path) -> Path | None:
    """Returns the first link that a path leads through."""
    places = (*reversed(path.parents), path)
    return next((place for place in places if os.path.islink(place)), None)  # noqa: PTH114


def list_links(folder: Path) -> Links:
    """Returns the links directly in a folder, a real path, that lead to other places in it.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[str, list[Path]] = {}
    with os.scandir(folder) as entries:
        for link in (folder / entry.name for entry in entries if entry.is_symlink()):
            real = Path(os.path.realpath(link))
            if real != folder and real.is_relative_to(folder):
                found.setdefault(_fold(real), []).append(link)
    return found


def _fold(path: Path) -> str:
    """Returns a path as a file system without case compares it."""
    return unicodedata.normalize("NFC", str(path)).casefold()
