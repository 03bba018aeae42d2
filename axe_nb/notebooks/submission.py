"""A submission, run in a sandbox.

All that it reports is data of a stranger: bounded, and checked before it is used.
Source: D-82.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from axe_nb.agents.config import Config
from axe_nb.errors import ConfigError
from axe_nb.notebooks.files import Book, is_output, load
from axe_nb.notebooks.headless import HeadlessRun, make_settings, prepare
from axe_nb.notebooks.in_sandbox import READY
from axe_nb.sandbox.find import Sandbox, find_sandbox
from axe_nb.sandbox.process import clean_environment
from axe_nb.sandbox.view import make_view

PACKAGE = Path(__file__).resolve().parents[1]
RUNNER = Path(__file__).resolve().with_name("in_sandbox.py")

PATIENCE = 5.0
"""Seconds until everything that was killed has to be gone."""

MAX_REPORT = 8 * 1024 * 1024
"""Maximum size of the outputs of a submission in bytes; the rest is not read."""


def choose_sandbox(*, is_off: bool, ask: Callable[[str], str] | None) -> Sandbox:
    """Returns the sandbox of submissions, tried in an empty folder.

    Args:
        is_off: true if they are to run without one.
        ask: prompts the person; None = no one can be prompted.

    Raises:
        ConfigError: none works here, and the user has not agreed to run without one.
    """
    is_required = Config.load().requires_sandbox
    if is_off and is_required:
        raise ConfigError(
            "a sandbox is required, so --no-sandbox is not allowed", hint="remove the option"
        )
    with tempfile.TemporaryDirectory(prefix="axe-nb-") as folder:
        view = make_view(Path(folder).resolve())
        sandbox = find_sandbox("off" if is_off else "auto", view)
    if sandbox.level != "none" or is_off:
        return sandbox
    risk = "no sandbox works here, and a submission can do anything you can"
    answer = ask(f"{risk}; run them? [y/N] ") if ask and not is_required else ""
    if answer.strip().lower() not in ("y", "yes"):
        raise ConfigError(
            risk, hint="install bubblewrap, or mark in a container, with --no-sandbox"
        )
    return sandbox


def run_submission(book: Book, path: Path, sandbox: Sandbox, timeout: float) -> HeadlessRun:
    """Runs a notebook past cells that fail; of its outputs, only text and errors are kept.

    Args:
        book: the notebook; it is not changed.
        path: its file, in a folder of its own; the folder around that is the workdir.
        sandbox: the sandbox, with any view.
        timeout: seconds for all cells; 0 = no limit.

    Raises:
        ConfigError: it cannot be started.
        ValueError: its report is malformed; the message says it in words, maybe of its own.
    """
    book = prepare(book)
    cells = list(_find_cells(book))
    workdir = path.parent.parent
    view = make_view(workdir)
    sandbox = replace(sandbox, view=replace(view, readable=(*view.readable, PACKAGE)))
    environment = {
        **clean_environment(),
        **make_settings(path, "replay"),
        "AXE_NB_TRUST": "1",  # the agents are the teacher's
        "IPYTHONDIR": str(workdir / "ipython"),
    }
    task = workdir / "task.json"
    task.write_text(json.dumps([cell.source for cell in cells]))
    words = [sys.executable, "-P", str(RUNNER), str(task), str(path.parent), sandbox.level]
    with tempfile.TemporaryFile() as report:
        number = os.dup(report.fileno())
        process = sandbox.start(words, environment, (subprocess.DEVNULL, number, number))
        try:
            in_time = process.wait(timeout or None)
        finally:
            process.kill()
            process.wait(PATIENCE)
        report.seek(0)
        before, begun, said = report.read(MAX_REPORT).partition(READY)
    if in_time and process.code is None:
        raise ConfigError(f"the submission cannot be started: {process.failure}")
    if in_time and not begun:
        last = before.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
        raise ValueError(f"its cells did not begin: {last}")
    outputs = _read_outputs(said, len(cells))
    for cell, found in zip(cells, outputs, strict=False):
        cell.outputs = load("nbformat").from_dict(found)
    stopped = "" if len(outputs) == len(cells) else "the kernel died"
    if not in_time:
        stopped = f"it did not finish within {timeout:g} s"
    return HeadlessRun(book=book, stopped=stopped)


def _find_cells(book: Book) -> Iterator[Any]:
    """Yields the cells of a prepared notebook that are to run."""
    for cell in book.cells:
        is_skipped = "skip-execution" in cell.metadata.get("tags", ())
        if cell.cell_type == "code" and cell.source.strip() and not is_skipped:
            yield cell


def _read_outputs(report: bytes, most: int) -> Sequence[Any]:
    """Returns the outputs of the cells that have run; the last line may not be complete.

    Raises:
        ValueError: the report is malformed.
    """
    lines = report.split(b"\n")[:-1]
    try:
        found = [json.loads(line) for line in lines[: most + 1]]
        json.dumps(found, ensure_ascii=False).encode()  # no half characters
    except (ValueError, RecursionError):
        found = [None]
    is_fine = all(isinstance(one, list) and all(map(is_output, one)) for one in found)
    if not is_fine or len(found) > most:
        raise ValueError("it sent outputs that cannot be read")
    return found
