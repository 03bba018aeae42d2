"""Libraries of axe_nb never come from the current folder, where a notebook's Python looks first.

They are imported on first use: a `regex.py` that a tool wrote, or a repository brought, would run
instead. Your own code goes on to import from the current folder.
Source: issue 9; D-52; safety-facts §7.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType

IMPORTERS = {
    "axe_nb", "anyio", "anywidget", "certifi", "h11", "h2", "httpcore", "httptools", "httpx",
    "idna", "ipywidgets", "justhtml", "markdown_it", "mdurl", "mypy_extensions", "psygnal", "regex",
    "sniffio", "socksio", "tomli_w",
}  # fmt: skip
"""Packages whose imports never come from the current folder."""

HOME = str(Path(__file__).resolve().parent.parent)
"""Folder that axe_nb itself was imported from."""


class InstalledFinder:
    """Finds what the packages above import, also what is not installed, outside the folder."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a top-level module; None if another package imports it.

        Raises:
            ModuleNotFoundError: there is no such module outside the current folder.
        """
        if path is not None or _find_importer() not in IMPORTERS:
            return None
        found = PathFinder.find_spec(name, [entry for entry in sys.path if not _is_here(entry)])
        for finder in sys.meta_path:
            if found is None and finder not in (InstalledFinder, PathFinder):
                found = finder.find_spec(name, None, target)
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found


def protect_imports() -> None:
    """Keeps the current folder out of the imports of axe_nb's libraries; twice is harmless."""
    finders = sys.meta_path
    if InstalledFinder not in finders:
        place = finders.index(PathFinder) if PathFinder in finders else len(finders)
        finders.insert(place, InstalledFinder)


def _find_importer() -> str:
    """Returns the top-level package that an import is for.

    The standard library imports for its caller: `copy` and `pickle` look for a package `org`.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name not in sys.stdlib_module_names or name == "__main__":
            return name
        frame = frame.f_back
    return ""


def _is_here(entry: str) -> bool:
    """True if an entry of `sys.path` is the current folder, unless axe_nb itself lies there."""
    try:
        here = os.path.realpath(os.curdir)
    except OSError:  # it was deleted
        return not os.path.isabs(entry)  # noqa: PTH117 - an import is no place for pathlib
    try:
        real = os.path.realpath(entry)
    except (OSError, ValueError):  # not a path
        return True
    return real == here and real != HOME
