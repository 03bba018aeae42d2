"""`axe-nb check` and `axe-nb freeze`: notebooks as tests, compared as strict nbval does.

Source: D-68.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from axe_nb.agents.files import display_path
from axe_nb.recording.modes import Mode
from axe_nb.recording.same_request import describe_change
from axe_nb.testing.headless import (
    Book,
    HeadlessRun,
    find_failure,
    find_notebooks,
    marks_of,
    read_notebook,
    run_headless,
    write_notebook,
)
from axe_nb.text import plural

NOT_COMPARED = {
    "image/png", "image/jpeg", "application/vnd.jupyter.widget-view+json",
}  # fmt: skip
"""Types of data that differ from machine to machine, or from run to run."""

NAMES = {"text/plain": "output", "text/html": "output as HTML", "stdout": "printed text"}
"""Part of an output → its name for people."""

REMEDY = (
    "avoid output that varies, remove in the first cell the files that a run leaves behind, or add "
    "the line # NBVAL_IGNORE_OUTPUT to the cell"
)

TIMES = ("execution", "ExecuteTime")
"""Metadata of a cell with the times of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A cell with an unexpected output."""

    cell: int
    """The number shown at the cell, from 1."""
    what: str
    """The problem in one line, without the name of the notebook."""
    is_miss: bool = False
    """True if its cassette lacks a model's answer."""


