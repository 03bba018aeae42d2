"""Removes a folder of temporary files, then exits with a code: a program, as the launcher is one.

    remover.py FOLDER CODE

It runs only after a command that left files there. These may be nested to any depth.
Source: D-55.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

BATCH = 1000
"""Names of a folder that are read together."""

PATIENCE = 10.0
"""Seconds that it may take."""


class Late(OSError):
    """There is too much to remove."""

    def __init__(self) -> None:
        super().__init__("there are too many files in it")


def remove(folder: str, seconds: float = PATIENCE) -> None:
    """Removes a folder without following links.

    Each folder in it is emptied at the top, to which those in it are moved: so none is too deep.

    Raises:
        Late: the time is up.
        OSError: something cannot be removed.
    """
    until = time.monotonic() + seconds
    top = _open(folder)
    try:
        for name in _empty(top, until):
            _remove_folder(name, top, until)
    finally:
        os.close(top)
    os.rmdir(folder)  # noqa: PTH106 - pathlib is slow to import


def _remove_folder(name: str, top: int, until: float) -> None:
    place = _open(name, top)
    try:
        for below in _empty(place, until):
            os.close(_open(below, place))  # one without rights cannot be moved
            os.rename(below, os.urandom(8).hex(), src_dir_fd=place, dst_dir_fd=top)
    finally:
        os.close(place)
    os.rmdir(name, dir_fd=top)


def _empty(place: int, until: float) -> Iterator[str]:
    """Removes all files of a folder and yields the folders in it, which have to go in between."""
    while names := _list_names(place, until):
        for name in names:
            try:
                os.unlink(name, dir_fd=place)
            except IsADirectoryError:
                yield name


def _open(path: str, at: int | None = None) -> int:
    """Opens a folder, not a link, and allows its owner everything in it."""
    place = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(place)


def _list_names(place: int, until: float) -> list[str]:
    """Returns some of the names in a folder."""
    if time.monotonic() > until:
        raise Late
    with os.scandir(place) as found:
        return [entry.name for _, entry in zip(range(BATCH), found, strict=False)]


def main() -> None:
    folder, code = sys.argv[1:]
    try:
        remove(folder)
    except OSError as error:
        problem = error.strerror or error
        line = f"axe-nb: cannot remove {folder}: {problem}; remove it yourself\n"
        try:
            os.set_blocking(2, False)  # perhaps nobody reads it
            os.write(2, line.encode())
        except OSError:
            pass
    os._exit(int(code))


if __name__ == "__main__":
    main()
