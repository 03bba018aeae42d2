"""Notebook files, and running them from top to bottom in their own kernel, without a person.

Source: D-68.
"""

from __future__ import annotations

import ast
import ipaddress
import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from axe_nb.agents.files import display_path, expand_home, reason, write_whole
from axe_nb.errors import ConfigError
from axe_nb.recording.modes import MODE, Mode
from axe_nb.text import one_line, quote

Book: TypeAlias = Any
"""A notebook as nbformat represents it."""

Mark = Literal["ignore output", "raises exception", "skip"]

MARKS: dict[str, Mark] = {
    "nbval-ignore-output": "ignore output",
    "nbval-raises-exception": "raises exception",
    "raises-exception": "raises exception",
    "nbval-skip": "skip",
    "skip-execution": "skip",
}
"""Tag → its meaning; `# NBVAL_SKIP` is the tag `nbval-skip`."""

IN_KERNEL = "__import__('axe_nb.testing.headless').testing.headless"

TIMEOUT = 600.0

_COMMENT = re.compile(r"^[ \t]*#[ \t#]*(NBVAL_\w+)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessRun:
    """A notebook after it has run."""

    book: Book
    """A copy of the notebook with the outputs of this run; cells that did not run have none."""
    stopped: str = ""
    """The reason that it did not run to its end, other than an error in a cell."""
    begun: int = 0
    """Number of cells that were started, if it did not run to its end."""
    cassette: tuple[str, int, int, int] | None = None
    """Path, and numbers of exchanges replayed, recorded and removed; None if no cassette was
    used."""
    missed: Sequence[str] = ()
    """Unrecorded requests, in words, which outputs need not show."""


def find_notebooks(targets: Iterable[str]) -> list[Path]:
    """Returns the notebooks given as files or in folders, each once."""
    found: dict[Path, None] = {}
    for target in targets:
        path = expand_home(target)
        paths = [
            one
            for one in ([path] if path.is_file() else sorted(path.rglob("*.ipynb")))
            if not any(part.startswith(".") for part in one.relative_to(path).parts)
        ]
        if not paths:
            raise ConfigError(
                f"no notebook found: {quote(target)}", hint="give .ipynb files or folders"
            )
        found.update(dict.fromkeys(paths))
    return list(found)


def read_notebook(path: Path) -> Book:
    """Returns a notebook in the current format."""
    nbformat = load("nbformat")
    try:
        with warnings.catch_warnings(action="ignore"):  # of cells without ids, which get them
            book = nbformat.read(path, as_version=4)
            check_valid(book)
    except OSError as error:
        raise ConfigError(f"cannot read {display_path(path)}: {reason(error)}") from None
    except Exception as error:  # of nbformat, which has no class for all of them
        fault = one_line(getattr(error, "message", "") or str(error), 200)
        raise ConfigError(
            f"{display_path(path)} is not a notebook: {fault}",
            hint="open the notebook in Jupyter and save it, or repair the file",
        ) from None
    return book


def check_valid(part: Any, ref: str | None = None) -> None:
    """Checks a notebook, or a part of one, such as an `output`; nbformat only logs a fault."""
    json.dumps(part, ensure_ascii=False).encode()  # no half characters
    version = {"version": 4, "version_minor": 5} if ref else {}
    load("nbformat").validate(part, ref=ref, relax_add_props=True, **version)


def marks_of(cell: Any) -> set[Mark]:
    tags = cell.metadata.get("tags", ())
    comments = (name.lower().replace("_", "-") for name in _COMMENT.findall(cell.source))
    return {MARKS[name] for name in (*tags, *comments) if name in MARKS}


def find_failure(cell: Any) -> Any:
    """Returns the error output of a cell that should have none; None if there is none."""
    if cell.cell_type != "code" or "raises exception" in marks_of(cell):
        return None
    return next((one for one in cell.outputs if one.output_type == "error"), None)


def write_notebook(path: Path, book: Book) -> None:
    """Writes a notebook as a whole or not at all."""
    write_whole(path, load("nbformat").writes(book).rstrip("\n") + "\n")


def load(name: str) -> Any:
    """Imports a library that only the extra `lab` installs. Raises ConfigError: it is missing."""
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"running notebooks requires {error.name}, which is not installed",
            hint="install it: pip install 'axe-nb[lab]'",
        ) from None


