"""Files that the runs of a notebook leave behind, so that each run differs from the one before.

Source: product.md "Cassettes" (`axe-nb freeze`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

MOST = 20_000
"""Maximum number of files that are looked at."""

MAX_NAMED = 5

OURS = (".ipynb", ".axe", ".pyc", ".tmp")
"""Endings of files that a run may write without being different for it."""


def list_files(folder: Path) -> Mapping[str, tuple[int, int]]:
    """Returns the files below a folder, each with its time and size; hidden ones are left out."""
    found: dict[str, tuple[int, int]] = {}
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        for name in names:
            path = Path(above, name)
            if name.startswith(".") or name.endswith(OURS):
                continue
            try:
                state = path.lstat()
            except OSError:
                continue
            found[path.relative_to(folder).as_posix()] = state.st_mtime_ns, state.st_size
            if len(found) >= MOST:
                return found
    return found


def find_written(notebook: Path, before: Mapping[str, tuple[int, int]]) -> list[str]:
    """Returns the files beside a notebook that its runs have made or changed, as sorted paths."""
    now = list_files(notebook.parent)
    return sorted(name for name, state in now.items() if before.get(name) != state)


def describe_written(written: Sequence[str]) -> list[str]:
    """Returns the lines that name the files, and a cell that removes them."""
    if not written:
        return []
    named = ", ".join(map(repr, written[:MAX_NAMED]))
    cell = f"from pathlib import Path; [Path(name).unlink(missing_ok=True) for name in ({named},)];"
    return [
        "its runs leave files behind that the next run finds: "
        + ", ".join(written[:MAX_NAMED])
        + (f" and {len(written) - MAX_NAMED} more" if len(written) > MAX_NAMED else ""),
        f"remove them in its first cell: {cell}",
    ]
