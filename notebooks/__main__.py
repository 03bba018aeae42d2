"""`python3 notebooks`: runs the first notebook to its end; needs Python, no key and no model.

The file itself is not changed. The built-in provider answers (see docs), so nothing leaves the
machine once the packages are there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # `python3 notebooks` puts the folder `notebooks` there, hence E402

from tests.bootstrap import environment, say  # noqa: E402

FIRST = HERE / "01_first_run.ipynb"
MOST_LINES = 30
"""Maximum number of lines shown of a cell's output."""

PLACE = "# your code here"
"""Line of a cell that an exercise leaves to the reader."""

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    """Runs the notebook; returns exit code 0 if all cells ran, else 1."""
    python = environment(".venv", "-e", ".[lab]")
    if Path(sys.prefix) != python.parent.parent:
        return subprocess.call([str(python), str(HERE)])
    if not run(FIRST):
        return 1
    root = " --allow-root" if hasattr(os, "geteuid") and os.geteuid() == 0 else ""
    jupyter = os.path.relpath(python.with_name("jupyter"))
    say(f"open it in JupyterLab with\n\n    {jupyter} lab{root} {os.path.relpath(FIRST)}\n")
    return 0


def run(path: Path) -> bool:
    """Shows each cell with its output as soon as it has run; returns True if all ran."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    book = nbformat.read(path, 4)
    code = [index for index, cell in enumerate(book.cells) if cell.cell_type == "code"]

    def show(cell: Any, cell_index: int, execute_reply: Any) -> None:
        first = cell.source.strip().partition("\n")[0]
        say(f"[{code.index(cell_index) + 1}/{len(code)}] {first}")
        is_left = PLACE in cell.source or any(
            tag.startswith("exercise:") for tag in cell.metadata.get("tags", ())
        )
        texts = [left_to_you(one) if is_left else text_of(one) for one in cell.outputs]
        lines = [line for text in texts for line in text.splitlines()]
        for line in lines[:MOST_LINES]:
            say(f"      {line}")
        if len(lines) > MOST_LINES:
            say(f"      ... {len(lines) - MOST_LINES} more lines")

    began = time.monotonic()
    say(f"running {os.path.relpath(path)}")
    client = NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(HERE)}},
        on_cell_executed=show, extra_arguments=["--log-level=ERROR"],
    )  # fmt: skip
    try:
        client.execute()
    except CellExecutionError:
        say("a cell failed, see above; the notebook stopped there")
        return False
    say(f"{len(code)} cells ran in {time.monotonic() - began:.1f} s; no key, no network")
    tags = [tag for cell in book.cells for tag in cell.metadata.get("tags", ())]
    if exercises := sum(tag.startswith("exercise:") for tag in tags):
        say(f"its {exercises} exercises are left to you")
    return True


def left_to_you(output: dict[str, Any]) -> str:
    """One output of an exercise: what to do, in place of a traceback."""
    if output["output_type"] != "error":
        return text_of(output)
    return f"exercise, left to you: {output['evalue']}"


def text_of(output: dict[str, Any]) -> str:
    """One output of a cell as plain text."""
    if output["output_type"] == "stream":
        return str(output["text"])
    if output["output_type"] == "error":
        return COLOUR.sub("", "\n".join(output["traceback"]))
    return str(output["data"].get("text/plain", ""))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
