"""The notebooks as they are saved: whole, readable without a kernel, and compared by nbval."""

import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted([*FOLDER.glob("*.ipynb"), *FOLDER.glob("solutions/*.ipynb")])
PRIVATE = re.compile(r"/(?:home|root|Users|tmp|work)/\w|[A-Z]:\\\\")


def test_there_is_a_first_notebook() -> None:
    assert "01_first_run" in {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_notebook_has_run_from_top_to_bottom_and_reads_without_a_kernel(path: Path) -> None:
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
