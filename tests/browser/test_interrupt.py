"""Stopping a run in a real JupyterLab."""

from __future__ import annotations

import pytest

from tests.browser.lab import Lab
from tests.browser.live_tree import RESEARCH, row, start

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.mark.req("D-8")
def test_stop_ends_the_cell_in_one_line_and_keeps_what_was_done(lab: Lab) -> None:
    start(lab, RESEARCH)
    lab.gate("counter")
    lab.page.wait_for_selector(f"{row(lab, 'counter')}.axe-nb-good")
    lab.command("notebook:interrupt-kernel")
    lab.page.wait_for_selector(".jp-OutputArea-output >> text=KeyboardInterrupt: stopped")
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=cancelled")
    assert lab.page.locator(".axe-nb-tree").count() == 0
    lab.unfold()
    rows = lab.page.locator(".jp-OutputArea details").all_inner_texts()
    assert any("184" in text for text in rows), "the child that had answered is kept"
    [shown, error] = lab.save().cells[0].outputs
    assert set(shown.data) == {"text/html", "text/plain"}
    assert (error.ename, len(error.traceback)) == ("KeyboardInterrupt", 1)
