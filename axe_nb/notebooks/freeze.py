"""`axe-nb freeze`: a notebook becomes its own test, with the cassette beside it.

Source: product.md "Cassettes"; D-68.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from axe_nb.agents.files import display_path
from axe_nb.notebooks.check import Problem, describe_failure, describe_problems, find_problems
from axe_nb.notebooks.files import (
    Book,
    find_failure,
    find_notebooks,
    marks_of,
    read_notebook,
    write_notebook,
)
from axe_nb.notebooks.headless import HeadlessRun, run_headless
from axe_nb.recording.modes import Mode

MODES: tuple[Mode, ...] = ("auto", "replay", "replay")
"""Modes of the cassette in the runs of a notebook that is frozen."""

REMEDY = "avoid output that varies, or add the line # NBVAL_IGNORE_OUTPUT to the cell"

CONSTANT = "send models nothing that varies, such as the time; the notebook was not changed"

TIMES = ("execution", "ExecuteTime")
"""Metadata of a cell that say when it ran."""


MOST = 20_000
"""Maximum number of files that are looked at."""

MAX_NAMED = 5

OURS = (".ipynb", ".axe", ".pyc", ".tmp")
"""Endings of files that a run may write without being different for it."""


def freeze(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Freezes notebooks, one after another; returns True if all are frozen.

    Args:
        targets: files, folders and patterns.
        timeout: seconds for each cell; 0 = no limit, None = the usual one.
        write: takes the lines of the report.

    Raises:
        ConfigError: there is no such notebook, or it cannot be run or written.
    """
    done = [freeze_notebook(path, timeout, write) for path in find_notebooks(targets)]
    return all(done)


def freeze_notebook(path: Path, timeout: float | None, write: Callable[[str], None]) -> bool:
    """Records what is missing, verifies that two more runs agree, and writes the notebook.

    The two runs replay the cassette with the network closed. The notebook is written only if they
    agree; the cassette keeps what the models answered in any case.

    Args:
        path: the notebook.
        timeout: seconds for each cell; 0 = no limit, None = the usual one.
        write: takes the lines of the report.

    Returns:
        True if the notebook was written.

    Raises:
        ConfigError: it is not a notebook, or it cannot be run or written.
    """
    book = read_notebook(path)
    before = list_files(path.parent)
    runs: list[HeadlessRun] = []
    for mode in MODES:
        run = run_headless(book, path, mode, timeout=timeout, prunes=mode != "replay", reports=True)
        if problems := _find_failures(path, run):
            _write_all([f"{line}; the notebook was not changed" for line in problems], write)
            return False
        runs.append(run)
    recorded, first, second = runs
    if missed := first.missed or second.missed:
        lines = [f"{display_path(path)}: when it ran again, {miss}; {CONSTANT}" for miss in missed]
        _write_all(lines, write)
        return False
    written = find_written(path, before)
    varying = list(find_problems(first.book, second.book))
    if not varying and any(name not in before for name in written):
        varying = list(find_problems(recorded.book, first.book))
    if varying:
        lines = describe_problems(path, first, varying)
        remedy = "" if written else f"; {REMEDY}"
        _write_all([f"{line} from run to run{remedy}" for line in lines], write)
        _write_all(describe_written(written), write)
        return False
    write_notebook(path, normalize(book, first.book, second.book))
    write(f"{display_path(path)}: frozen{_describe_recording(runs[0])}")
    write("two more runs without network access gave the same outputs")
    return True


def _write_all(lines: list[str], write: Callable[[str], None]) -> None:
    for line in lines:
        write(line)


def _find_failures(path: Path, run: HeadlessRun) -> list[str]:
    """Returns the line for the cell that failed, if one did."""
    failed = [(cell.execution_count or 0, find_failure(cell)) for cell in run.book.cells
              if cell.cell_type == "code"]  # fmt: skip
    problems = [
        Problem(cell=number, what=describe_failure(error)) for number, error in failed if error
    ]
    return describe_problems(path, run, problems)


def _describe_recording(run: HeadlessRun) -> str:
    if run.cassette is None:
        return "; it calls no model"
    path, hits, recorded, removed = run.cassette
    counts = [f"{recorded:,} recorded", f"{hits:,} replayed"]
    if removed:
        counts.append(f"{removed:,} no longer used and removed")
    return f"; exchanges in {path}: {', '.join(counts)}"


def normalize(book: Book, first: Book, second: Book) -> Book:
    """Returns the notebook with the outputs of a run, without what varies from run to run.

    Args:
        book: the notebook as it was; all but outputs and counts is kept.
        first: the notebook after a run.
        second: the same after another run.
    """
    frozen = deepcopy(book)
    frozen.metadata.pop("widgets", None)
    for cell, one, other in zip(frozen.cells, first.cells, second.cells, strict=True):
        for name in TIMES:
            cell.metadata.pop(name, None)
        if cell.cell_type == "code" and "skip" not in marks_of(cell):
            cell.execution_count = one.execution_count
            cell.outputs = one.outputs
            for output, twin in zip(one.outputs, other.outputs, strict=False):
                _remove_varying(output, twin)
    return frozen


def _remove_varying(output: Any, twin: Any) -> None:
    """Removes times and ids from what is not compared: metadata, and the trace of an error."""
    metadata, others = output.get("metadata", {}), twin.get("metadata", {})
    for key in [key for key in metadata if metadata[key] != others.get(key)]:
        del metadata[key]
    if output.output_type == "error" and output.traceback != twin.get("traceback"):
        output.traceback = [f"{output.ename}: {output.evalue}"]


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