def run_headless(
    book: Book,
    path: Path,
    mode: Mode,
    *,
    timeout: float | None = None,
    goes_on: bool = False,
    prunes: bool = False,
    environ: Mapping[str, str] | None = None,
) -> HeadlessRun:
    """Runs a notebook in a new kernel of this Python, in the notebook's folder.

    To replay its cassettes, the kernel cannot reach other machines. `timeout` is for each cell; 0 =
    no limit. With `goes_on`, cells after one that fails run too; with `prunes`, what this run
    has not used is removed from the cassette beside the notebook.
    """
    timeout = TIMEOUT if timeout is None else timeout
    extra = ["--log-level=CRITICAL"]
    if mode == "replay":
        extra.append(f"--IPKernelApp.exec_lines={IN_KERNEL}.close_network()")
    client = load("nbclient").NotebookClient(
        prepare(book), timeout=None, kernel_name="python3",
        resources={"metadata": {"path": str(path.parent.absolute())}}, extra_arguments=extra,
        allow_errors=True, record_timing=False, store_widget_state=False, coalesce_streams=True,
    )  # fmt: skip
    load("ipykernel")
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    client.create_kernel_manager().kernel_spec.argv = command  # not one that the user has installed
    errors = load("nbclient.exceptions")
    try:
        with client.setup_kernel(env=environ or make_environment(path, mode)):
            # not the client's own `timeout`, which takes whole seconds
            client.timeout_func = lambda _: timeout
            for index, cell in enumerate(list(client.nb.cells)):
                client.execute_cell(cell, index)
                if find_failure(cell) and not goes_on:
                    break
            else:
                return _end_cassette(client, name_cassette(path) if prunes else "")
        stopped = ""
    except errors.CellTimeoutError:
        stopped = f"it did not finish within {timeout:g} s"
    except errors.DeadKernelError:
        stopped = "the kernel died"
    except RuntimeError as error:  # of jupyter_client, which has no other class
        if client.code_cells_executed:
            raise
        raise ConfigError(f"the kernel for {display_path(path)} does not start: {error}") from None
    return HeadlessRun(book=client.nb, stopped=stopped, begun=client.code_cells_executed)


def prepare(book: Book) -> Book:
    """Returns a copy without the outputs that a run produces, and without cells to skip."""
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
    """Returns the variables that mark a process as running a test.

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
    """Returns the name of the cassette beside a notebook that does not set another."""
    return f"{path.stem}.axe"


def _end_cassette(client: Any, own: str) -> HeadlessRun:
    """Runs one more cell, not saved, in which the kernel reports what its cassette replayed."""
    cell = load("nbformat").v4.new_code_cell(f"{IN_KERNEL}.end_cassette({own!r})")
    client.nb.cells.append(cell)
    client.execute_cell(cell, len(client.nb.cells) - 1)
    client.nb.cells.pop()
    shown = [output.data["text/plain"] for output in cell.outputs if "data" in output]
    if not shown:
        return HeadlessRun(book=client.nb)
    *cassette, missed = ast.literal_eval(shown[0])
    return HeadlessRun(book=client.nb, cassette=tuple(cassette), missed=missed)


def end_cassette(own: str) -> tuple[str, int, int, int, list[str]] | None:
    """Ends the cassette of this kernel, and returns its report; None if no cassette was used.

    Removes what its records have for earlier versions of the notebook, if its file is named `own`,
    which no other notebook uses. The report is its path; the numbers of exchanges replayed and
    recorded, and of records removed; what it lacked, unless the notebook asked for a replay itself,
    as to show that.
    """
    home = sys.modules.get("axe_nb.session.session")
    used = home.session.cassette if home else None
    if used is None:
        return None
    removed = used.prune() if used.path.name == own else 0
    missed = [] if used.mode else sorted({one.message for one in used.missed})
    return used.shown, used.hits, used.recorded, removed, missed[:3]


def close_network() -> None:
    """Restricts this kernel process to its own machine until it ends."""
    sys.addaudithook(refuse_network)


def refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Raises ConnectionRefusedError for an audit event of a connection to another machine."""
    match event, arguments:
        case "socket.connect" | "socket.sendto", (_, (str(host), *_)):
            pass
        case "socket.getaddrinfo" | "socket.gethostbyname", (str(host), *_):
            pass
        case _:  # a local socket, or no network at all
            return
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
        is_own = address.is_loopback or address.is_unspecified
    except ValueError:
        is_own = host in ("", "localhost")
    if not is_own:
        raise ConnectionRefusedError(
            f"network access is blocked while a notebook is tested, and {host} was requested; "
            "model replies and results of tools with record=True are replayed from a cassette"
        )
