"""`axe-nb check` and `axe-nb freeze`: notebooks as tests.

A notebook runs unattended from top to bottom in a kernel of its own, and its outputs are compared
with the saved outputs, as nbval does in strict mode. Source: D-68.
"""

from __future__ import annotations

import ast
import ipaddress
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, TypeAlias

from axe_nb.agents.files import display_path, expand_home, reason, write_whole
from axe_nb.errors import ConfigError
from axe_nb.recording.modes import MODE, Mode
from axe_nb.recording.same_request import describe_change
from axe_nb.text import one_line, plural, quote

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
"""Cell tag → meaning. A comment such as `# NBVAL_SKIP` counts as the tag `nbval-skip`."""

COMMENT = re.compile(r"^[ \t]*#[ \t#]*(NBVAL_\w+)[ \t]*$", re.MULTILINE)

IN_KERNEL = "__import__('axe_nb.testing.check').testing.check"

NOT_COMPARED = {"image/png", "image/jpeg", "application/vnd.jupyter.widget-view+json"}
"""MIME types of outputs that are not compared, because they differ between machines or runs."""

NAMES = {"text/plain": "output", "text/html": "output as HTML", "stdout": "printed text"}
"""MIME type or stream name of an output → description in messages."""

TIMES = ("execution", "ExecuteTime")
"""Keys of the cell metadata that hold execution times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessRun:
    """A notebook after an unattended run."""

    book: Book
    """Copy of the notebook with the outputs of this run; cells that did not run have no outputs."""
    stopped: str = ""
    """Why the run stopped early; empty if it did not, or if an error in a cell stopped it."""
    begun: int = 0
    """Number of code cells that were started; set only if the run stopped early."""
    cassette: tuple[str, int, int, int] | None = None
    """Cassette path, and numbers of replayed, recorded and removed exchanges; None if unused."""
    missed: Sequence[str] = ()
    """Messages about requests that the cassette could not answer; at most three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A cell that failed, or whose outputs differ from the saved outputs."""

    cell: int
    """Execution count that Jupyter shows beside the cell, from 1."""
    what: str
    is_miss: bool = False
    """True if the cassette lacks an answer that the cell needs."""


def check(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Runs notebooks and writes their problems; returns True if all outputs are as saved."""
    paths, count = find_notebooks(targets), 0
    for path in paths:
        saved = read_notebook(path)
        run = run_headless(saved, path, "replay", timeout=timeout, goes_on=True)
        problems = list(find_problems(saved, run.book))
        lines = describe_problems(path, run, problems)
        if not any(one.is_miss for one in problems):  # an output need not show what is missing
            lines += [f"{display_path(path)}: {miss}{_advise(path)}" for miss in run.missed]
        count += len(lines)
        for line in lines:
            write(line)
    write(f"{plural(len(paths), 'notebook')} checked, {plural(count, 'problem')}")
    return not count


def freeze(targets: Iterable[str], timeout: float | None, write: Callable[[str], None]) -> bool:
    """Calls `freeze_notebook` for each notebook; returns True if all notebooks were saved."""
    done = [freeze_notebook(path, timeout, write) for path in find_notebooks(targets)]
    return all(done)


def freeze_notebook(path: Path, timeout: float | None, write: Callable[[str], None]) -> bool:
    """Records a notebook's missing exchanges; if two replays agree, saves it and returns True."""
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
    if missed:
        return False
    for line in describe_problems(path, first, varying):
        step = "avoid output that varies, remove in the first cell the files that a run leaves "
        write(f"{line} from run to run; {step}behind, or add # NBVAL_IGNORE_OUTPUT to the cell")
    if varying:
        return False
    write_notebook(path, normalize(book, first.book, second.book))
    recording, replay = "it calls no model", ""
    if recorded.cassette is not None:
        cassette, hits, added, removed = recorded.cassette
        unused = f", {removed:,} no longer used and removed" if removed else ""
        recording = f"exchanges in {cassette}: {added:,} recorded, {hits:,} replayed{unused}"
        if not any("%axe cassette" in cell.source for cell in book.cells):
            replay = f"to replay them in Jupyter, add to its first cell: %axe cassette {cassette}"
    write(f"{display_path(path)}: frozen; {recording}")
    write("two more runs without network access gave the same outputs")
    if replay:
        write(replay)
    return True


