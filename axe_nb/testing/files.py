"""Notebook files: found, read and written; the marks of their cells, as nbval has them.

Source: D-68.
"""

from __future__ import annotations

import glob
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from axe_nb.agents.files import display_path, expand_home, reason, write_whole
from axe_nb.errors import ConfigError
from axe_nb.text import one_line, quote

Book: TypeAlias = Any
"""A notebook as nbformat has it."""


Mark = Literal["ignore output", "raises exception", "skip"]

MARKS: dict[str, Mark] = {
    "nbval-ignore-output": "ignore output",
    "nbval-raises-exception": "raises exception",
    "raises-exception": "raises exception",
    "nbval-skip": "skip",
    "skip-execution": "skip",
}
"""Tag → its meaning; `# NBVAL_SKIP` is the tag `nbval-skip`."""

MAX_FAULT = 200
"""Characters of the fault of a file in a message."""

_COMMENT = re.compile(r"^[ \t]*#[ \t#]*(NBVAL_\w+)[ \t]*$", re.MULTILINE)


def find_notebooks(targets: Iterable[str]) -> list[Path]:
    """Returns the notebooks that files, folders and patterns name, each once.

    Raises ConfigError: one of them names none.
    """
    found: dict[Path, None] = {}
    for target in targets:
        paths = list(_find(target))
        if not paths:
            raise ConfigError(
                f"no notebook found: {quote(target)}", hint="give .ipynb files, folders or patterns"
            )
        found.update(dict.fromkeys(paths))
    return list(found)


def _find(target: str) -> Iterator[Path]:
    path = expand_home(target)
    if path.is_file():
        yield path
    elif path.is_dir():
        for one in sorted(path.rglob("*.ipynb")):
            if not any(part.startswith(".") for part in one.relative_to(path).parts):
                yield one
    else:
        matches = map(Path, sorted(glob.glob(str(path), recursive=True)))  # noqa: PTH207  may be absolute
        yield from (one for one in matches if one.suffix == ".ipynb" and one.is_file())


def read_notebook(path: Path) -> Book:
    """Returns a notebook in the current format.

    Raises ConfigError: it cannot be read, or is not a notebook; nbformat is missing.
    """
    nbformat = load("nbformat")
    try:
        with warnings.catch_warnings(action="ignore"):  # of cells without ids, which get them
            book = nbformat.read(path, as_version=4)
            check_valid(book)
    except OSError as error:
        raise ConfigError(f"cannot read {display_path(path)}: {reason(error)}") from None
    except Exception as error:  # of nbformat, which has no class for all of them
        fault = one_line(getattr(error, "message", "") or str(error), MAX_FAULT)
        raise ConfigError(
            f"{display_path(path)} is not a notebook: {fault}",
            hint="open the notebook in Jupyter and save it, or repair the file",
        ) from None
    return book


def check_valid(part: Any, ref: str | None = None) -> None:
    """Checks a notebook, or a part of one, such as an `output`; nbformat only logs a fault.

    Raises ValueError, nbformat.ValidationError: it is malformed.
    """
    json.dumps(part, ensure_ascii=False).encode()  # no half characters
    version = {"version": 4, "version_minor": 5} if ref else {}
    load("nbformat").validate(part, ref=ref, relax_add_props=True, **version)


def marks_of(cell: Any) -> set[Mark]:
    """Returns the marks of a cell."""
    tags = cell.metadata.get("tags", ())
    comments = (name.lower().replace("_", "-") for name in _COMMENT.findall(cell.source))
    return {MARKS[name] for name in (*tags, *comments) if name in MARKS}


def find_failure(cell: Any) -> Any:
    """Returns the error output of a cell that should have none; else None."""
    if cell.cell_type != "code" or "raises exception" in marks_of(cell):
        return None
    return next((one for one in cell.outputs if one.output_type == "error"), None)


def write_notebook(path: Path, book: Book) -> None:
    """Writes a notebook as a whole or not at all.

    Raises ConfigError: it cannot be written; the file is unchanged.
    """
    write_whole(path, load("nbformat").writes(book).rstrip("\n") + "\n")


def load(name: str) -> Any:
    """Imports a library that only the extra `lab` installs. Raises ConfigError: it is missing."""
    from importlib import import_module

    from axe_nb.conversion.json_schema import load_jsonschema

    load_jsonschema()  # which nbformat imports
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"running notebooks requires {error.name}, which is not installed",
            hint="install it: pip install 'axe-nb[lab]'",
        ) from None
