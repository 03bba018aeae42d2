"""`axe-nb lesson`: creates student copies of a lesson, and runs and marks submissions.

Solutions are marked as in nbgrader, with the lines `### BEGIN SOLUTION` and `### END SOLUTION`.
A submission is an untrusted program: all that it reports is limited in size, and checked before
use; docs/teaching.md says how far to trust the marks. Source: D-82.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from axe_nb.agents.files import display_path, expand_home, reason, write_whole
from axe_nb.agents.user_config import Config
from axe_nb.errors import ConfigError
from axe_nb.sandbox.find import Sandbox, find_sandbox
from axe_nb.sandbox.launcher import REMOVE
from axe_nb.sandbox.process import clean_environment
from axe_nb.sandbox.view import make_view
from axe_nb.testing.check import (
    TIMES,
    Book,
    HeadlessRun,
    check_valid,
    describe_failure,
    find_notebooks,
    load,
    make_environment,
    prepare,
    read_notebook,
    write_notebook,
)
from axe_nb.testing.in_sandbox import READY
from axe_nb.text import align_columns, one_line, plural, quote

EXERCISE = "exercise:"
"""Prefix of a check cell's tag; the name of the exercise follows."""

TAG_CHECKS = "give each check cell a tag like exercise:NAME"

_MARK = re.compile(r"^[ \t]*#+[ \t]*(BEGIN|END) SOLUTION[ \t]*$", re.MULTILINE)
_SOLUTION = re.compile(
    r"^([ \t]*)#+[ \t]*BEGIN SOLUTION[ \t]*$.*?^[ \t]*#+[ \t]*END SOLUTION[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


def write_student_copy(path: Path, folder: str | None, write: Callable[[str], None]) -> None:
    """Writes the student copy of a lesson to a folder, and copies its cassette, if any."""
    name = display_path(path)
    target = (expand_home(folder) if folder is not None else path.parent / "student") / path.name
    if target.resolve() == path.resolve():
        raise ConfigError(
            f"the student copy would replace the lesson {name}",
            hint="name another folder with --to",
        )
    book = read_notebook(path)
    copy, exercises = make_student_copy(book, name), find_exercises(book, name)
    write_notebook(target, copy)
    cassette, beside = path.with_suffix(".axe"), ""
    if cassette.exists():
        shutil.copyfile(cassette, target.with_name(cassette.name))
        beside = f", with {cassette.name}"
    write(f"{display_path(target)}: {plural(len(exercises), 'exercise')}{beside}")
    if not exercises:
        write(f"to mark it, {TAG_CHECKS}")


def make_student_copy(book: Book, name: str) -> Book:
    """Returns a copy of a lesson without solutions or outputs.

    Check cells, and cells that had a solution, get the tag `raises-exception`, so that *Run All*
    continues past them.
    """
    copy = deepcopy(book)
    copy.metadata.pop("widgets", None)
    for number, cell in enumerate(copy.cells, 1):
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        for time in TIMES:
            cell.metadata.pop(time, None)
        marks = _MARK.findall(cell.source)
        if marks != ["BEGIN", "END"] * (len(marks) // 2):
            raise ConfigError(
                f"{name}, cell {number}: ### BEGIN SOLUTION and ### END SOLUTION do not match",
                hint="put each solution between these two lines",
            )
        placeholder = r"\1# your code here"
        if not cell.source.lstrip().startswith("%%"):
            placeholder += '\n\\1raise NotImplementedError("your code here")'
        cell.source = _SOLUTION.sub(placeholder, cell.source)
        is_open = bool(marks) or exercise_of(cell) is not None
        if is_open and "raises-exception" not in tags_of(cell):
            cell.metadata["tags"] = [*tags_of(cell), "raises-exception"]
    copy.cells = [cell for cell in copy.cells if "solution" not in tags_of(cell)]
    return copy


def tags_of(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", ()))


def exercise_of(cell: Any) -> str | None:
    """Returns the name of the exercise that a cell checks, or None for any other cell."""
    tags = tags_of(cell) if cell.cell_type == "code" else []
    return next((t.removeprefix(EXERCISE).strip() for t in tags if t.startswith(EXERCISE)), None)


def id_of(cell: Any) -> str:
    """Returns the id of a cell; empty if it has no valid id, as in some submissions."""
    found = cell.get("id")
    return found if isinstance(found, str) else ""


def find_exercises(book: Book, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, cell in enumerate(book.cells, 1):
        exercise = exercise_of(cell)
        if exercise is None:
            continue
        if not exercise or exercise in found or cell.source.lstrip().startswith("%%"):
            raise ConfigError(
                f"{name}, cell {number}: it cannot be a check",
                hint="a check is a Python cell with a tag like exercise:NAME; use each name once",
            )
        found[exercise] = cell
    return found


Marks = Mapping[str, str]
"""Exercise name → mark on one line: `passed`, `failed: HINT` or `not reached: REASON`."""


def mark_submissions(
    lesson: Path,
    folder: str,
    timeout: float | None,
    table: str | None,
    write: Callable[[str], None],
    sandbox: Sandbox,
) -> None:
    """Runs the notebooks below a folder, one after another, and writes a table of their marks.

    `lesson` contains the check cells, and the files beside the lesson are copied for each
    submission; `table` is the path of a CSV file that also receives the table.
    """
    place, name = expand_home(folder), display_path(lesson)
    exercises = find_exercises(read_notebook(lesson), name)
    if not exercises:
        raise ConfigError(f"{name} has no exercises", hint=TAG_CHECKS)
    if not place.is_dir():
        hint = "give the folder that contains the submissions"
        raise ConfigError(f"no such folder: {quote(folder)}", hint=hint)
    limit = 120.0 if timeout is None else timeout
    rows = [["submission", *exercises, "passed"]]
    for path in find_notebooks([folder]):
        name = one_line(path.relative_to(place).with_suffix("").as_posix(), 80)
        try:
            marks = mark_submission(lesson, exercises, path, place, limit, sandbox)
        except ValueError as error:
            marks = dict.fromkeys(exercises, f"not reached: {one_line(str(error), 300)}")
        rows.append([name, *marks.values(), str([*marks.values()].count("passed"))])
    for line in format_table(rows):
        write(line)
    if table is not None:
        text = io.StringIO()
        # a spreadsheet would take some names for formulas
        shown = [[f"'{field}" if field[:1] in "=+-@" else field for field in row] for row in rows]
        csv.writer(text, lineterminator="\n").writerows(shown)
        write_whole(expand_home(table), text.getvalue())


def mark_submission(
    lesson: Path,
    exercises: Mapping[str, Any],
    path: Path,
    others: Path,
    timeout: float,
    sandbox: Sandbox,
) -> Marks:
    """Returns the marks of the submission `path`. Raises ValueError if it cannot be marked."""
    try:
        if path.stat().st_size > 32 << 20:
            raise ValueError("it is larger than 32 MiB")
        submitted = read_notebook(path)
    except (ConfigError, OSError) as error:
        raise ValueError(str(error)) from None
    end = secrets.token_hex(16)
    merged = merge(submitted, exercises, end)
    home = tempfile.mkdtemp(prefix="axe-nb-")
    try:
        copy = Path(home).resolve() / "lesson" / lesson.name
        copy_folder(lesson, copy.parent, others)
        return read_marks(run_submission(merged, copy, sandbox, timeout), exercises, end)
    finally:  # untrusted code has filled the folder, to any depth; links are not followed
        if os.name == "nt":
            shutil.rmtree(home, ignore_errors=True)
        else:
            with suppress(subprocess.TimeoutExpired):
                remove, nowhere = ["/bin/sh", "-c", REMOVE, "sh", home], subprocess.DEVNULL
                subprocess.run(remove, stdout=nowhere, stderr=nowhere, timeout=60.0, check=False)


def copy_folder(lesson: Path, target: Path, without: Path) -> None:
    """Copies a lesson's folder, except notebooks, hidden files and `without`; follows no links."""
    patterns = shutil.ignore_patterns(".*", "__pycache__", "*.ipynb")
    left_out = without.resolve()

    def ignore(above: str, names: list[str]) -> set[str]:
        return patterns(above, names) | {n for n in names if Path(above, n).resolve() == left_out}

    try:
        shutil.copytree(lesson.parent.absolute(), target, symlinks=True, ignore=ignore)
    except (OSError, shutil.Error) as error:
        why = reason(error) if not isinstance(error, shutil.Error) else "a file cannot be read"
        raise ConfigError(f"cannot copy the folder of {display_path(lesson)}: {why}") from None


def merge(submitted: Book, exercises: Mapping[str, Any], end: str) -> Book:
    """Returns a submission in which the lesson's checks replace the cells with the same ids.

    Missing checks are appended. A check prints `end` if it passes.
    """
    merged = deepcopy(submitted)
    left = {cell.id: deepcopy(cell) for cell in exercises.values()}
    ids = set(left)
    for cell in left.values():
        cell.metadata, cell.outputs = load("nbformat").NotebookNode(), []
        cell.source += f"\nprint({end!r})"
    placed: list[Any] = []
    for cell in merged.cells:
        if id_of(cell) not in ids:
            placed.append(cell)
        elif id_of(cell) in left:  # only once: further ones are left out
            placed.append(left.pop(id_of(cell)))
    merged.cells = [*placed, *left.values()]
    return merged


def read_marks(run: HeadlessRun, exercises: Mapping[str, Any], end: str) -> Marks:
    """Returns the marks; a failed check also says which cell above it failed first, and how."""
    names, marks, above = {cell.id: name for name, cell in exercises.items()}, {}, ""
    for number, cell in enumerate(run.book.cells, 1):
        name, outputs = names.get(id_of(cell)), cell.get("outputs", ())
        printed = "".join(one.text for one in outputs if one.output_type == "stream")
        error = next((one for one in outputs if one.output_type == "error"), None)
        said = one_line(describe_failure(error), 300) if error is not None else ""
        if name is None:
            above = above or (said and f" (first, cell {number} failed: {said})")
            continue
        if end in printed:
            marks[name] = "passed"
        elif said:  # only the teacher's words of an AssertionError
            marks[name] = f"failed: {said.removeprefix('AssertionError: ')}{above}"
        else:
            marks[name] = f"not reached: {run.stopped or 'the check did not run to completion'}"
        above = ""
    return {name: marks[name] for name in exercises}


def format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of the report: a row per submission, then the hints and totals."""
    (_, *exercises, _), *marked = rows
    shown, hints, full = [rows[0]], [""], 0
    for name, *marks, passed in marked:
        split = [mark.partition(": ") for mark in marks]
        full += int(passed) == len(marks)
        shown.append([name, *(word for word, _, _ in split), f"{passed} of {len(marks)}"])
        for exercise, (_, _, hint) in zip(exercises, split, strict=True):
            hints += [f"{name}, {exercise}: {hint}"] if hint else []
    yield from align_columns(shown)
    yield from [*hints, ""] if hints[1:] else hints
    yield f"{plural(len(marked), 'submission')} marked, {full} with all exercises passed"


def choose_sandbox(*, is_off: bool, ask: Callable[[str], str] | None) -> Sandbox:
    """Returns the sandbox for submissions; if none works, `ask` asks whether to go on."""
    is_required = Config.load().requires_sandbox
    if is_off and is_required:
        message = "a sandbox is required, so --no-sandbox is not allowed"
        raise ConfigError(message, hint="remove the option")
    with tempfile.TemporaryDirectory(prefix="axe-nb-") as folder:
        view = make_view(Path(folder).resolve())
        sandbox = find_sandbox("off" if is_off else "auto", view)
    if sandbox.level != "none" or is_off:
        return sandbox
    risk = "no sandbox works here, and a submission can do anything you can"
    answer = ask(f"{risk}; run them? [y/N] ") if ask and not is_required else ""
    if answer.strip().lower() not in ("y", "yes"):
        hint = "install bubblewrap, or mark in a container, with --no-sandbox"
        raise ConfigError(risk, hint=hint)
    return sandbox


def run_submission(book: Book, path: Path, sandbox: Sandbox, timeout: float) -> HeadlessRun:
    """Runs a submission in a sandbox, continuing past failing cells.

    The workdir of the sandbox is the parent of the notebook's folder.
    """
    book = prepare(book)
    code = [cell for cell in book.cells if cell.cell_type == "code" and cell.source.strip()]
    cells = [cell for cell in code if "skip-execution" not in tags_of(cell)]
    workdir = path.parent.parent
    view = make_view(workdir)
    runner = Path(__file__).resolve().with_name("in_sandbox.py")
    readable = (*view.readable, runner.parents[1])
    sandbox = replace(sandbox, view=replace(view, readable=readable))
    environment = {
        **clean_environment(),
        **make_environment(path, "replay"),
        "AXE_NB_TRUST": "1",  # the agents are the teacher's
        "IPYTHONDIR": str(workdir / "ipython"),
    }
    task = workdir / "task.json"
    task.write_text(json.dumps([cell.source for cell in cells]))
    words = [sys.executable, "-P", str(runner), str(task), str(path.parent), sandbox.level]
    with tempfile.TemporaryFile() as report:
        number = os.dup(report.fileno())
        process = sandbox.start(words, environment, (subprocess.DEVNULL, number, number))
        try:
            in_time = process.wait(timeout or None)
        finally:
            process.kill()
            process.wait(5.0)
        report.seek(0)
        before, begun, said = report.read(8 << 20).partition(READY)
    if in_time and process.code is None:
        raise ConfigError(f"the submission cannot be started: {process.failure}")
    if in_time and not begun:
        last = before.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
        raise ValueError(f"its cells did not begin: {last}")
    try:
        found = [json.loads(line) for line in said.split(b"\n")[:-1][: len(cells) + 1]]
        for cell, outputs in zip(cells, found, strict=False):
            for output in outputs:
                check_valid(output, "output")
            cell.outputs = load("nbformat").from_dict(outputs)
    except Exception:  # from untrusted data; nbformat has many error classes
        raise ValueError("it sent outputs that cannot be read") from None
    if len(found) > len(cells) or not all(isinstance(one, list) for one in found):
        raise ValueError("it sent outputs that cannot be read")
    stopped = "" if len(found) == len(cells) else "the kernel died"
    if not in_time:
        stopped = f"it did not finish within {timeout:g} s"
    return HeadlessRun(book=book, stopped=stopped)
