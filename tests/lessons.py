"""Runs the lessons and saves them: `python -m tests.lessons [NAME…]`.

A lesson is edited in `notebooks/solutions`; this saves it there with its outputs, and its student
copy, with those of a run of its own, in `notebooks`. NAME is that of a file without its ending.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat

from axe_nb.testing.check import make_environment, run_headless
from axe_nb.testing.lesson import make_student_copy, tags_of

FOLDER = Path(__file__).parent.parent / "notebooks"
SOLVED = sorted((FOLDER / "solutions").glob("*.ipynb"))


def run_and_save(book: Any, path: Path) -> None:
    """Runs a notebook in its folder, past the cells that fail on purpose, and saves it."""
    environ = {**make_environment(path, "replay"), "AXE_CASSETTE": ""}
    run = run_headless(book, path, "replay", goes_on=True, environ=environ)
    for cell in run.book.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if output.output_type == "error" and "raises-exception" not in tags_of(cell):
                raise SystemExit(f"{path}, cell {cell.execution_count}: {output.evalue}")
    if run.stopped:
        raise SystemExit(f"{path}: {run.stopped}")
    run.book.metadata.language_info = {"name": "python"}
    nbformat.write(run.book, path)


def main(names: list[str]) -> None:
    """Saves the lessons of these names; none = all."""
    for path in SOLVED:
        if path.stem in names or not names:
            book = nbformat.read(path, 4)
            run_and_save(book, path)
            run_and_save(make_student_copy(book, path.name), FOLDER / path.name)
            print(path.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
