"""What a reader finds of a run in mid-run: after a reload, a restart, in a saved notebook."""

from __future__ import annotations

import os
import re
import signal

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.live_tree import RESEARCH, answer, row, start

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

TOLD = "() => document.querySelector('.jp-RenderedHTML')?.textContent.includes('1 of 3 sub-agents')"
"""True if the lines that the tree covers say that one of them is done."""

PID = "import os, pathlib; pathlib.Path('pid').write_text(str(os.getpid()))\n"

OUTPUTS = "() => document.querySelector('.jp-Cell-outputArea').innerText"


def stop_at_one_done(lab: Lab) -> nbformat.NotebookNode:
    """Starts a run, and returns the notebook as it is saved after one of three is done."""
    start(lab, PID + RESEARCH)
    answer(lab, "counter")
    lab.page.wait_for_function(TOLD)
    return lab.save()


def assert_readable(shown: str) -> None:
    assert "lead · script/lead · turn 1 · 1 of 3 sub-agents done · 2 running" in shown.replace(
        "lead script", "lead · script"
    )
    assert "axe_nb.last()" in shown
    assert "%axe history" in shown
    assert "model not found" not in shown
    assert "Loading widget" not in shown


def test_loaded_anew_in_mid_run_a_page_says_what_is_known_and_shows_the_end(lab: Lab) -> None:
    saved = stop_at_one_done(lab)
    [output] = saved.cells[0].outputs
    assert set(output.data) == {"text/html", "text/plain"}
    assert_readable(output.data["text/plain"])
    lab.is_loaded = False
    lab.show("test.ipynb", kernel=False)
    lab.page.wait_for_selector(".jp-RenderedHTML >> text=1 of 3 sub-agents")
    assert_readable(lab.page.evaluate(OUTPUTS))
    lab.gate("researcher", "critic")
    lab.page.wait_for_selector(".axe-nb-tree >> text=completed")
    assert lab.page.locator(".axe-nb-note").inner_text() == ""
    assert not lab.page.locator(".jp-RenderedHTML").is_visible()
    [output] = lab.save().cells[0].outputs
    assert set(output.data) == {"text/html", "text/plain"}


def test_a_clock_without_news_stands_still_until_there_is_some(lab: Lab) -> None:
    stop_at_one_done(lab)
    kernel = int((lab.server.folder / "pid").read_text())
    note = lab.page.locator(".axe-nb-note")
    expect(note).to_have_text("")
    os.kill(kernel, signal.SIGSTOP)
    try:
        lab.page.wait_for_timeout(300)  # what is under way arrives
        # twenty seconds later by the page's clock, which stands still then
        lab.page.evaluate("() => { const t = performance.now() + 2e4; performance.now = () => t; }")
        expect(note).to_contain_text("No updates since")
        took = lab.page.locator(".axe-nb-scroll > details > summary").inner_text()
        assert float(took.split("·")[-1].strip().removesuffix(" s")) < 20
    finally:
        os.kill(kernel, signal.SIGCONT)
    expect(note).to_have_text("")
    lab.gate("researcher", "critic")
    lab.finished()
    lab.page.evaluate("() => { delete performance.now }")


def test_when_the_kernel_is_gone_the_clock_stands_still_and_says_so(lab: Lab) -> None:
    stop_at_one_done(lab)
    expect(lab.page.locator(".axe-nb-said")).to_contain_text("running")  # to screen readers
    errors = len(lab.errors)
    lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    lab.page.wait_for_selector(".axe-nb-note >> text=The kernel is gone")
    assert "%axe history" in lab.page.locator(".axe-nb-note").inner_text()
    told = lab.page.locator(".axe-nb-tree").inner_text()
    assert "2 were running" in told
    assert not re.search(r"(?<!was )(?<!were )running", told)
    signs = lab.page.locator(".axe-nb-tree summary b[role=img]")
    states = signs.evaluate_all("(all) => all.map((sign) => sign.title)")
    assert sorted(set(states)) == ["completed", "error", "was running"]
    clock = lab.page.locator(f"{row(lab, 'critic')} > summary small")
    before = clock.inner_text()
    lab.page.wait_for_timeout(700)
    assert clock.inner_text() == before
    lab.save()
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")
    lab.show("test.ipynb")
    lab.page.wait_for_selector(".jp-RenderedHTML >> text=1 of 3 sub-agents")
    assert_readable(lab.page.evaluate(OUTPUTS))
    assert lab.page.locator(".axe-nb-tree").count() == 0
    lab.forget_cut_off(errors)
