"""Program that runs the cells of a submission inside a sandbox.

    in_sandbox.py TASK FOLDER LEVEL

TASK is a JSON file with the sources of the cells, FOLDER the folder of the lesson, and LEVEL the
level of the sandbox. After each cell, the program writes a line of JSON with the cell's output
and any error. The cells share this process, so they can write such lines, too.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stdout
from importlib import import_module, util
from pathlib import Path
from typing import IO, Any

READY = b"the first cell begins\n"
"""Marker before the output of the first cell."""

KEPT = 4000
"""Maximum length of a text in the report, in characters."""


def main(task: str, folder: str, level: str) -> None:
    """Runs a submission's cells as a kernel would, but without the sockets that a kernel opens."""
    cells = json.loads(Path(task).read_text())
    os.chdir(folder)
    sys.path.insert(0, "")
    shell = import_module("IPython.core.interactiveshell").InteractiveShell.instance()
    shell.enable_gui = lambda gui=None: None
    shell.system = shell.system_raw  # the default needs a terminal
    # loaded by its path, as the sandbox may hide the folder around it
    spec = util.spec_from_file_location("axe_nb", Path(__file__).parents[1] / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["axe_nb"] = util.module_from_spec(spec)
    spec.loader.exec_module(package)
    vars(import_module("axe_nb.sandbox.find"))["is_caged"] = level != "none"
    report = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    report.write(READY)
    report.flush()
    _run_cells(shell, cells, report)


def _run_cells(shell: Any, cells: list[str], report: IO[bytes]) -> None:
    errors: list[dict[str, Any]] = []

    def keep_error(kind: type, error: object, lines: list[str]) -> None:
        texts = {"ename": kind.__name__[:KEPT], "evalue": str(error)[:KEPT]}
        is_short = sum(map(len, lines)) <= KEPT
        errors.append({"output_type": "error", **texts, "traceback": lines if is_short else []})

    shell._showtraceback = keep_error
    for source in cells:
        errors.clear()
        with redirect_stdout(io.StringIO()) as printed:
            shell.run_cell(source, store_history=True)
        text = printed.getvalue()[-KEPT:]
        outputs = [{"output_type": "stream", "name": "stdout", "text": text}, *errors[-1:]]
        report.write(json.dumps(outputs).encode() + b"\n")
        report.flush()
    os._exit(0)  # even if threads of the cells still run


if __name__ == "__main__":
    main(*sys.argv[1:])
