"""The notebooks as they are saved: whole, readable without a kernel, and compared by nbval."""

import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted([*FOLDER.glob("*.ipynb"), *FOLDER.glob("solutions/*.ipynb")])
PRIVATE = re.compile(r"/(?:home|root|Users|tmp|work)/\w|[A-Z]:\\\\")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def book(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_there_is_a_first_notebook() -> None:
    assert "01_first_run" in {path.stem for path in NOTEBOOKS}


def test_it_is_a_valid_notebook(book: nbformat.NotebookNode) -> None:
    nbformat.validate(book)


def test_every_cell_has_run_from_top_to_bottom(book: nbformat.NotebookNode) -> None:
    # nbval compares nothing in a cell that has not been run
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_no_cell_is_left_out_of_the_comparison(book: nbformat.NotebookNode) -> None:
    for cell in book.cells:
        tags = cell.metadata.get("tags", [])
        assert not {"nbval-ignore-output", "nbval-skip"} & set(tags)
        assert not re.search(r"^#\s*(NBVAL_IGNORE_OUTPUT|NBVAL_SKIP)", cell.source, re.MULTILINE)


def test_it_reads_without_a_kernel(book: nbformat.NotebookNode) -> None:
    assert "widgets" not in book.metadata
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    shown = [output.data for output in outputs if "data" in output]
    assert not [data for data in shown if "application/vnd.jupyter.widget-view+json" in data]
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_no_path_of_a_machine_is_in_it(path: Path) -> None:
    assert PRIVATE.findall(path.read_text("utf-8")) == []


def test_it_runs_with_the_kernel_at_hand(book: nbformat.NotebookNode) -> None:
    assert book.metadata.kernelspec.name == "python3"
