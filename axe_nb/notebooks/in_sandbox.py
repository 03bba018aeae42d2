"""The part that runs inside the sandbox of a submission: a program that runs its cells.

It reads a task as JSON from its input: the `folder` of the lesson, the `cells` to run, and
`is_caged`, true unless it runs without a sandbox. It writes a line of JSON for each cell that has
run: what it printed, and its error. The cells share this process, and can write such lines too.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from contextlib import redirect_stdout
from importlib import import_module, util
from pathlib import Path
from typing import IO, Any

READY = b"the first cell begins\n"
"""Follows all that was written before the first cell runs."""

KEPT = 4000
"""Most characters of a text that are reported."""


class _Printed(io.StringIO):
    """The end of what a cell prints."""

    def write(self, text: str) -> int:
        if self.tell() > 100 * KEPT:
            self.take()
        return super().write(text)

    def take(self) -> str:
        """Returns the end of it, and leaves nothing else."""
        end = self.getvalue()[-KEPT:]
        self.seek(0)
        self.truncate()
        return end

    def fileno(self) -> int:
        return 1


def main() -> None:
    """Runs the cells of a task as a kernel would, but without the sockets of one."""
    report, task = os.fdopen(os.dup(1), "wb"), json.load(sys.stdin)
    os.chdir(task["folder"])
    sys.path.insert(0, "")
    shell = import_module("IPython.core.interactiveshell").InteractiveShell.instance()
    shell.enable_gui = lambda gui=None: None
    shell.system = shell.system_raw  # the other way needs a terminal
    _import_package()
    vars(import_module("axe_nb.sandbox.find"))["is_caged"] = task["is_caged"]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    report.write(READY)
    report.flush()
    asyncio.run(_run_cells(shell, task["cells"], report))


def _import_package() -> None:
    """Imports axe_nb from its own folder; the one around it may be out of sight."""
    spec = util.spec_from_file_location("axe_nb", Path(__file__).parents[1] / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["axe_nb"] = util.module_from_spec(spec)
    spec.loader.exec_module(package)


async def _run_cells(shell: Any, cells: list[str], report: IO[bytes]) -> None:
    errors: list[dict[str, Any]] = []

    def keep_error(kind: type, error: object, lines: list[str]) -> None:
        texts = {"ename": kind.__name__[:KEPT], "evalue": str(error)[:KEPT]}
        is_short = sum(map(len, lines)) <= KEPT
        errors.append({"output_type": "error", **texts, "traceback": lines if is_short else []})

    shell._showtraceback = keep_error
    printed = _Printed()
    for source in cells:
        errors.clear()
        with redirect_stdout(printed):
            await _run_cell(shell, source)
        outputs = [
            {"output_type": "stream", "name": "stdout", "text": printed.take()},
            *errors[-1:],
        ]
        report.write(json.dumps(outputs).encode() + b"\n")
        report.flush()
    os._exit(0)  # whatever the cells have started


async def _run_cell(shell: Any, source: str) -> None:
    """Runs a cell, one with `await` on the loop of all of them."""
    broken = None
    try:
        transformed = shell.transform_cell(source)
    except Exception:
        transformed, broken = source, sys.exc_info()
    told = {"transformed_cell": transformed, "preprocessing_exc_tuple": broken}
    if not shell.should_run_async(source, **told):
        shell.run_cell(source, store_history=True)
        return
    result = await shell.run_cell_async(source, store_history=True, **told)
    shell.events.trigger("post_execute")
    shell.events.trigger("post_run_cell", result)


if __name__ == "__main__":
    main()
