"""Imports on first use: where libraries come from, and how the rooms reach what is above them.

Libraries never come from a place that a tool or a repository can write to. They are imported on
first use: a `regex.py` that a tool wrote, or a repository brought, would run
instead. Your own code goes on to import from wherever `sys.path` leads.
Source: issue 9; D-52; safety-facts §7.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

_found: dict[str, Callable[[], Any]] = {}


def provide(name: str, find: Callable[[], Any]) -> None:
    """Says how to find what is above the rooms that use it; for the top of the package alone."""
    _found[name] = find


def find_provided(name: str) -> Any:
    """Returns what the top of the package provides under this name."""
    return _found[name]()


IMPORTERS = {
    "annotated_types", "anyio", "anywidget", "attr", "attrs", "axe_nb", "certifi", "click",
    "cryptography", "genai_prices", "h11", "h2", "httpcore", "httpcore2", "httptools", "httpx",
    "httpx2", "idna", "ipywidgets", "jsonschema", "jsonschema_specifications", "justhtml",
    "markdown_it", "mcp", "mcp_types", "mdurl", "mypy_extensions", "opentelemetry", "psygnal",
    "pydantic", "pydantic_core", "python_multipart", "referencing", "regex", "rpds", "sniffio",
    "socksio", "sse_starlette", "starlette", "tomli_w", "truststore", "typing_extensions",
    "typing_inspection", "uvicorn",
    # what jsonschema imports for its formats, where it is installed, and what these import
    "arrow", "dateutil", "fqdn", "isoduration", "jsonpointer", "lark", "rfc3339_validator",
    "rfc3986_validator", "rfc3987", "rfc3987_syntax", "six", "uri_template", "webcolors",
}  # fmt: skip
"""Packages whose imports never come from such a place."""

NAMESPACES = {"google", "opentelemetry"}
"""Packages without `__init__.py`, of which several distributions have a part."""

HOME = str(Path(__file__).resolve().parent.parent)
"""Folder that axe_nb itself was imported from."""

INSTALLED = [
    os.path.realpath(folder)
    for folder in (Path(os.__file__).parent, *site.getsitepackages(), site.USER_SITE)
    if folder
]
"""Folders of the standard library and of installed packages."""

_worked_in: set[str] = set()
"""Real folders that were the current one when axe_nb was imported or a run began, and workdirs."""


class InstalledFinder:
    """Finds what the packages above import, also what is not installed, in trusted places."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a top-level module; None if another package imports it.

        Raises:
            ModuleNotFoundError: there is no such module in a trusted place.
        """
        if path is not None or _find_importer() not in IMPORTERS:
            return None
        found = PathFinder.find_spec(name, _list_trusted())
        if found is not None and found.loader is None:
            # a folder without `__init__.py` would take its parts from all of sys.path
            found = _fix_parts(found) if name in NAMESPACES else None
        for finder in sys.meta_path:
            if found is None and finder not in (InstalledFinder, PathFinder):
                found = finder.find_spec(name, None, target)
        if found is None:
            place = "outside the folders that tools can write to"
            raise ModuleNotFoundError(f"No module named {name!r} {place}", name=name)
        return found


def _fix_parts(found: ModuleSpec) -> ModuleSpec:
    """Returns the spec of a package without `__init__.py` that has the parts found, and no more."""
    fixed = ModuleSpec(found.name, None, is_package=True)
    fixed.submodule_search_locations = list(found.submodule_search_locations or ())
    return fixed


def protect_imports(*workdirs: Path) -> None:
    """Keeps these real folders and the current one out of the imports of axe_nb's libraries.

    Calling it again is harmless.
    """
    _worked_in.update(_find_here(), map(str, workdirs))
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


def _list_trusted() -> list[str]:
    """Returns the trusted folders of `sys.path`, those that only an installation writes first."""
    entries = tuple(entry for entry in sys.path if isinstance(entry, str))
    return _sort_trusted(entries, frozenset((*_worked_in, *_find_here())))


@lru_cache(maxsize=16)
def _sort_trusted(entries: tuple[str, ...], avoided: frozenset[str]) -> list[str]:
    installed, own, others = [], [], []
    for entry in entries:
        try:
            real = os.path.realpath(entry)
        except (OSError, ValueError):  # not a path
            continue
        if any(_lies_in(real, folder) for folder in INSTALLED):
            installed.append(real)
        elif real == HOME:
            own.append(real)
        elif not any(_lies_in(real, at) or _lies_in(at, real) for at in avoided):
            others.append(real)
    return [*installed, *own, *others]  # without links, which may change meanwhile


def find_real_folder() -> str:
    """Returns the current folder without links; `getcwd` of POSIX names no others.

    Raises:
        OSError: it was deleted.
    """
    folder = os.getcwd()  # noqa: PTH109 - a Path would be made for nothing
    return folder if os.name == "posix" else os.path.realpath(folder)


def _find_here() -> Sequence[str]:
    """Returns the real current folder; nothing if it was deleted."""
    try:
        return [find_real_folder()]
    except OSError:
        return []


def _lies_in(path: str, folder: str) -> bool:
    """True if a real path is the folder or below it; letter case does not count."""
    below = f"{path.rstrip(os.sep)}{os.sep}".casefold()
    return below.startswith(f"{folder.rstrip(os.sep)}{os.sep}".casefold())
