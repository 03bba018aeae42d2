"""Structured output in cells: `--output`, the data of the result, what the notebook shows."""

from __future__ import annotations

import json
from pathlib import Path

from tests.nb.kernels import Kernel, text

SETUP = """\
%load_ext axe_nb
import axe_nb
from dataclasses import dataclass
@dataclass
class Town:
    name: str
    people: int
SCHEMA = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
@axe_nb.script("guide")
def guide(request):
    if "wrong" in request.messages[0].content:
        return "no data"
    return {"name": "<b>Ulm</b>", "people": 3}
axe_nb.define(axe_nb.Agent("guide", "script/guide"))
"""


def test_a_cell_names_a_type_a_dict_or_a_file(cells: Kernel, project: Path) -> None:
    [shown] = cells.run("%%axe guide --output Town -o r\nhi")
    assert '"people": 3' in shown["data"]["text/html"]
    assert "<b>Ulm" not in shown["data"]["text/html"], "what is in the data is escaped"
    assert text(cells.run("print(r.data)")) == "Town(name='<b>Ulm</b>', people=3)\n"
    cells.run("%%axe guide -q --output SCHEMA -o r\nhi")
    assert text(cells.run("print(r.data['people'])")) == "3\n"
    [error] = cells.run("%%axe guide --output list[print(1)]\nhi")
    assert "JSON Schema file not found" in error["evalue"], "nothing is evaluated"
    (project / "town.json").write_text(json.dumps({"type": "object"}))
    cells.run("%axe run guide -q --output town.json -p hi -o r")
    assert text(cells.run("print(sorted(r.data))")) == "['name', 'people']\n"
    [*_, error] = cells.run("%%axe guide --output Town -o r\nwrong")
    first, *others = "\n".join(error["traceback"]).splitlines()
    assert "does not match its schema" in first
    assert len(others) <= 2
