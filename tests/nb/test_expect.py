"""`%axe expect` and `--expect` in cells."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nb.kernels import Kernel, Kernels, text

CODE = """\
%load_ext axe_nb
import axe_nb
@axe_nb.script("lead")
def lead(request):
    calls = [axe_nb.call("call_agent", agent="helper", task=task) for task in ("1999", "two")]
    return calls if request.turn == 1 else "In 1999; or two."
axe_nb.script("helper")(lambda request: request.last)
axe_nb.define(axe_nb.Agent("helper", "script/helper"))
axe_nb.define(axe_nb.Agent("lead", "script/lead", sub_agents=("helper",)))
"""


@pytest.fixture
def cells(project: Path, kernels: Kernels) -> Kernel:
    """A kernel with a lead that asks its helper twice in parallel."""
    running = kernels.at(Path(sys.executable), project)
    assert running.run(CODE) == []
    return running


def lines(outputs: list[dict[str, Any]]) -> list[str]:
    """The lines of the error that a cell ended with."""
    error = outputs[-1]
    assert error["type"] == "error"
    return "\n".join(error["traceback"]).splitlines()


@pytest.mark.req("D-67")
def test_a_cell_fails_with_three_lines_where_an_expectation_is_not_met(cells: Kernel) -> None:
    met = r"helper >= 2, parallel; text ~ /\b\d{4}; or/; depth == 1"
    assert cells.run(f'%%axe lead -q --expect "{met}"\ngo')[-1]["type"] != "error"
    assert lines(cells.run('%%axe lead -q -o r --expect "lead; helper <= 1"\ngo')) == [
        "ExpectationError: expectation not met: helper <= 1 (found 2 runs)",
        "in agent lead › helper (0.2)", "look at r.children[1]",
    ]  # fmt: skip
    assert text(cells.run("print(r.status)")) == "completed\n", "the result is bound all the same"
    assert lines(cells.run("axe_nb.expect(r, 'no helper')"))[1:] == [
        "in agent lead › helper (0.1)", "look at axe_nb.last().children[0]",
    ]  # fmt: skip
    [usage] = cells.run('%%axe lead --expect "turns <= six"\ngo')
    assert usage["evalue"].startswith("invalid expectation `turns <= six`: expected a number")
    [error] = cells.run('%%axe lead --bg --expect "turns < 9"\ngo')
    assert error["evalue"] == "--bg and --expect cannot be combined"


@pytest.mark.req("D-67")
def test_the_line_checks_a_variable_or_the_last_run(cells: Kernel) -> None:
    assert cells.run("%axe expect turns < 9")[-1]["evalue"] == "nothing has run yet"
    cells.run("%%axe lead -q -o r\ngo")
    cells.run("handle = %axe run lead go --bg")
    cells.run("%%axe helper -q\n{{ 1 }}")
    for line, met in {
        "r: helper >= 2, parallel; no write_file": 2,
        r"r:text ~ /\d{4}; or/;": 1,
        "handle : helper == 2; agent:lead": 2,
        "helper == 1; runs == 1;": 2,
        "agent:helper; tool:write_file == 0": 2,
    }.items():
        noun = "expectation" if met == 1 else "expectations"
        assert text(cells.run(f"%axe expect {line}")) == f"✓ {met} {noun} met\n"
    assert lines(cells.run("%axe expect r: no call_agent")) == [
        "ExpectationError: expectation not met: no call_agent (found 2 calls)",
        "in agent lead, turn 1, call of call_agent", "look at r.log[0].calls[0]",
    ]  # fmt: skip
    assert lines(cells.run("%axe expect runs == 2"))[-1] == "look at axe_nb.last()"
    for line, told in {
        "hande: runs": ['no variable "hande"', 'did you mean "handle"?'],
        "lead: runs": ["lead is of type function, not the result of a run"],
        "": ["no expectation given", "for example turns <= 6; no write_file"],
    }.items():
        assert lines(cells.run(f"%axe expect {line}")) == [f"ConfigError: {told[0]}", *told[1:]]
