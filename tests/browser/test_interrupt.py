"""Stopping a run in a real JupyterLab."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.live_tree import BACKGROUND, RESEARCH, answer, start
from tests.views.runs import code

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


TOPS = "lines => lines.map(line => Math.round(line.getBoundingClientRect().top))"


@pytest.mark.req("D-8")
def test_stop_ends_the_cell_in_one_line_and_keeps_what_was_done(lab: Lab) -> None:
    start(lab, RESEARCH)
    answer(lab, "counter")
    lab.command("notebook:interrupt-kernel")
    lab.page.wait_for_selector(".jp-OutputArea-output >> text=KeyboardInterrupt: stopped")
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=cancelled >> visible=true")
    lab.unfold()
    rows = lab.page.locator(".jp-OutputArea details").all_inner_texts()
    assert any("184" in text for text in rows), "the child that had answered is kept"
    [shown, error] = lab.save().cells[0].outputs
    assert set(shown.data) == {"text/html", "text/plain"}
    assert (error.ename, len(error.traceback)) == ("KeyboardInterrupt", 1)


@pytest.mark.req("D-8")
def test_a_run_in_the_background_is_stopped_by_its_button_with_keys_alone(lab: Lab) -> None:
    lab.open(code(BACKGROUND, "%%axe lead --bg -o job\nCheck."))
    lab.run_all()
    answer(lab, "counter")
    button = lab.page.get_by_role("button", name="Stop the run (run of lead)")
    expect(button).to_be_visible()
    first, second = lab.page.locator(".jp-Cell:nth-of-type(2) .cm-line").evaluate_all(TOPS)
    assert first < second, "the styles of the tree leave the lines of cells alone"
    active = "() => jupyterapp.shell.currentWidget.content.activeCellIndex"
    lab.page.locator(".axe-nb-scroll > details > summary").click(position={"x": 5, "y": 5})
    lab.page.keyboard.press("Enter")  # unfolded again
    lab.page.keyboard.press("Tab")
    expect(button).to_be_focused()
    before = lab.page.evaluate(active)
    lab.page.keyboard.press("Enter")
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=cancelled >> visible=true")
    assert lab.page.evaluate(active) == before, "the key went to the button, not to the notebook"
    [shown] = lab.save().cells[1].outputs
    assert "184" in shown.data["text/plain"], "the child that had answered is kept"
