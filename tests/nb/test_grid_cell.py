"""`%%axe_grid`: a template, run by every variant on every input, and its table while it fills."""

from __future__ import annotations

import json
import re

import pytest

from tests.nb.kernels import WIDGET, Kernel, contents, shown, text

pytestmark = pytest.mark.req("E-5")

SETUP = """\
%load_ext axe_nb
import axe_nb, os

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


def test_a_cell_shows_one_table_which_is_the_same_each_time(cells: Kernel) -> None:
    cell = "%%axe_grid hasty,careful --inputs cities --score right -o g\n{{ words }} {{ city }}"
    [first] = cells.run(cell)
    assert first["data"]["text/plain"].splitlines() == [
        "not sure that careful is better than hasty: better on 1 of 2 inputs, worse on 0 (p = 1); "
        "too few inputs, at least 6 are needed",
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
    assert cells.run("g")[0]["data"] == first["data"]
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
def test_a_mistake_or_a_budget_that_is_reached_is_told(cells: Kernel) -> None:
    cells.run("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)")
    begin = "hasty --inputs cities --concurrency 1 --executor pool --budget"
    for line, told in {
        f"{begin} max_requests=1": "budget of this grid was reached: max_requests = 1",
        f"{begin} x=y": "takes US dollars or KEY=NUMBER, as in 0.40 or max_requests=100",
        f"{begin} max_requests=inf": "budget takes dollars or positive caps",
        "hasty --inputs cities --executor pol": '--executor: no variable "pol"',
        "hasty --inputs citys": 'no variable "citys"\ndid you mean "cities"?',
        "hasty --inputs cities --score wrong": '--score: no variable "wrong"',
        "--inputs cities": "no agent: give one, or give models with -m",
        "hasty --inputs words": "not a .csv or .jsonl file",
    }.items():
        assert told in text(cells.run(f"%%axe_grid {line}\nOf {{{{ city }}}}"))


GRID = """
import asyncio, axe_nb

@axe_nb.script("slow")
async def slow(request):
    await asyncio.sleep(0.25)
    return "done"

axe_nb.define(axe_nb.Agent("slow", "script/slow"))
names = ["Rome", "<img src=x onerror=alert(1)>", "Paris", "Oslo"]
g = axe_nb.grid("slow", "Of {{ input }}", inputs=names, concurrency=1)
"""


def test_a_grid_that_fills_is_fed_by_rows_and_ends_as_one_that_no_one_watched(
    cells: Kernel,
) -> None:
    cells.run("os.environ.pop('PYTEST_VERSION', None)")
    outputs = cells.run(GRID, live=True)
    assert set(shown(outputs)[0]) == {WIDGET, "text/html", "text/plain"}
    first, *news = contents(outputs)
    rows = first["parts"]
    assert len(rows) == 2 + 1 + 1, "twenty inputs are a part"
    assert min(len(each["parts"]) for each in news) < len(rows), "only what changed"
    for each in news:
        rows |= each["parts"]
    assert rows["2"].count("✓") == 4, "the last news has all"
    assert "<img" not in json.dumps([first, *news])
    assert outputs[-1]["type"] == "comm_close"
    cells.run("%config AxeMagics.display = 'static'")
    [headless] = cells.run(GRID, live=True)
    assert shown(outputs)[-1] == headless["data"]
