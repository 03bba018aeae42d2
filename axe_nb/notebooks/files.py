"""Notebook files: found, read and written.

Source: product.md "Cassettes" (`axe-nb freeze`, `axe-nb check`); D-68.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.files import display_path, expand_home, reason, write_whole
from axe_nb.errors import ConfigError
from axe_nb.text import quote

Book: TypeAlias = Any
"""A notebook as nbformat has it."""


def find_notebooks(targets: Iterable[str]) -> list[Path]:
    """Returns the notebooks that files, folders and patterns name, each once.

    Raises:
        ConfigError: one of them names none.
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
        below = ((one, one.relative_to(path)) for one in sorted(path.rglob("*.ipynb")))
        yield from (one for one, inner in below if not _is_hidden(inner))
    else:
        matches = map(Path, sorted(glob.glob(str(path), recursive=True)))  # noqa: PTH207  may be absolute
        yield from (one for one in matches if one.suffix == ".ipynb" and one.is_file())


def _is_hidden(path: Path) -> bool:
    """True for what lies in a folder like `.ipynb_checkpoints` or `.venv`."""
    return any(part.startswith(".") for part in path.parts)


def read_notebook(path: Path) -> Book:
    """Returns a notebook in the current format.

    Raises:
        ConfigError: it cannot be read, or is not a notebook; nbformat is missing.
    """
    nbformat = load("nbformat")
    try:
        book = nbformat.read(path, as_version=4)
    except OSError as error:
        raise ConfigError(f"cannot read {display_path(path)}: {reason(error)}") from None
    except Exception:  # of nbformat, which has no class for them
        raise ConfigError(f"{display_path(path)} is not a notebook") from None
    # nbformat reports some of what is wrong, and only to its log
    cells = book.get("cells")
    if not (isinstance(cells, list) and isinstance(book.get("metadata"), dict)):
        raise ConfigError(f"{display_path(path)} is not a notebook")
    for number, cell in enumerate(cells, 1):
        if fault := _find_fault(cell):
            raise ConfigError(
                f"{display_path(path)}, cell {number}: {fault}",
                hint="open the notebook in Jupyter and save it, or repair the file",
            )
    return book


def _find_fault(cell: Any) -> str:
    """Returns the fault of a cell, as far as it is read here; empty if it has none."""
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return "it is not a cell"
    if not _is_text(cell.get("source")):
        return "its source is not text"
    metadata = cell.get("metadata")
    tags = metadata.get("tags", []) if isinstance(metadata, dict) else None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return "its metadata is malformed"
    if cell["cell_type"] != "code":
        return ""
    outputs = cell.get("outputs")
    is_fine = isinstance(outputs, list) and all(map(is_output, outputs))
    return "" if is_fine else "its outputs are malformed"


def is_output(output: Any) -> bool:
    """True for a well-formed output of a cell."""
    match output:
        case {"output_type": "stream", "name": str(), "text": text}:
            return _is_text(text)
        case {"output_type": "error", "ename": str(), "evalue": str(), "traceback": list(lines)}:
            return all(isinstance(line, str) for line in lines)
        case {"output_type": "display_data" | "execute_result", "data": dict()}:
            return isinstance(output.get("metadata", {}), dict)
    return False


def _is_text(value: Any) -> bool:
    """True for a text that can be sent to a kernel and written."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def write_notebook(path: Path, book: Book) -> None:
    """Writes a notebook as a whole or not at all.

    Raises:
        ConfigError: it cannot be written; the file is unchanged.
    """
    write_whole(path, load("nbformat").writes(book).rstrip("\n") + "\n")


def load(name: str) -> Any:
    """Imports a library that only the extra `lab` installs.

    Raises:
        ConfigError: it is missing.
    """
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
