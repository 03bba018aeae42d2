"""Working in a real JupyterLab: a run beside other cells, and one that is played again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.live_tree import row
from tests.views.runs import code

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

AGENTS = """\
%load_ext axe_nb
import axe_nb
from tests.browser.browser_runs import gate

@axe_nb.script("waiter")
async def waiter(request):
    await gate("open")
    return "Done with waiting."

_ = axe_nb.define(axe_nb.Agent(name="waiter", model="script/waiter"))"""


def cell(number: int) -> str:
    return f".jp-Notebook .jp-CodeCell >> nth={number}"


def test_a_run_in_the_background_is_shown_in_its_own_output_only(lab: Lab) -> None:
    lab.open(code(AGENTS, "%%axe waiter --bg -o job\nWait.", "print('another cell')"))
    lab.run_all()
    lab.page.wait_for_selector(f"{cell(1)} >> .axe-nb-tree")
    assert lab.page.locator(f"{cell(1)} >> .axe-nb-running").count()
    assert lab.page.locator(f"{cell(2)} >> .jp-OutputArea-output").all_inner_texts() == [
        "another cell\n"
    ]
    lab.gate("open")
    ended = f"{cell(1)} >> .jp-OutputArea summary >> text=completed >> visible=true"
    lab.page.wait_for_selector(ended)
    # the saved tree comes in a message of its own, after the one that ends the live tree
    lab.page.wait_for_selector(f"{cell(1)} >> [class^=axe-nb-at-]", state="detached")
    saved = lab.save()
    [twin] = saved.cells[1].outputs
    assert set(twin.data) == {"text/html", "text/plain"}
    assert twin.data["text/plain"].startswith("Done with waiting.")
    [printed] = saved.cells[2].outputs
    assert printed.text == "another cell\n"


SURVEY = """\
import asyncio
import axe_nb

@axe_nb.script("lead")
def lead(request):
    towns = ("quick", "slow")
    calls = [axe_nb.call("call_agent", agent=town, task=town) for town in towns]
    return calls if request.turn == 1 else "Both have looked."

@axe_nb.script("town")
async def town(request):
    await asyncio.sleep(12 if "slow" in request.last else 3)
    return "It is warm here."

for name in ("quick", "slow"):
    _ = axe_nb.define(axe_nb.Agent(name, "script/town"))
lead = axe_nb.Agent("lead", "script/lead", sub_agents=("quick", "slow"))
survey = axe_nb.run(lead, "Ask.", display=False)"""


def test_a_finished_run_plays_once_more_in_the_live_tree_faster_than_it_ran(lab: Lab) -> None:
    lab.open(code(SURVEY, "%load_ext axe_nb\n%axe replay survey --speed 4"))
    lab.run_all(wait=False)
    lab.page.wait_for_selector(f"{row(lab, 'quick')}.axe-nb-good", timeout=60_000)
    expect(lab.page.locator(row(lab, "slow"))).to_have_class(re.compile("axe-nb-running"))
    head = lab.page.locator(".axe-nb-scroll > details > summary")
    expect(head).to_contain_text("1 of 2 sub-agents done")
    lab.finished()
    expect(head).to_contain_text("completed")
