"""`%%axe_grid`: a cell is a template, run by every variant on every input."""

from __future__ import annotations

import re

import pytest

from tests.nb.kernels import Kernel, text

pytestmark = pytest.mark.req("E-5")

SET_UP = """\
import axe_nb

@axe_nb.script("atlas")
def atlas(request):
    city = request.messages[-1].content.split()[-1]
    known = {"Rome": "Italy", "Paris": "France"}
    return known.get(city, "unknown") if request.agent == "careful" else "Italy"

for name in ("hasty", "careful"):
    axe_nb.define(axe_nb.Agent(name=name, model="script/atlas", system_prompt="x"))

def right(result, row):
    return result.text == row["country"]

cities = [{"city": "Rome", "country": "Italy"}, {"city": "Paris", "country": "France"}]
words = "The country of"
"""


@pytest.fixture
def cells(each_kernel: Kernel) -> Kernel:
    assert each_kernel.run("%load_ext axe_nb") == []
    assert each_kernel.run(SET_UP) == []
    return each_kernel


def test_a_cell_shows_one_table_which_is_the_same_each_time(cells: Kernel) -> None:
    cell = "%%axe_grid hasty,careful --inputs cities --score right -o g\n{{ words }} {{ city }}"
    [first] = cells.run(cell)
    assert first["data"]["text/plain"].splitlines() == [
        "not sure that careful is better than hasty: better on 1 of 2 inputs, worse on 0 (p = 1); "
        "2 inputs are too few, at least 6 are needed",
        "2 inputs × 2 variants",
        "   variant  passed  95% interval  tokens",
        "0  hasty    1 of 2  9% to 91%     12",
        "1  careful  2 of 2  34% to 100%   12",
        "",
        "       0  1",
        "Rome   ✓  ✓",
        "Paris  ✗  ✓",
    ]
    assert cells.run(cell)[0]["data"] == first["data"]
    assert text(cells.run("g['Paris', 'careful']")).startswith("Paris × careful: 1 of 1 run")
    [shown] = cells.run("g")
    assert shown["data"] == first["data"]
    [drawn] = cells.run("g.plot()")  # one of the two environments has no matplotlib
    shown = set(drawn.get("data", ()))
    assert shown == {"text/plain", "image/png"} or "plot needs matplotlib" in text([drawn])


def test_pointers_into_a_grid_name_its_variable(cells: Kernel) -> None:
    """As the grid is displayed before it is assigned, by its function, its cell and its value."""
    cells.run("many = [{'city': f'{n} {\"x\" * 99}'} for n in range(150)]")
    cells.run("axe_nb.script('atlas')(lambda request: 'y' * 3000)")
    call = "axe_nb.grid(['hasty', 'careful'], '{{ city }}', inputs=many)"

    def point(code: str) -> set[str]:
        page = cells.run(code)[-1]["data"]["text/html"]
        return set(re.findall(r"<code>(\w+)\[\d+, \d\]\[0\]\.result</code>", page))

    assert point(f"towns = {call}") == {"towns"}
    assert point("towns") == {"towns"}
    assert point("%%axe_grid hasty,careful --inputs many -o cities\n{{ city }}") == {"cities"}
    assert point(call) == {"g"}


@pytest.mark.req("E-2", "E-4")
def test_a_cell_takes_budgets_and_executors_as_maps_do(cells: Kernel) -> None:
    cells.run("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)")
    cell = "%%axe_grid hasty --inputs cities --concurrency 1 --executor pool {}\nOf {{{{ city }}}}"
    outputs = cells.run(cell.format("--budget max_requests=1,max_total_tokens=1000 -o g"))
    assert "1 of 2 runs, the budget of this grid was reached: max_requests = 1" in text(outputs)
    for budget, told in (
        ("max_turns=1", 'unknown key "max_turns" in budget'),
        ("max_requests=x", "takes US dollars or KEY=NUMBER, as in 0.40 or max_requests=100"),
        ("max_requests=inf", "budget takes dollars or positive caps"),
        ("much", "takes US dollars"),
    ):
        assert told in text(cells.run(cell.format(f"--budget {budget}")))
    assert '--executor: no variable "pol"' in text(
        cells.run(cell.format("").replace("pool", "pol"))
    )


def test_a_mistake_is_told(cells: Kernel) -> None:
    for line, told in {
        "hasty --inputs citys": 'no variable "citys"\ndid you mean "cities"?',
        "hasty --inputs cities --score wrong": '--score: no variable "wrong"',
        "--inputs cities": "no agent: name one, or name models with -m",
        "hasty --inputs cities --repeats 0": "repeats takes a positive whole number, not 0",
        "hasty --inputs words": "not a .csv or .jsonl file",
    }.items():
        [error] = cells.run(f"%%axe_grid {line}\nOf {{{{ city }}}}")
        assert told in text([error])
