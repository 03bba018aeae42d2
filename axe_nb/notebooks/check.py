"""`axe-nb check`: notebooks as tests, without key and network.

Source: product.md "Cassettes"; D-68.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from axe_nb.agents.files import display_path
from axe_nb.notebooks.compare import Problem, find_problems
from axe_nb.notebooks.files import Book, find_notebooks, read_notebook
from axe_nb.notebooks.headless import HeadlessRun, name_cassette, run_headless
from axe_nb.recording.modes import Mode
from axe_nb.text import plural

UNANSWERED = ("ProviderError: ", "ConfigError: no API key ")
"""Beginnings of the errors of a notebook that asks a model and has no cassette."""


def check(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Runs notebooks and compares them with what is saved; returns True if all are as saved.

    Args:
        targets: files, folders and patterns.
        timeout: seconds for each cell; 0 = no limit, None = the usual one.
        write: takes a line for each problem, and one at the end.

    Raises:
        ConfigError: there is no such notebook, or it cannot be run.
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

    Args:
        path: its file.
        mode: the mode of its cassette.
        timeout: seconds for each cell; 0 = no limit, None = the usual one.

    Raises:
        ConfigError: it is not a notebook, or cannot be run.
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
