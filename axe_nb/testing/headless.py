"""Runs a notebook from top to bottom in a kernel of its own, without a person to prompt.

Source: D-68.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axe_nb.agents.files import display_path
from axe_nb.errors import ConfigError
from axe_nb.recording.modes import MODE, Mode
from axe_nb.testing.files import Book, find_failure, load, marks_of

IN_KERNEL = "__import__('axe_nb.testing.in_kernel').testing.in_kernel"

TIMEOUT = 600.0
"""Seconds that a cell may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessRun:
    """A notebook after it has run."""

    book: Book
    """A copy with the outputs of this run; cells that have not run have none."""
    stopped: str = ""
    """The reason why it did not run to its end, other than an error in a cell."""
    begun: int = 0
    """Number of cells that were begun, if it did not run to its end."""
    cassette: tuple[str, int, int, int] | None = None
    """Path, exchanges played, recorded and removed; None if no cassette was used, or asked for."""
    missed: Sequence[str] = ()
    """Requests without an answer in the cassette, in words; an output need not show them."""


def run_headless(
    book: Book,
    path: Path,
    mode: Mode,
    *,
    timeout: float | None = None,
    goes_on: bool = False,
    prunes: bool = False,
    reports: bool = False,
    environ: Mapping[str, str] | None = None,
) -> HeadlessRun:
    """Runs a notebook in a new kernel of this Python, in the notebook's folder.

    Raises ConfigError: a library is missing, or the kernel cannot be started.

    Args:
        path: its file, with the cassette of the same name beside it.
        mode: the mode of its cassettes, if it says none itself; to replay it cannot reach other
            machines.
        timeout: seconds for each cell; 0 = no limit, None = `TIMEOUT`.
        goes_on: if true, cells after one that fails run too.
        prunes: if true, what this run has not used is removed from the notebook's own cassette.
        reports: if true, the kernel is asked what its cassette has played, and what it lacked.
        environ: environment of the kernel; None = that of `make_environment`.
    """
    timeout = TIMEOUT if timeout is None else timeout
    client = _make_client(book, path, is_closed=mode == "replay")
    errors = load("nbclient.exceptions")
    stopped = ""
    try:
        with client.setup_kernel(env=environ or make_environment(path, mode)):
            # not the client's own `timeout`, which takes whole seconds
            client.timeout_func = lambda _: timeout
            for index, cell in enumerate(list(client.nb.cells)):
                client.execute_cell(cell, index)
                if find_failure(cell) and not goes_on:
                    break
            else:
                own = name_cassette(path) if prunes else ""
                cassette, missed = _end_cassette(client, own) if reports else (None, ())
                return HeadlessRun(book=client.nb, cassette=cassette, missed=missed)
    except errors.CellTimeoutError:
        stopped = f"it did not finish within {timeout:g} s"
    except errors.DeadKernelError:
        stopped = "the kernel died"
    except RuntimeError as error:  # of jupyter_client, which has no other class
        if client.code_cells_executed:
            raise
        raise ConfigError(f"the kernel for {display_path(path)} does not start: {error}") from None
    return HeadlessRun(book=client.nb, stopped=stopped, begun=client.code_cells_executed)


def _make_client(book: Book, path: Path, *, is_closed: bool) -> Any:
    extra = ["--log-level=CRITICAL"]
    if is_closed:
        extra.append(f"--IPKernelApp.exec_lines={IN_KERNEL}.close_network()")
    client = load("nbclient").NotebookClient(
        prepare(book), timeout=None, kernel_name="python3",
        resources={"metadata": {"path": str(path.parent.absolute())}}, extra_arguments=extra,
        allow_errors=True, record_timing=False, store_widget_state=False, coalesce_streams=True,
    )  # fmt: skip
    load("ipykernel")
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    client.create_kernel_manager().kernel_spec.argv = command  # not one that the user has installed
    return client


def prepare(book: Book) -> Book:
    """Returns a copy without the outputs that running it makes; cells to skip are left out."""
    prepared = deepcopy(book)
    for cell in prepared.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if "skip" in marks_of(cell):
                cell.metadata["tags"] = [*cell.metadata.get("tags", ()), "skip-execution"]
    return prepared


def make_environment(path: Path, mode: Mode) -> Mapping[str, str]:
    """Returns the environment of a kernel that runs a test (D-68)."""
    return {**os.environ, **make_settings(path, mode)}


def make_settings(path: Path, mode: Mode) -> Mapping[str, str]:
    """Returns the variables that tell a process that it runs a test.

    Without a cassette there is nothing to replay: models that are scripts are run.
    """
    name = name_cassette(path)
    is_used = mode != "replay" or path.with_name(name).exists()
    return {
        "AXE_CASSETTE": name if is_used else "",
        MODE: mode,
        "AXE_NB_TEST": "1",
        "AXE_NB_DISPLAY": "static",
        "AXE_NB_HISTORY": "0",
    }


def name_cassette(path: Path) -> str:
    """Returns the name of the cassette beside a notebook that does not name another."""
    return f"{path.stem}.axe"


def _end_cassette(client: Any, own: str) -> tuple[tuple[str, int, int, int] | None, Sequence[str]]:
    """Runs one more cell, whose output is not kept."""
    cell = load("nbformat").v4.new_code_cell(f"{IN_KERNEL}.end_cassette({own!r})")
    client.nb.cells.append(cell)
    client.execute_cell(cell, len(client.nb.cells) - 1)
    client.nb.cells.pop()
    shown = [output.data["text/plain"] for output in cell.outputs if "data" in output]
    if not shown:
        return None, ()
    path, played, recorded, removed, missed = ast.literal_eval(shown[0])
    return (path, played, recorded, removed), missed