def check(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Runs notebooks and compares their outputs with the saved ones; returns True if they agree."""
    paths, count = find_notebooks(targets), 0
    for path in paths:
        _, lines = check_notebook(path, "replay", timeout)
        count += len(lines)
        for line in lines:
            write(line)
    problems = plural(count, "problem") if count else "no problems"
    write(f"{plural(len(paths), 'notebook')} checked, {problems}")
    return not count


def check_notebook(path: Path, mode: Mode, timeout: float | None) -> tuple[Book, list[str]]:
    """Runs a notebook; returns it with its new outputs, and a line for each problem."""
    saved = read_notebook(path)
    run = run_headless(saved, path, mode, timeout=timeout, goes_on=True)
    problems = list(find_problems(saved, run.book))
    lines = describe_problems(path, run, problems)
    if not any(one.is_miss for one in problems):  # an output need not show what is missing
        lines += [f"{display_path(path)}: {miss}{_advise(path)}" for miss in run.missed]
    return run.book, lines


def freeze(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Freezes notebooks, one after another; returns True if all are frozen."""
    done = [freeze_notebook(path, timeout, write) for path in find_notebooks(targets)]
    return all(done)


def freeze_notebook(path: Path, timeout: float | None, write: Callable[[str], None]) -> bool:
    """Records missing exchanges, verifies that two more runs agree, and writes the notebook.

    The two runs replay the cassette with the network closed. The notebook is written only if they
    agree; the cassette keeps what the models answered in any case. Returns True if it was written.
    """
    book = read_notebook(path)
    runs: list[HeadlessRun] = []
    modes: tuple[Mode, ...] = ("auto", "replay", "replay")
    for mode in modes:
        run = run_headless(book, path, mode, timeout=timeout, prunes=mode != "replay")
        failures = [
            Problem(cell=cell.execution_count or 0, what=describe_failure(error))
            for cell in run.book.cells
            if (error := find_failure(cell))
        ]
        for line in describe_problems(path, run, failures):
            write(f"{line}; the notebook was not changed")
        if failures or run.stopped:
            return False
        runs.append(run)
    recorded, first, second = runs
    missed = first.missed or second.missed
    for miss in missed:
        step = "send models nothing that varies, such as the time; the notebook was not changed"
        write(f"{display_path(path)}: when it ran again, {miss}; {step}")
    varying = list(find_problems(first.book, second.book))
    varying = varying or list(find_problems(recorded.book, first.book))
    for line in [] if missed else describe_problems(path, first, varying):
        write(f"{line} from run to run; {REMEDY}")
    if missed or varying:
        return False
    write_notebook(path, normalize(book, first.book, second.book))
    recording = "it calls no model"
    if recorded.cassette is not None:
        cassette, hits, added, removed = recorded.cassette
        unused = f", {removed:,} no longer used and removed" if removed else ""
        recording = f"exchanges in {cassette}: {added:,} recorded, {hits:,} replayed{unused}"
    write(f"{display_path(path)}: frozen; {recording}")
    write("two more runs without network access gave the same outputs")
    return True


def describe_problems(path: Path, run: HeadlessRun, problems: Sequence[Problem]) -> list[str]:
    """Returns a line for each problem: notebook, cell, change, next step."""
    name = display_path(path)
    last = run.begun if run.stopped else None
    lines = [
        f"{name}, cell {one.cell}: {one.what}{_advise(path) if one.is_miss else ''}"
        for one in problems
        if one.cell != last
    ]
    return [*lines, f"{name}, cell {last}: {run.stopped}"] if run.stopped else lines


def _advise(path: Path) -> str:
    return f"; record it with: axe-nb freeze {shlex.quote(display_path(path))}"


def find_problems(saved: Book, ran: Book) -> Iterator[Problem]:
    """Yields cells that failed, or whose outputs differ from the saved ones.

    After a failed cell, only cells that lack a recorded answer are listed, as other differences may
    result from the failure.
    """
    has_failed = False
    for before, now in zip(saved.cells, ran.cells, strict=True):
        if now.cell_type != "code" or now.execution_count is None:
            continue
        failure = find_failure(now)
        if failure is not None:
            is_miss = failure.ename == "CassetteMiss"
            if is_miss or not has_failed:
                what = failure.evalue if is_miss else describe_failure(failure)
                yield Problem(cell=now.execution_count, what=what, is_miss=is_miss)
            has_failed = True
        elif not has_failed and (change := describe_difference(before, now)):
            yield Problem(cell=now.execution_count, what=change)


def describe_failure(error: Any) -> str:
    """Returns an error output in one line; an axe_nb error with its place and the next step."""
    first = f"{error.ename}: {error.evalue}".partition("\n")[0].removesuffix(": ")
    lines = "\n".join(error.traceback).split("\n")
    is_own = lines[0] == first and len(lines) <= 3  # the cause, the place, the next step
    return "; ".join(lines) if is_own else first


def describe_difference(saved: Any, ran: Any) -> str:
    """Returns a description of the difference between two outputs of a cell; empty if none."""
    if "ignore output" in marks_of(ran):
        return ""
    pairs = zip_longest(_list_parts(saved.outputs), _list_parts(ran.outputs), fillvalue=("", None))
    changes = [(before, now) for before, now in pairs if before != now]
    if not changes:
        return ""
    before, now = min(changes, key=lambda change: change[1][0] == "text/html")
    kind = now[0] or before[0]
    was = before[1] if before[0] == kind else None
    return f"its {NAMES.get(kind, kind)} changed{describe_change(was, now[1])}"


def _list_parts(outputs: Any) -> list[tuple[str, str]]:
    """The parts of a cell's outputs that are compared: (type, text)."""
    parts: list[tuple[str, str]] = []
    printed: dict[str, str] = {}
    for output in outputs:
        match output.output_type:
            case "stream":
                printed[output.name] = printed.get(output.name, "") + output.text
            case "error":
                parts.append(("error", f"{output.ename}: {output.evalue}"))
            case _:
                for kind in sorted(output.data.keys() - NOT_COMPARED):
                    data = output.data[kind]
                    is_text = isinstance(data, str)
                    text = data if is_text else json.dumps(data, ensure_ascii=False, sort_keys=True)
                    parts.append((kind, text))
    return [*sorted(printed.items(), reverse=True), *parts]


def normalize(book: Book, first: Book, second: Book) -> Book:
    """Returns the notebook with the outputs of the first run, without parts that vary."""
    frozen = deepcopy(book)
    frozen.metadata.pop("widgets", None)
    for cell, one, other in zip(frozen.cells, first.cells, second.cells, strict=True):
        for name in TIMES:
            cell.metadata.pop(name, None)
        if cell.cell_type == "code" and "skip" not in marks_of(cell):
            cell.execution_count = one.execution_count
            cell.outputs = one.outputs
            for output, twin in zip(one.outputs, other.outputs, strict=False):
                # times and ids in what is not compared: metadata, and the trace of an error
                metadata, others = output.get("metadata", {}), twin.get("metadata", {})
                for key in [key for key in metadata if metadata[key] != others.get(key)]:
                    del metadata[key]
                if output.output_type == "error" and output.traceback != twin.get("traceback"):
                    output.traceback = [f"{output.ename}: {output.evalue}"]
    return frozen
