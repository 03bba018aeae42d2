"""`%axe history`: the latest runs, and one that is deleted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, Kernels, text

pytestmark = pytest.mark.req("D-61")

CODE = """\
%load_ext axe_nb
import axe_nb, os
os.environ["AXE_NB_HISTORY"] = "1"
axe_nb.script("echo")(lambda request: request.last);
"""


@pytest.fixture
def cells(project: Path, kernels: Kernels) -> Kernel:
    running = kernels.at(Path(sys.executable), project)
    assert running.run(CODE) == []
    for prompt in ("first words", "second words"):
        running.run(f"%%axe -m script/echo -q\n{prompt}")
    return running


def test_a_run_is_deleted_by_its_id(cells: Kernel) -> None:
    assert "first words" in text(cells.run("%axe history"))
    shown = cells.run("%axe history --delete 1")
    assert text(shown) == "run 1 deleted from the history\n"
    left = text(cells.run("%axe history"))
    assert "second words" in left
    assert "first words" not in left


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--delete 7", "the history has no run with the id 7"),
        ("--delete last", "--delete: takes the id of a run, as in 17, not"),
    ],
)
def test_an_id_that_there_is_not_is_told(line: str, problem: str, cells: Kernel) -> None:
    (error,) = cells.run(f"%axe history {line}")
    assert problem in str(error)
