"""What the saved notebooks of the course show, and what the first converts to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
FIRST = NOTEBOOKS / "01_first_run.ipynb"
SAVED = sorted([*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("solutions/*.ipynb")])
PRIVATE = re.compile(r"/(?:home|root|Users|tmp|work)/\w|[A-Z]:\\\\")


CONVERT = """
import json, sys
from nbconvert.exporters import HTMLExporter, MarkdownExporter
made = {"html": HTMLExporter(), "markdown": MarkdownExporter()}
json.dump({name: one.from_filename(sys.argv[1])[0] for name, one in made.items()}, sys.stdout)
"""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Form → what nbconvert makes of the notebook; all by one process, which takes seconds."""
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, str(FIRST)], check=True, capture_output=True, timeout=240
    )
    return dict(json.loads(done.stdout))


def test_converted_every_row_is_in_the_page_and_the_answer_is_first(pages: dict[str, str]) -> None:
    cells = nbformat.read(FIRST, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    trees = [output.data["text/html"] for output in outputs if "data" in output]
    assert len(trees) >= 3
    assert pages["html"].count("<summary") == sum(tree.count("<summary") for tree in trees)
    assert "Which sections does the handbook have?" in pages["html"]
    assert not any("<script" in tree for tree in trees)
    text = pages["markdown"]
    assert text.index("has 962 characters") < text.index("5 sub-agents")


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.relative_to(NOTEBOOKS).as_posix())
def test_a_saved_notebook_has_run_from_top_to_bottom_and_reads_without_a_kernel(path: Path) -> None:
    assert PRIVATE.findall(path.read_text("utf-8")) == []
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert book.metadata.kernelspec.name == "python3"
    assert "widgets" not in book.metadata
    # nbval compares nothing in a cell that has not been run, or that is left out
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    for cell in book.cells:
        assert not {"nbval-ignore-output", "nbval-skip"} & {*cell.metadata.get("tags", [])}
        assert not re.search(r"^#\s*(NBVAL_IGNORE_OUTPUT|NBVAL_SKIP)", cell.source, re.MULTILINE)
        for output in cell.get("outputs", []):
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {})
            assert output.get("name") != "stderr"
