"""`%axe diff A B`: two runs compared in a cell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, Kernels, text

pytestmark = pytest.mark.req("E-9")

CODE = """\
%load_ext axe_nb
import axe_nb
@axe_nb.script("lead")
def lead(request):
    words = request.messages[0].content.split()
    calls = [axe_nb.call("call_agent", agent="helper", task=task) for task in words]
    return calls if request.turn == 1 else f"{len(words)} done"
axe_nb.script("helper")(lambda request: f"did {request.last}")
axe_nb.define(axe_nb.Agent("helper", "script/helper"))
axe_nb.define(axe_nb.Agent("lead", "script/lead", sub_agents=("helper",)))
"""


@pytest.fixture
def cells(project: Path, kernels: Kernels) -> Kernel:
    """A kernel with two runs, of which the second has a child less."""
    running = kernels.at(Path(sys.executable), project)
    assert running.run(CODE) == []
    running.run("%%axe lead -q -o first\none two three")
    running.run("%%axe lead -q -o second\none three")
    return running


def head(cells: Kernel, line: str) -> str:
    return str(cells.run(line)[-1]["data"]["text/plain"].splitlines()[0])


def test_two_runs_are_shown_as_text_and_html_the_same_every_time(cells: Kernel) -> None:
    [shown] = cells.run("%axe diff first second")
    assert set(shown["data"]) == {"text/html", "text/plain"}
    assert cells.run("%axe diff first second")[0]["data"] == shown["data"]
    lines = shown["data"]["text/plain"].splitlines()
    assert lines[0] == "≠ lead: 3 changes, first at 0/1, different path"
    assert lines[1].split() == ["first", "second", "change"]
    assert lines[2].split() == ["turns", "5", "4", "−1"]
    call = 'call 2, only in first: [-call_agent {"agent": "helper", "task": "two"}-]'
    assert f"  {call}" in lines
    assert "  = 2 runs: the same" in lines
    assert set(shown["metadata"]["axe_nb"]) == {"seconds"}
    told = text(cells.run("print(first.diff(second))")).splitlines()
    assert told[0] == lines[0]
    assert told[1].split() == ["a", "b", "change"]


def test_a_name_may_be_a_run_of_a_tree_or_of_the_last_one(cells: Kernel) -> None:
    wanted = "≠ helper: 2 changes, first at 0.1/1, same path"
    assert head(cells, "%axe diff first@0.1 first@0.3") == wanted
    assert head(cells, "%axe diff @0.1 @0.2") == head(cells, "%axe diff 0.1 0.2") == wanted
    assert head(cells, "%axe diff first@0 first") == "= lead: no differences"
    assert head(cells, "d = %axe diff first second\nd") == head(cells, "%axe diff first second")
    assert text(cells.run("print(d.first, d.same_path, len(d.changes))")) == "0/1 False 3\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("first secnd", 'no variable "secnd"\ndid you mean "second"?'),
        ("first@0.9 second", 'no run "0.9" in this tree; nearest: 0.3, 0.2, 0.1'),
        ("first@0.1/1 second", '"first@0.1/1" is a turn, not a run\nname its run: 0.1'),
        ("lead second", "lead is of type function, not the result of a run"),
    ],
)
def test_a_mistake_is_told_in_a_line_and_a_hint(cells: Kernel, line: str, message: str) -> None:
    [error] = cells.run(f"%axe diff {line}")
    first, *_ = message.splitlines()
    assert (error["ename"], error["evalue"]) == ("ConfigError", first)
    assert "\n".join(error["traceback"]) == f"ConfigError: {message}"


def test_one_run_alone_is_a_mistake_that_shows_the_usage(cells: Kernel) -> None:
    [error] = cells.run("%axe diff first")
    assert error["evalue"] == "the following arguments are required: B"
    assert "usage: %axe diff A B" in "\n".join(error["traceback"])


def test_the_time_of_a_run_is_shown_with_bars_by_its_name_or_for_the_last_one(
    cells: Kernel,
) -> None:
    [shown] = cells.run("%axe time first")
    assert set(shown["data"]) == {"text/html", "text/plain"}
    assert "= model  # tool" in shown["data"]["text/plain"]
    assert shown["data"]["text/html"].count("linear-gradient") == 6
    assert "helper" in head(cells, "%axe time first@0.2")
    assert "lead" in head(cells, "%axe time")
