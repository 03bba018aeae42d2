"""What the browser is told of a table that fills; in real kernels of both lines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.nb.kernels import WIDGET, Kernel, Output, shown

pytestmark = pytest.mark.req("E-5")

FEED = """
from axe_nb.cell_display import table

now, parts = 0.0, ["head", "one", "two"]
table.SHARE = 0

def draw(text):
    return {"text/html": "<b>whole</b>", "text/plain": text or "twin"}

class Module:
    monotonic = staticmethod(lambda: now)

real, table.time = table.time, Module
feed = table.Table(draw, draw, lambda text: parts, live=True)

def update(at, *news):
    global now, parts
    now, parts = at, list(news)
    feed.show("whole")

feed.show("whole")
"""


@pytest.fixture
def cells(watched_kernel: Kernel) -> Kernel:
    return watched_kernel


def told(outputs: list[Output]) -> list[Any]:
    """What the widget was told: all parts as a list, or some by their number."""
    news = list[Any]()
    for output in outputs:
        if output["type"] not in ("comm_open", "comm_msg"):
            continue
        data = output["data"]
        state = data.get("state", {})
        if "snapshot" in state:
            news.append(list(json.loads(state["snapshot"])["parts"].values()))
        elif data.get("method") == "custom":
            news.append(data["content"]["parts"])
    return json.loads(re.sub("</?div>", "", json.dumps(news)))  # type: ignore[no-any-return]


def test_only_what_changed_is_sent_and_all_again_now_and_then(cells: Kernel) -> None:
    first = cells.run(FEED)
    assert told(first) == [["head", "one", "two"]]
    [output] = shown(first)
    assert set(output) == {WIDGET, "text/html", "text/plain"}
    changed = cells.run(
        "update(0.1, 'head 2', 'one', 'two')\n"
        "update(0.2, 'head 2', 'one', 'two')\n"
        "update(1.4, 'head 2', 'one', 'zwei')"
    )
    assert told(changed) == [{"0": "head 2"}, {"2": "zwei"}]
    again = cells.run("update(1.5, 'head 2', 'one', 'zwei')\nupdate(9.0, 'head 2', 'one', 'zwei')")
    assert told(again) == [["head 2", "one", "zwei"]], "what was lost is there; once is enough"
    assert shown(changed + again) == [], "a widget in an output would be made anew"
    ended = cells.run("parts = ['end', 'one', 'zwei']; feed.finish('whole')")
    assert told(ended) == [["end", "one", "zwei"]]
    assert shown(ended) == [{"text/html": "<b>whole</b>", "text/plain": "twin"}]
    assert ended[-1]["type"] == "comm_close"
    cells.run("table.time = real")


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
    outputs = cells.run(GRID, live=True)
    parts, *news = told(outputs)
    assert len(parts) == 2 + 4 + 1
    for each in news:
        if isinstance(each, dict):
            assert all(parts[int(at)] != html for at, html in each.items())
            assert len(each) < len(parts)
        fresh = each if isinstance(each, dict) else dict(enumerate(each))
        for at, html in fresh.items():
            parts[int(at)] = html
    assert all("✓" in row for row in parts[2:6]), "the last news has all"
    assert "<img" not in json.dumps(told(outputs))
    cells.run("os.environ['AXE_NB_DISPLAY'] = 'static'")
    [headless] = cells.run(GRID, live=True)
    assert shown(outputs)[-1] == headless["data"]
