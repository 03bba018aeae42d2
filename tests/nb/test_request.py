"""`%axe request`: a request of a run, looked into in a cell."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, Kernels, text

CODE = """\
%load_ext axe_nb
import axe_nb
@axe_nb.script("lead")
def lead(request):
    calls = [axe_nb.call("call_agent", agent="helper", task=task) for task in ("one", "two")]
    return calls if request.turn == 1 else "both"
axe_nb.script("helper")(lambda request: request.last)
axe_nb.define(axe_nb.Agent("helper", "script/helper"))
axe_nb.define(axe_nb.Agent("lead", "script/lead", sub_agents=("helper",)))
"""


@pytest.fixture
def cells(project: Path, kernels: Kernels) -> Kernel:
    """A kernel with a lead that asks its helper twice."""
    running = kernels.at(Path(sys.executable), project)
    assert running.run(CODE) == []
    return running


def heads(cells: Kernel, *lines: str) -> list[str]:
    """The first line that each shows, but for the note."""
    shown = [cells.run(line)[-1]["data"]["text/plain"].splitlines()[0] for line in lines]
    return [" · ".join(line.split(" · ")[:3]) for line in shown]


@pytest.mark.req("D-62")
def test_a_place_of_a_run_is_shown_as_text_and_html(cells: Kernel) -> None:
    [error] = cells.run("%axe request 0/1")
    assert error["evalue"] == "nothing has run yet"
    cells.run("%%axe lead -q -o survey\ngo")
    [shown] = cells.run("%axe request survey@0.2/1")
    data = shown["data"]
    assert set(data) == {"text/html", "text/plain"}
    for part in ("helper", "0.2/1", "linear-gradient(", "new prompt:", "<pre "):
        assert part in data["text/html"]
    assert "%" in data["text/plain"]
    body = text(cells.run("import json; print(json.dumps(survey.request('0.2/1').body))"))
    assert json.loads(data["text/plain"].partition(" bytes):\n")[2]) == json.loads(body)
    assert heads(
        cells, "%axe request", "%axe request @0.1/1", "%axe request 0.1", "%axe request survey",
        "%axe request survey@0/1", "last = %axe request 0/1\nlast",
    ) == [
        "lead · script/lead · 0/2", "helper · script/helper · 0.1/1",
        "helper · script/helper · 0.1/1", "lead · script/lead · 0/2", "lead · script/lead · 0/1",
        "lead · script/lead · 0/1",
    ]  # fmt: skip
    data = cells.run("%axe request @0/2 --protocol anthropic")[-1]["data"]
    assert "body (anthropic, " in data["text/plain"]


def test_a_wrong_place_or_variable_is_one_line(cells: Kernel) -> None:
    cells.run("%%axe lead -q -o survey\ngo")
    for line, message in {
        "survey@0/9": 'no turn "9" of lead; its turns are 0/1, 0/2',
        "survy@0/1": 'no variable "survy"',
        "axe_nb@0/1": "axe_nb is of type module, not the result of a run",
    }.items():
        [error] = cells.run(f"%axe request {line}")
        assert error["evalue"] == message


def test_a_dry_run_in_a_cell_shows_the_body_too(cells: Kernel) -> None:
    out = text(cells.run("%%axe lead --dry-run --full\ngo"))
    assert "\n--- Request ---\nlead · script/lead · 0/1 · about " in out
    assert '{"role": "user", "content": "go"}' in out
