"""`%%axe --from R@PLACE`: forks in cells."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, Kernels, text

CODE = """\
%load_ext axe_nb
import axe_nb
asked = []
@axe_nb.script("lead")
def lead(request):
    asked.append(request.place)
    calls = [axe_nb.call("call_agent", agent="helper", task=task) for task in ("one", "two")]
    return calls if request.turn == 1 else request.last
@axe_nb.script("helper")
def helper(request):
    asked.append(request.place)
    return f"{request.last} by {request.system}"
axe_nb.define(axe_nb.Agent("helper", "script/helper", system_prompt="helper"))
axe_nb.define(axe_nb.Agent("other", "script/helper", system_prompt="other"))
axe_nb.define(axe_nb.Agent("lead", "script/lead", sub_agents=("helper",)))
"""


@pytest.fixture
def cells(project: Path, kernels: Kernels) -> Kernel:
    """A kernel with the run `survey` of a lead that asks its helper twice."""
    running = kernels.at(Path(sys.executable), project)
    assert running.run(CODE) == []
    running.run("%%axe lead -q -o survey\ngo")
    running.run("asked.clear()")
    return running


def asked(cells: Kernel) -> str:
    return text(cells.run("print(*asked); asked.clear()")).strip()


@pytest.mark.req("D-66")
def test_the_body_replaces_the_prompt_or_is_said_before_a_turn(cells: Kernel) -> None:
    [shown] = cells.run("%%axe --from survey@0.2/1 -o riga\nTask: Riga")
    twin = shown["data"]["text/plain"]
    assert "✓ lead · script/lead · completed · fork of 0.2/1 (2 turns recorded) · 2 turns" in twin
    assert "✓ helper · → Task: one by helper · recorded · 1 turn" in twin
    assert "Task: Riga by helper" in twin
    assert "fork of 0.2/1" in shown["data"]["text/html"]
    assert asked(cells) == "0.2/1 0/2"
    cells.run("%%axe --from survey@0/2 -q\nAnd now {{ 1 + 1 }}")
    assert asked(cells) == "0/2"
    said = text(cells.run("print(axe_nb.last().messages[-2].content, axe_nb.last().origin)"))
    assert said.strip() == "And now 2 0/2"


@pytest.mark.req("D-66")
def test_a_fork_without_a_message_and_with_another_agent(cells: Kernel) -> None:
    cells.run("%axe run --from survey@0.1/1 -q")
    assert asked(cells) == "0.1/1", "its answer was the same"
    cells.run("%%axe other --from survey@0.1/1 -q\n \n")
    assert asked(cells) == "0.1/1 0/2"
    assert text(cells.run("print(axe_nb.last().text)")).startswith("Task: one by other")
    cells.run("%axe run --from 0.2 -q -m script/lead")
    assert asked(cells).startswith("0.2/1")


@pytest.mark.req("D-66")
def test_a_mistake_is_one_line_before_anything_is_sent(cells: Kernel) -> None:
    for line, message in {
        "%%axe --from survey@0.7/1\nx": 'no run "0.7" in this tree; nearest: 0.2, 0.1, 0',
        "%%axe --from survey@0/9\nx": 'no turn "9" of lead; its turns are 0/1, 0/2',
        "%%axe --from survy@0/1\nx": 'no variable "survy"',
        "%%axe lead -c --from survey@0/1\nx": "--from and -c cannot be combined",
        "%%axe --dry-run --from survey@0/1\nx": "--from and --dry-run cannot be combined",
    }.items():
        [error] = cells.run(line)
        assert error["evalue"] == message
    assert asked(cells) == ""


@pytest.mark.req("D-66")
def test_defaults_of_the_notebook_change_no_agent_of_a_fork(cells: Kernel) -> None:
    cells.run("%config AxeMagics.model = 'script/nobody'")
    cells.run("%axe run --from survey@0/2 -q")
    cells.run("%config AxeMagics.model = ''")
    assert text(cells.run("print(axe_nb.last().status, axe_nb.last().model)")).split() == [
        "completed", "script/lead",
    ]  # fmt: skip


@pytest.mark.req("D-66")
def test_tab_offers_the_places_of_a_run(cells: Kernel) -> None:
    line = "%%axe --from survey@0."
    assert cells.complete(line) == [f"%%axe --from survey@{place}" for place in ("0.1/1", "0.2/1")]
    assert "%%axe --from" in cells.complete("%%axe --fr")