def describe_problems(path: Path, run: HeadlessRun, problems: Sequence[Problem]) -> list[str]:
    """Formats each problem as one line: notebook, cell, problem and, if one exists, a hint."""
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
    """Yields a problem for each cell that failed or whose outputs differ from the saved outputs.

    After a cell fails, only missing model answers are reported; other problems may follow from it.
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
    """Formats an error output as one line, including the place and hint of an axe_nb error."""
    first = f"{error.ename}: {error.evalue}".partition("\n")[0].removesuffix(": ")
    lines = "\n".join(error.traceback).split("\n")
    is_own = lines[0] == first and len(lines) <= 3  # the cause, the place, the hint
    return "; ".join(lines) if is_own else first


def describe_difference(saved: Any, ran: Any) -> str:
    """Describes how a cell's outputs differ from the saved ones; empty if no difference counts."""
    if "ignore output" in marks_of(ran):
        return ""
    pairs = zip_longest(_list_parts(saved.outputs), _list_parts(ran.outputs), fillvalue=("", None))
    changes = [(before, now) for before, now in pairs if before != now]
    if not changes:
        return ""
    before, now = min(changes, key=lambda change: change[1][0] == "text/html")
    kind = now[0] or before[0]
    was = before[1] if before[0] == kind else None
    step = "" if saved.outputs else "; no output is saved: axe-nb freeze saves it"
    return f"its {NAMES.get(kind, kind)} changed{describe_change(was, now[1])}{step}"


def _list_parts(outputs: Any) -> list[tuple[str, str]]:
    """Returns the parts of a cell's outputs that are compared, as (type, text)."""
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
    """Returns a copy of a notebook with its first run's outputs, except parts that vary."""
    frozen = deepcopy(book)
    frozen.metadata.pop("widgets", None)
    for cell, one, other in zip(frozen.cells, first.cells, second.cells, strict=True):
        for name in TIMES:
            cell.metadata.pop(name, None)
        if cell.cell_type == "code" and "skip" not in marks_of(cell):
            cell.execution_count = one.execution_count
            cell.outputs = one.outputs
            for output, twin in zip(one.outputs, other.outputs, strict=False):
                # removes times and ids in parts that are not compared: metadata, tracebacks
                metadata, others = output.get("metadata", {}), twin.get("metadata", {})
                for key in [key for key in metadata if metadata[key] != others.get(key)]:
                    del metadata[key]
                if output.output_type == "error" and output.traceback != twin.get("traceback"):
                    output.traceback = [f"{output.ename}: {output.evalue}"]
    return frozen


def find_notebooks(targets: Iterable[str]) -> list[Path]:
    """Returns target files and the notebooks below target folders, except hidden ones."""
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
    """Reads a notebook and converts it to nbformat 4. Raises ConfigError if this fails."""
    nbformat = load("nbformat")
    try:
        with warnings.catch_warnings(action="ignore"):  # about cells without ids, which get them
            book = nbformat.read(path, as_version=4)
            check_valid(book)
            return book
    except OSError as error:
        raise ConfigError(f"cannot read {display_path(path)}: {reason(error)}") from None
    except Exception as error:  # nbformat's errors have no common class
        fault = one_line(getattr(error, "message", "") or str(error), 200)
        raise ConfigError(
            f"{display_path(path)} is not a notebook: {fault}",
            hint="open the notebook in Jupyter and save it, or repair the file",
        ) from None


def check_valid(part: Any, ref: str | None = None) -> None:
    """Raises an exception if a notebook, or a part such as an `output`, is not valid nbformat."""
    json.dumps(part, ensure_ascii=False).encode()  # refuses lone surrogates
    version = {"version": 4, "version_minor": 5} if ref else {}
    load("nbformat").validate(part, ref=ref, relax_add_props=True, **version)


def marks_of(cell: Any) -> set[Mark]:
    tags = cell.metadata.get("tags", ())
    comments = (name.lower().replace("_", "-") for name in COMMENT.findall(cell.source))
    return {MARKS[name] for name in (*tags, *comments) if name in MARKS}


def find_failure(cell: Any) -> Any:
    """Returns a failed cell's error output; None if the cell succeeded or is allowed to fail."""
    if cell.cell_type != "code" or "raises exception" in marks_of(cell):
        return None
    return next((one for one in cell.outputs if one.output_type == "error"), None)


def write_notebook(path: Path, book: Book) -> None:
    write_whole(path, load("nbformat").writes(book).rstrip("\n") + "\n")


