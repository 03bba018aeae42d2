"""`axe-nb freeze`: a notebook becomes its own test, with the cassette beside it.

Source: D-68.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

from axe_nb.agents.files import display_path
from axe_nb.recording.modes import Mode
from axe_nb.testing.check import Problem, describe_failure, describe_problems, find_problems
from axe_nb.testing.files import (
    Book,
    find_failure,
    find_notebooks,
    marks_of,
    read_notebook,
    write_notebook,
)
from axe_nb.testing.headless import HeadlessRun, run_headless

MODES: tuple[Mode, ...] = ("auto", "replay", "replay")
"""Modes of the cassette in the runs of a notebook that is frozen."""

REMEDY = (
    "avoid output that varies, remove in the first cell the files that a run leaves behind, or add "
    "the line # NBVAL_IGNORE_OUTPUT to the cell"
)

CONSTANT = "send models nothing that varies, such as the time; the notebook was not changed"

TIMES = ("execution", "ExecuteTime")
"""Metadata of a cell that say when it ran."""


def freeze(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Freezes notebooks, one after another; returns True if all are frozen.

    Raises ConfigError: there is no such notebook, or it cannot be run or written.
    """
    done = [freeze_notebook(path, timeout, write) for path in find_notebooks(targets)]
    return all(done)


def freeze_notebook(path: Path, timeout: float | None, write: Callable[[str], None]) -> bool:
    """Records what is missing, verifies that two more runs agree, and writes the notebook.

    The two runs replay the cassette with the network closed. The notebook is written only if they
    agree; the cassette keeps what the models answered in any case. Raises ConfigError: it is not a
    notebook, or it cannot be run or written.

    Returns:
        True if the notebook was written.
    """
    book = read_notebook(path)
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
    varying = [*find_problems(first.book, second.book)] or [
        *find_problems(recorded.book, first.book)
    ]
    if varying:
        lines = describe_problems(path, first, varying)
        _write_all([f"{line} from run to run; {REMEDY}" for line in lines], write)
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
