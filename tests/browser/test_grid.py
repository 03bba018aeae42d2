"""A grid in a real JupyterLab: its table fills, and opens its runs in the saved notebook."""

from __future__ import annotations

import pytest

from tests.browser.lab import Lab
from tests.views.runs import code

pytestmark = [pytest.mark.req("E-5"), pytest.mark.browser, pytest.mark.timeout(600)]

SET_UP = """
import asyncio, pathlib, axe_nb

@axe_nb.script("atlas")
async def atlas(request):
    city = request.messages[-1].content.split()[-1]
    while city > "G" and not pathlib.Path("go").exists():
        await asyncio.sleep(0.05)
    known = {"Berne": "Switzerland", "Rome": "Italy", "Paris": "France"}
    if request.model.endswith("b") and city == "Rome":
        return "<img src=x onerror=alert(1)> **unknown**"
    return known.get(city, "unknown") if request.agent != "hasty" else "Italy"

def right(result, row):
    return result.text == row["country"]

for name in ("hasty", "careful", "thorough", "a_name_that_is_rather_long"):
    axe_nb.define(axe_nb.Agent(name, "script/atlas", system_prompt="Answer."))
pairs = "Berne Switzerland, Athens Greece, <img/src=x/onerror=alert(1)> Norway, "
pairs += "Rome Italy, Paris France"
cities = [dict(zip(("city", "country"), pair.split())) for pair in pairs.split(", ")]
heat = {name: {"temperature": n} for n, name in enumerate(("cold", "mild", "hot"))}
g = axe_nb.grid(["hasty", "careful", "thorough", "a_name_that_is_rather_long"],
                "The country of {{ city }}", inputs=cities, repeats=3, score=right, params=heat)
"""


def test_a_table_fills_and_opens_its_runs_when_the_notebook_is_read_again(lab: Lab) -> None:
    lab.open(code(SET_UP))
    lab.run_all(wait=False)
    output = lab.page.locator(".jp-OutputArea-output")
    table = lab.page.locator(".axe-nb-table")
    table.locator("text=/180 requests · grid: [1-9]/").wait_for()
    table.locator("td >> text=/^[✓✗]$/").first.wait_for()
    assert "<img/src=x/onerror=alert(1)>" in table.inner_text()
    assert table.locator("img").count() == output.locator("details").count() == 0
    assert not lab.page.locator(".jp-RenderedHTML").is_visible(), "the widget covers it"
    at = table.locator("table").first.bounding_box()
    lab.gate("go")
    lab.finished()
    output.locator("text=5 inputs × 12 variants × 3 repeats").wait_for()
    assert table.count() == 0
    static = output.locator("table").first.bounding_box()
    assert at
    assert static
    assert at["x"] == static["x"], "the table stays where it is"
    assert "not sure which is best: " in output.first.inner_text().splitlines()[0]
    assert output.locator("span[title='hasty · cold']:visible").count() == 1
    saved = lab.save()
    assert set(saved.cells[0].outputs[0].data) == {"text/html", "text/plain"}
    assert "<img" not in str(saved.cells[0].outputs[0].data["text/html"])
    lab.tidy()
    reopened = code(SET_UP)
    reopened.cells[0].outputs = saved.cells[0].outputs
    reopened.cells[0].execution_count = 1
    lab.open(reopened)
    output.locator("summary:visible >> text=Paris").click()
    output.locator("summary:visible >> text=careful · cold #1").click()
    output.locator("p:visible >> text=France").first.wait_for(timeout=10_000)


TABLES = """
import datetime, axe_nb
from axe_nb.views.history import History, HistoryRow
calls = [axe_nb.call("call_agent", agent="echo", task="x")] * 40
axe_nb.script("lead")(lambda request: "Done." if request.turn > 1 else calls)
axe_nb.script("echo")(lambda request: request.last * 9)
axe_nb.define(axe_nb.Agent("echo", "script/echo"))
lead = axe_nb.run(axe_nb.Agent("lead", "script/lead", sub_agents=["echo"]), "go", display=False)
runs = axe_nb.map("echo", ["a", "a long prompt about the harbour of Oslo"], display=False)
row = HistoryRow(id=1234, when=datetime.datetime.now(), agent="researcher", status="completed",
    model="", prompt="word " * 90, runs=1, turns=1, tokens=1, cost=0.0123, seconds=1.0)
"""


def test_tables_of_runs_fit_a_narrow_window_and_the_axis_of_times_stays(lab: Lab) -> None:
    lab.open(code(TABLES, "list(runs); runs", "History([row])", "%axe time lead"))
    lab.command("application:toggle-left-area")
    lab.page.set_viewport_size({"width": 720, "height": 900})
    lab.run_all()
    tables = lab.page.locator(".jp-OutputArea-output div:has(> table)")
    room = "e => e.closest('div').getBoundingClientRect().right - e.getBoundingClientRect().right"
    last = [tables.locator(f"th:text-is('{name}')").evaluate(room) for name in ("answer", "cost")]
    assert min(last) >= 0, "no answer and no cost is scrolled out of view"
    lab.unfold()
    boxes = tables.locator("td > details > div")
    width = "all => all.map(e => e.offsetWidth - e.parentNode.offsetWidth)"
    assert boxes.evaluate_all(width) == [0, 0], "what a row opens is not wider than its cell"
    axis = lab.page.locator("div", has=lab.page.locator("> small")).last
    bar = lab.page.locator("[data-to] > i").last
    scrolled = "e => (e.parentNode.parentNode.scrollTop = 9000, e.parentNode.parentNode.scrollTop)"
    assert bar.evaluate(scrolled) > 0, "the rows of a long timeline scroll below their axis"
    ends = [part.evaluate("e => e.getBoundingClientRect().right") for part in (axis, bar)]
    assert ends[0] == ends[1]
    lab.command("application:toggle-left-area")