def load(name: str) -> Any:
    """Imports a library that only the `lab` extra installs. Raises ConfigError if it is missing."""
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

    In `replay` mode, the kernel cannot reach other machines. `timeout` is in seconds per cell (None
    for 600, zero for no limit). With `goes_on`, a failed cell does not end the run; with `prunes`,
    unused exchanges are removed from the notebook's cassette. `environ` replaces the variables that
    `make_environment` returns.
    """
    timeout = 600.0 if timeout is None else timeout
    environment = {**os.environ, **(environ or make_environment(path, mode))}
    extra = ["--log-level=CRITICAL"]
    if mode == "replay":
        hook = f"__import__('sys').addaudithook({IN_KERNEL}.refuse_network)"
        extra.append(f"--IPKernelApp.exec_lines={hook}")  # until the kernel ends
    client = load("nbclient").NotebookClient(
        prepare(book), timeout=None, kernel_name="python3",
        resources={"metadata": {"path": str(path.parent.absolute())}}, extra_arguments=extra,
        allow_errors=True, record_timing=False, store_widget_state=False, coalesce_streams=True,
    )  # fmt: skip
    load("ipykernel")
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    client.create_kernel_manager().kernel_spec.argv = command  # not one that the user installed
    errors = load("nbclient.exceptions")
    try:
        with client.setup_kernel(env=environment):
            # the client's own `timeout` takes whole seconds only
            client.timeout_func = lambda _: timeout
            for index, cell in enumerate(list(client.nb.cells)):
                client.execute_cell(cell, index)
                if find_failure(cell) and not goes_on:
                    break
            else:
                own = path.with_suffix(".axe").name if prunes else ""
                report = f"{IN_KERNEL}.end_cassette({own!r})"  # in one more cell, not saved
                client.nb.cells.append(load("nbformat").v4.new_code_cell(report))
                client.execute_cell(client.nb.cells[-1], len(client.nb.cells) - 1)
                outputs = client.nb.cells.pop().outputs
                shown = [output.data["text/plain"] for output in outputs if "data" in output]
                cassette, missed = ast.literal_eval(shown[0]) if shown else (None, ())
                return HeadlessRun(book=client.nb, cassette=cassette, missed=missed)
        stopped = ""
    except errors.CellTimeoutError:
        stopped = f"it did not finish within {timeout:g} s"
    except errors.DeadKernelError:
        stopped = "the kernel died"
    except RuntimeError as error:  # from jupyter_client, which has no other class
        if client.code_cells_executed:
            raise
        raise ConfigError(f"the kernel for {display_path(path)} does not start: {error}") from None
    return HeadlessRun(book=client.nb, stopped=stopped, begun=client.code_cells_executed)


def prepare(book: Book) -> Book:
    """Returns a copy of a notebook without outputs; cells to skip get the tag `skip-execution`."""
    prepared = deepcopy(book)
    for cell in prepared.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if "skip" in marks_of(cell):
                cell.metadata["tags"] = [*cell.metadata.get("tags", ()), "skip-execution"]
    return prepared


def make_environment(path: Path, mode: Mode) -> Mapping[str, str]:
    """Returns the environment variables that tell a process to run as a notebook test (D-68)."""
    cassette = path.with_suffix(".axe")
    return {
        # without one there is nothing to replay, but script models run
        "AXE_CASSETTE": cassette.name if mode != "replay" or cassette.exists() else "",
        MODE: mode,
        "AXE_NB_TEST": "1",
        "AXE_NB_HISTORY": "0",
    }


def end_cassette(own: str) -> tuple[tuple[str, int, int, int] | None, list[str]]:
    """Returns the values of `HeadlessRun.cassette` and `HeadlessRun.missed` for this kernel.

    Removes unused exchanges from a cassette named `own`, which only this notebook uses. If the
    notebook itself sets the cassette's mode, `missed` is empty, because the notebook may
    intentionally send requests that are not recorded.
    """
    home = sys.modules.get("axe_nb.session.session")
    used = home.session.cassette if home else None
    if used is None:
        return None, []
    removed = used.prune() if used.path.name == own else 0
    missed = [] if used.mode else sorted({one.message for one in used.missed})
    return (used.shown, used.hits, used.recorded, removed), missed[:3]


def refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook that raises ConnectionRefusedError if another machine is contacted."""
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
