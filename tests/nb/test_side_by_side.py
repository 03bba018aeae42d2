"""Runs that a cell makes side by side have one display; in real kernels of both lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.nb.kernels import Kernel, Kernels, text

WIDGET = "application/vnd.jupyter.widget-view+json"

SETUP = """
import asyncio, axe_nb
from concurrent.futures import ThreadPoolExecutor
from axe_nb import Agent, AxeError, Response, call

@axe_nb.script("slow")
async def slow(request):
    n = int(request.last)
    await asyncio.sleep(PAUSE * (31 - n))
    if n == 7:
        raise RuntimeError("seven")
    return f"did {n}" + LONG

axe_nb.define(Agent("slow", "script/slow"))
PAUSE, LONG = 0.01, ""

async def many(names=range(30), **options):
    return await asyncio.gather(*[axe_nb.arun("slow", str(n), **options) for n in names])
"""

Output = dict[str, Any]


@pytest.fixture
def cells(project: Path, kernel_python: Path, kernels: Kernels) -> Kernel:
    running = kernels.at(kernel_python, project)
    running.run("import os; os.environ.pop('PYTEST_VERSION', None)")
    assert text(running.run(SETUP)) == ""
    return running


def shown(outputs: list[Output], *kinds: str) -> list[Output]:
    """Data of what was displayed."""
    kinds = kinds or ("display_data", "update_display_data")
    return [output["data"] for output in outputs if output["type"] in kinds]


def test_runs_of_a_gather_share_one_static_display_in_the_order_of_the_calls(
    cells: Kernel,
) -> None:
    outputs = cells.run("results = await many()")
    assert [output["type"] for output in outputs] == ["display_data"], text(outputs)
    [both] = shown(outputs)
    lines = both["text/plain"].split("\n")
    assert lines[0].startswith("✗ 30 runs · 29 completed, 1 error · ")
    assert [line.split(" · ")[1] for line in lines if " slow · " in line] == [
        'server: script "slow" raised RuntimeError: seven in line 10' if n == 7 else f"→ did {n}"
        for n in range(30)
    ]
    assert "seven" in both["text/plain"]
    assert both["text/html"].count("<details") == 31
    assert "did 29" in both["text/html"]
    assert shown(cells.run("results = await many()")) == [both]


def test_live_they_share_one_widget_and_leave_the_static_display(cells: Kernel) -> None:
    [static] = shown(cells.run("results = await many()"))
    outputs = cells.run("results = await many()", live=True)
    [first] = shown(outputs, "display_data")
    assert WIDGET in first
    *_, group, last = shown(outputs, "update_display_data")
    assert WIDGET in group
    assert last == static
    places = {o["transient"]["display_id"] for o in outputs if "display_data" in o["type"]}
    assert len(places) == 1
    opened, closed = (
        [o["comm_id"] for o in outputs if o["type"] == kind] for kind in ("comm_open", "comm_close")
    )
    assert set(closed) <= set(opened)
    [final] = [o for o in outputs if o["type"] == "comm_msg"][-1:]
    rows = json.loads(final["data"]["state"]["snapshot"])["rows"]
    assert rows[0]["name"] == "error 30 runs"
    assert rows[0]["about"].startswith("29 completed, 1 error")
    assert [row["name"].partition(" slow ")[2] for row in rows if row["above"] == "0"] == [
        'server: script "slow" raised RuntimeError: seven in line 10' if n == 7 else f"→ did {n}"
        for n in range(30)
    ]


def test_runs_in_threads_share_one_display_also_where_they_do_not_overlap(cells: Kernel) -> None:
    cells.run("PAUSE = 0.0")
    outputs = cells.run(
        "with ThreadPoolExecutor(2) as pool:\n"
        "    texts = [r.text for r in pool.map(lambda n: axe_nb.run('slow', str(n)), range(6))]"
    )
    assert len(shown(outputs, "display_data")) == 1
    assert shown(outputs)[-1]["text/plain"].startswith("✓ 6 runs · 6 completed")
    assert text(cells.run("print(texts[5])")) == "did 5\n"


def test_a_gather_with_a_limit_has_one_display_too(cells: Kernel) -> None:
    code = """
gate = asyncio.Semaphore(2)
async def one(n):
    async with gate:
        return await axe_nb.arun("slow", str(n))
results = await asyncio.gather(*map(one, range(6)))
"""
    outputs = cells.run("PAUSE = 0.0\n" + code)
    assert len(shown(outputs, "display_data")) == 1
    assert shown(outputs)[-1]["text/plain"].startswith("✓ 6 runs · 6 completed")


@pytest.mark.parametrize("live", [False, True], ids=["headless", "live"])
def test_runs_one_after_another_have_a_display_each(cells: Kernel, live: bool) -> None:
    loop = "for n in range(2): await axe_nb.arun('slow', str(n))"
    outputs = cells.run("PAUSE = 0.0\n" + loop, live=live)
    assert len(shown(outputs, "display_data")) == 2
    ends = [data["text/plain"].split("\n")[0] for data in shown(outputs) if WIDGET not in data]
    assert ends == ["did 0", "did 1"]


def test_a_run_that_cannot_begin_has_no_row(cells: Kernel) -> None:
    outputs = cells.run(
        "pair = axe_nb.arun('slow', '1'), axe_nb.arun('nobody', '1')\n"
        "results = await asyncio.gather(*pair, return_exceptions=True)"
    )
    [alone] = shown(outputs)
    assert alone["text/plain"].startswith("did 1")


def test_an_interrupted_group_keeps_what_was_done(cells: Kernel) -> None:
    cells.run("PAUSE = 1.0")
    outputs = cells.run("await many((0, 30))", live=True, interrupt_after=2.5)
    last = shown(outputs)[-1]["text/plain"]
    assert last.startswith("⊘ 2 runs · 1 cancelled, 1 completed"), text(outputs)


def test_long_texts_are_cut_with_a_pointer_and_the_display_stays_small(cells: Kernel) -> None:
    cells.run("LONG = ' and more' * 2000; PAUSE = 0.0")
    [both] = shown(cells.run("results = await many(range(8, 31))"))
    assert "more characters: results[3].text" in both["text/plain"]
    assert len(json.dumps(both)) < 150_000
    [many] = shown(cells.run("results = await many([n % 7 for n in range(300)])"))
    assert len(json.dumps(many)) < 300_000
