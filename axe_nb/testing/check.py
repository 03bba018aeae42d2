"""`axe-nb check`: notebooks as tests, compared with what is saved as strict nbval does.

Source: D-68.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.files import display_path
from axe_nb.recording.miss import describe_change
from axe_nb.recording.modes import Mode
from axe_nb.testing.files import Book, find_failure, find_notebooks, marks_of, read_notebook
from axe_nb.testing.headless import HeadlessRun, name_cassette, run_headless
from axe_nb.text import plural

UNANSWERED = ("ProviderError: ", "ConfigError: no API key ")
"""Beginnings of the errors of a notebook that asks a model and has no cassette."""

MAX_LINES = 3
"""Lines of our own errors: the cause, the place in the tree, the next step."""

NOT_COMPARED = {
    "image/png", "image/jpeg", "application/vnd.jupyter.widget-view+json",
}  # fmt: skip
"""Types of data that differ from machine to machine, or from run to run."""

NAMES = {"text/plain": "output", "text/html": "output as HTML", "stdout": "printed text"}
"""Part of an output → its name for people."""

UNRUN = "the notebook was saved without outputs: run all cells, save it, and check it again"

Part: TypeAlias = tuple[str, str]
"""(its type, its text) of a part of an output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A cell whose output is not what it should be."""

    cell: int
    """The number beside the cell, from 1."""
    what: str
    """One line, without the name of the notebook."""
    is_miss: bool = False
    """True if its cassette lacks the answer of a model."""


def check(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Runs notebooks and compares them with what is saved; returns True if all are as saved.

    Raises ConfigError: there is no such notebook, or it cannot be run.
    """
    paths = find_notebooks(targets)
    count = 0
    for path in paths:
        _, lines = check_notebook(path, "replay", timeout)
        count += len(lines)
        for line in lines:
            write(line)
    problems = plural(count, "problem") if count else "no problems"
    write(f"{plural(len(paths), 'notebook')} checked, {problems}")
    return not count


def check_notebook(path: Path, mode: Mode, timeout: float | None) -> tuple[Book, list[str]]:
    """Runs a notebook; returns it with its new outputs, and a line for each problem.

    Raises ConfigError: it is not a notebook, or cannot be run.
    """
    saved = read_notebook(path)
    run = run_headless(saved, path, mode, timeout=timeout, goes_on=True, reports=True)
    problems = list(find_problems(saved, run.book))
    lines = describe_problems(path, run, problems)
    if not any(one.is_miss for one in problems):  # an output need not show what is missing
        lines += [f"{display_path(path)}: {miss}{_advise(path)}" for miss in run.missed]
    return run.book, lines


def describe_problems(path: Path, run: HeadlessRun, problems: Sequence[Problem]) -> list[str]:
    """Returns a line for each problem: notebook, cell, what changed, the next step."""
    name = display_path(path)
    last = run.begun if run.stopped else None
    lines = [
        f"{name}, cell {one.cell}: {one.what}{_advise(path) if _needs_recording(path, one) else ''}"
        for one in problems
        if one.cell != last
    ]
    return [*lines, f"{name}, cell {last}: {run.stopped}"] if run.stopped else lines


def _advise(path: Path) -> str:
    return f"; record it with: axe-nb freeze {shlex.quote(display_path(path))}"


def _needs_recording(path: Path, problem: Problem) -> bool:
    has_cassette = path.with_name(name_cassette(path)).exists()
    return problem.is_miss or (not has_cassette and problem.what.startswith(UNANSWERED))


def find_problems(saved: Book, ran: Book) -> Iterator[Problem]:
    """Yields the cells that failed, and those whose outputs are not the saved ones.

    After a cell that failed only cells that miss an answer are listed: what else differs there
    may follow from it.

    Args:
        ran: the same notebook after it has run.
    """
    has_failed = is_told = False
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
        elif not (has_failed or is_told) and (change := describe_difference(before, now)):
            is_told = not has_run(saved)
            yield Problem(cell=now.execution_count, what=UNRUN if is_told else change)


def has_run(book: Book) -> bool:
    """Returns True if a code cell has a number or an output."""
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    return any(cell.execution_count is not None or cell.outputs for cell in code)


def describe_failure(error: Any) -> str:
    """Returns an error output in one line; one of ours with its place and the next step."""
    first = f"{error.ename}: {error.evalue}".partition("\n")[0].removesuffix(": ")
    lines = "\n".join(error.traceback).split("\n")
    return "; ".join(lines) if lines[0] == first and len(lines) <= MAX_LINES else first


def describe_difference(saved: Any, ran: Any) -> str:
    """Returns how the outputs of two runs of a cell differ, in words; empty = they do not."""
    if "ignore output" in marks_of(ran):
        return ""
    pairs = zip_longest(list_parts(saved.outputs), list_parts(ran.outputs), fillvalue=("", None))
    changes = [(before, now) for before, now in pairs if before != now]
    if not changes:
        return ""
    before, now = min(changes, key=lambda change: change[1][0] == "text/html")
    kind = now[0] or before[0]
    was = before[1] if before[0] == kind else None
    return f"its {NAMES.get(kind, kind)} changed{describe_change(was, now[1])}"


def list_parts(outputs: Any) -> list[Part]:
    """Returns the parts of a cell's outputs that are compared."""
    parts: list[Part] = []
    printed: dict[str, str] = {}
    for output in outputs:
        match output.output_type:
            case "stream":
                printed[output.name] = printed.get(output.name, "") + output.text
            case "error":
                parts.append(("error", f"{output.ename}: {output.evalue}"))
            case _:
                kinds = sorted(output.data.keys() - NOT_COMPARED)
                parts.extend((kind, _to_text(output.data[kind])) for kind in kinds)
    return [*sorted(printed.items(), reverse=True), *parts]


def _to_text(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, sort_keys=True)
