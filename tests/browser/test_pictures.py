"""Thumbnails in a real JupyterLab: in the live tree, and in a notebook that is never trusted."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.browser.lab import Lab
from tests.browser.live_tree import row, start
from tests.views.runs import code

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

RUN = """
import asyncio, pathlib, axe_nb
from tests.pictures.samples import png

def chart(town: str):
    "Draws a chart."
    return ["Here it is:", png(300, 200, 90)]

@axe_nb.script("eyes")
async def eyes(request):
    if request.turn == 1:
        return [axe_nb.call("chart", town="Ulm"), axe_nb.call("chart", town="Bonn")]
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.05)
    return "It falls."

r = axe_nb.run(axe_nb.Agent("eyes", "script/eyes", tools=(chart,)), ["Look", png(400, 300, 160)])
"""

HEIGHTS = (
    "images => images.map(i => [i.complete, i.naturalWidth, i.getBoundingClientRect().height])"
)


def check(images: Locator) -> None:
    for is_there, width, height in images.evaluate_all(HEIGHTS):
        assert is_there
        assert width
        assert 50 < height <= 96


def test_pictures_are_small_in_the_tree_and_in_its_twin_without_trust(lab: Lab) -> None:
    start(lab, RUN)
    chart = lab.page.locator(row(lab, "chart")).first
    chart.wait_for()
    lab.unfold()
    images = lab.page.locator(".axe-nb-tree img")
    images.nth(1).wait_for()
    check(images)
    lab.gate("go")
    lab.ended()
    saved = lab.save()
    assert str(saved.cells[0].outputs).count("<img ") == 2  # three were sent, two of them equal
    lab.tidy()
    reopened = code(RUN)
    reopened.cells[0].outputs = saved.cells[0].outputs
    reopened.cells[0].execution_count = 1
    lab.open(reopened)
    lab.unfold()
    twins = lab.page.locator(".jp-OutputArea-output details img")
    twins.nth(1).wait_for()
    check(twins)
