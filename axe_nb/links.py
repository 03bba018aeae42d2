"""The names of a file: as it is given, as each link on the way says, and where it really is.

Other programs find a file by any of them, so that each can protect it.
Source: D-83; issue 9.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from axe_nb.descriptors import BY_DESCRIPTOR

MAX_LINKS = 40
"""Links that a path may lead through, as in Linux."""

Links: TypeAlias = Mapping[str, Sequence[Path]]
"""Folded real path → the links that lead there."""


def find_real_folder() -> str:
    """Returns the current folder without links; `getcwd` of POSIX names no others.

    Raises:
        OSError: it was deleted.
    """
    folder = os.getcwd()  # noqa: PTH109 - a Path would be made for nothing
    return folder if os.name == "posix" else os.path.realpath(folder)


@dataclass(frozen=True, slots=True)
class Names:
    """All names of a file or folder below a folder."""

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
        real = self.real / name
        linked = self.links.get(_fold(real), ()) if self.links else ()
        return Names((*linked, *(path / name for path in self.all)), self.links)


def find_names(folder: Path, path: Path, links: Links | None = None) -> Names:
    """Returns the names of a path below a folder, as its links are now.

    Args:
        folder: a real path.
        path: an absolute path; it need not exist.
        links: those directly in the folder; None = they are looked for.

    Raises:
        OSError: its links are a cycle, or the folder cannot be read.
    """
    passed = follow_links(path)
    real, links = passed[-1], list_links(folder) if links is None else links
    linked = (
        link / real.relative_to(place)
        for place in (real, *real.parents)
        for link in links.get(_fold(place), ())
    )
    inside = (name for name in (*passed, *linked) if name.is_relative_to(folder))
    return Names((*dict.fromkeys(name for name in inside if name != real), real), links)


def follow_links(path: Path) -> tuple[Path, ...]:
    """Returns an absolute path, the path at each link that it leads through, and the real path.

    Raises:
        OSError: the links are a cycle, or too many.
    """
    if not BY_DESCRIPTOR:
        return path, Path(os.path.realpath(path))
    passed = [path]
    rest = [*reversed(path.parts[1:])]
    real = Path(path.anchor)
    while rest:
        name = rest.pop()
        if name == "..":
            real = real.parent
            continue
        target = _read_link(real / name)
        if target is None:
            real /= name
            continue
        if len(passed) > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        passed.append(real.joinpath(name, *(n for n in reversed(rest) if n != "..")))
        rest += reversed([n for n in target.split("/") if n not in ("", ".")])
        real = Path(path.anchor) if target.startswith("/") else real
    return *passed, real


def list_links(folder: Path) -> Links:
    """Returns the links directly in a folder that lead to other places in it.

    Args:
        folder: a real path.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[str, list[Path]] = {}
    for link, real in _find_links(folder):
        if real != folder and real.is_relative_to(folder):
            found.setdefault(_fold(real), []).append(link)
    return found


def _find_links(folder: Path) -> Iterator[tuple[Path, Path]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                link = folder / entry.name
                yield link, Path(os.path.realpath(link))


def _read_link(path: Path) -> str | None:
    """Returns the target of a link; None if the path is none."""
    with suppress(OSError, ValueError):
        return os.readlink(path)  # noqa: PTH115 - as written
    return None


def _fold(path: Path) -> str:
    """Returns a path as a file system without case compares it."""
    return unicodedata.normalize("NFC", str(path)).casefold()
