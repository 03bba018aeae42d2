"""`axe-nb lesson`: the copy of a lesson that students get, without its solutions.

The marks of solutions are those of nbgrader (`### BEGIN SOLUTION`, `### END SOLUTION`), so that
lessons made for it can be used as they are.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from axe_nb.agents.files import display_path, expand_home
from axe_nb.errors import ConfigError
from axe_nb.testing.files import Book, read_notebook, write_notebook
from axe_nb.testing.freeze import TIMES
from axe_nb.testing.headless import name_cassette
from axe_nb.text import plural, quote

FOLDER = "student"
"""Folder of student copies, beside the lesson."""

EXERCISE = "exercise:"
"""Beginning of the tag of a check cell; the rest is the name of its exercise."""

SOLUTION = "solution"
"""Tag of a cell that students do not get."""

GOES_ON = "raises-exception"
"""Tag of a cell whose error does not stop *Run All*."""

PLACEHOLDER = ("# your code here", 'raise NotImplementedError("your code here")')
"""The lines that replace a solution; in a cell magic, only the first."""

TAG_CHECKS = "give each check cell a tag like exercise:NAME"
"""The next step for a lesson without exercises."""

_MARK = re.compile(r"^([ \t]*)#+[ \t]*(BEGIN|END) SOLUTION[ \t]*$")


def write_student_copy(path: Path, folder: str | None, write: Callable[[str], None]) -> None:
    """Writes the student copy of a lesson, and copies the cassette beside it.

    Raises ConfigError: it is not a lesson, its marks do not match, or the copy cannot be written.

    Args:
        folder: the folder of the copy; None = `student` beside the lesson.
    """
    target = (expand_home(folder) if folder is not None else path.parent / FOLDER) / path.name
    if target.resolve() == path.resolve():
        raise ConfigError(
            f"the student copy would replace the lesson {display_path(path)}",
            hint="name another folder with --to",
        )
    book = read_notebook(path)
    copy = make_student_copy(book, display_path(path))
    exercises = find_exercises(book, display_path(path))
    write_notebook(target, copy)
    cassette = path.with_name(name_cassette(path))
    if cassette.exists():
        shutil.copyfile(cassette, target.with_name(cassette.name))
    beside = f", with {cassette.name}" if cassette.exists() else ""
    write(f"{display_path(target)}: {plural(len(exercises), 'exercise')}{beside}")
    if not exercises:
        write(f"to mark it, {TAG_CHECKS}")


def make_student_copy(book: Book, name: str) -> Book:
    """Returns a lesson without solutions and outputs. Pure.

    *Run All* continues past its exercises: the cells of solutions and checks have the tag for it.
    Raises ConfigError: the beginning or end of a solution is missing.
    """
    copy = deepcopy(book)
    copy.metadata.pop("widgets", None)
    for number, cell in enumerate(copy.cells, 1):
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        for time in TIMES:
            cell.metadata.pop(time, None)
        source = cell.source
        cell.source = _strip(source, f"{name}, cell {number}")
        is_open = cell.source != source or exercise_of(cell) is not None
        if is_open and GOES_ON not in tags_of(cell):
            cell.metadata["tags"] = [*tags_of(cell), GOES_ON]
    copy.cells = [cell for cell in copy.cells if SOLUTION not in tags_of(cell)]
    return copy


def _strip(source: str, place: str) -> str:
    """Returns the source of a cell with placeholder lines for each solution."""
    lines: list[str] = []
    is_inside = False
    placeholder = PLACEHOLDER[: 1 if source.lstrip().startswith("%%") else None]
    for line in source.split("\n"):
        mark = _MARK.match(line)
        if mark is None:
            lines += [] if is_inside else [line]
            continue
        if is_inside == (mark[2] == "BEGIN"):
            other = "END" if is_inside else "BEGIN"
            raise ConfigError(
                f"{place}: a line ### {mark[2]} SOLUTION without ### {other} SOLUTION before it",
                hint="put each solution between these two lines",
            )
        is_inside = not is_inside
        lines += [f"{mark[1]}{one}" for one in placeholder] if is_inside else []
    if is_inside:
        raise ConfigError(
            f"{place}: ### END SOLUTION is missing",
            hint="put each solution between ### BEGIN SOLUTION and ### END SOLUTION",
        )
    return "\n".join(lines)


def tags_of(cell: Any) -> list[str]:
    """Returns the tags of a cell."""
    return list(cell.metadata.get("tags", ()))


def exercise_of(cell: Any) -> str | None:
    """Returns the name of the exercise that a cell checks; None if it checks none."""
    if cell.cell_type != "code":
        return None
    names = [tag.removeprefix(EXERCISE) for tag in tags_of(cell) if tag.startswith(EXERCISE)]
    return names[0].strip() if names else None


def id_of(cell: Any) -> str:
    """Returns the id of a cell, which a notebook by a stranger may lack; empty = it has none."""
    found = cell.get("id")
    return found if isinstance(found, str) else ""


def find_exercises(book: Book, name: str) -> dict[str, Any]:
    """Returns the exercises of a lesson: name → check cell, in the order of the lesson.

    Raises ConfigError: one of them cannot be marked.
    """
    found: dict[str, Any] = {}
    for number, cell in enumerate(book.cells, 1):
        exercise = exercise_of(cell)
        if exercise is None:
            continue
        for fault in _find_faults(cell, exercise, found):
            raise ConfigError(
                f"{name}, cell {number}: {fault}",
                hint="a check is a Python cell with a tag like exercise:NAME; use each name once",
            )
        found[exercise] = cell
    return found


def _find_faults(cell: Any, exercise: str, found: dict[str, Any]) -> Iterator[str]:
    if not exercise:
        yield "its exercise tag has no name"
    if exercise in found:
        yield f"the exercise {quote(exercise)} is already checked by another cell"
    if cell.source.lstrip().startswith("%%"):
        yield "a cell magic cannot be a check"
    if not id_of(cell):
        yield "it has no id, which is needed to find its copies; open the notebook and save it"
