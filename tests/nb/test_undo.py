"""`%axe undo`: the difference is shown, a person is asked, and the files are put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, text

pytestmark = pytest.mark.req("D-84")

CODE = """\
%load_ext axe_nb
import axe_nb
@axe_nb.script("writer")
def writer(request):
    if request.turn == 1:
        return axe_nb.call("write_file", path="a.txt", content="new\\n")
    if request.turn == 2:
        return axe_nb.call("write_file", path="b.txt", content="b\\n")
    return "done"

axe_nb.define(
    axe_nb.Agent(name="writer", model="script/writer", tools=["file_ops"], mode="auto")
);
"""


@pytest.fixture
def cells(kernel: Kernel, project: Path) -> Kernel:
    (project / "a.txt").write_text("old\n")
    assert kernel.run(CODE) == []
    kernel.run("import os; os.environ['AXE_NB_HISTORY'] = '1'")
    kernel.run("%%axe writer -q -o first\nGo")
    assert (project / "a.txt").read_text() == "new\n"
    return kernel


def test_the_difference_is_shown_before_a_person_is_asked(cells: Kernel, project: Path) -> None:
    shown = text(cells.run("%axe undo first", live=True, answers=["n"]))
    assert "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-new\n+old\n" in shown
    assert shown.endswith("would restore a.txt\nwould remove b.txt\nnothing was changed\n")
    assert cells.asked == ["Put these files back? [y]es [n]o: "]
    assert (project / "a.txt").read_text() == "new\n"
    assert text(cells.run("%axe undo 1", live=True, answers=["y"])).endswith(
        "\nrestored a.txt\nremoved b.txt\n"
    )
    assert (project / "a.txt").read_text() == "old\n"
    assert not (project / "b.txt").exists()
    assert text(cells.run("%axe undo first", live=True)) == "nothing to undo\n"


def test_nothing_is_changed_where_no_one_can_be_asked(cells: Kernel, project: Path) -> None:
    shown = text(cells.run("%axe undo first"))
    assert "would restore a.txt" in shown
    assert "no one can be prompted here" in shown
    assert (project / "a.txt").read_text() == "new\n"
    assert "restored a.txt\nremoved b.txt" in text(cells.run("first.undo()"))
