"""Buttons in the tree answer the open input of their cell, as a person would."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.live_tree import row, start
from tests.browser.test_hostile import ACTIVE
from tests.views.runs import PAYLOADS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

EDITOR = (
    "import axe_nb; from tests.browser.browser_runs import *; from tests.views.runs import PAYLOADS; r = axe_nb.run(editor(TEXTS), 'Go.')"
)


def find_box(lab: Lab) -> Locator:
    """The open input of the cell."""
    return lab.page.locator(
        "input.jp-Stdin-input:not(.jp-OutputArea-stdin-hiding input)"
    )


def show(lab: Lab, name: str) -> None:
    if folder := os.environ.get("SHOTS"):
        for theme in ("JupyterLab Light", "JupyterLab Dark"):
            lab.theme(theme)
            for width in (1280, 640):
                lab.page.set_viewport_size({"width": width, "height": 900})
                lab.page.wait_for_timeout(400)
                lab.page.screenshot(path=f"{folder}/{name}-{theme[-5:].strip()}-{width}.png")
        lab.theme("JupyterLab Light")
        lab.page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.req("D-48", "D-56")
def test_a_button_answers_its_question_and_the_decision_stays_in_the_row(lab: Lab) -> None:
    start(lab, EDITOR.replace("TEXTS", "'Tuesday: calm, 3 visitors'"))
    asks = lab.page.locator(f"{row(lab, 'doc_writer')} > summary")
    expect(asks).to_contain_text("?doc_writerasks you: may it call edit_file on CHANGELOG.md?")
    question = lab.page.locator(".axe-nb-question:visible")
    expect(question.locator(".axe-nb-gone")).to_have_text("-Tuesday: calm")
    expect(question.locator(".axe-nb-new")).to_have_text("+Tuesday: calm, 3 visitors")
    buttons = question.locator("button")
    expect(buttons).to_have_text(["Allow y", "Always a", "Edit… e", "Deny n", "Stop s"])
    show(lab, "question")
    buttons.nth(2).click()
    box = find_box(lab)
    prompt = lab.page.locator(".jp-Stdin-prompt", has_text="arguments, as JSON")
    expect(prompt).to_have_count(1)
    lab.page.wait_for_function(
        "() => [...document.querySelectorAll('input.jp-Stdin-input')]"
        ".some(box => box.value.startsWith('{\"path\": \"CHANGELOG.md\"'))"
    )
    expect(buttons.first).to_be_disabled()
    show(lab, "edit")
    box.fill('{"path": "CHANGELOG.md",, }')
    box.press("Enter")
    wrong = lab.page.locator(".jp-Stdin-prompt", has_text="must be a JSON object (column 25")
    wrong.wait_for()
    buttons.first.click()
    expect(lab.page.locator(".axe-nb-question:visible")).to_have_count(0)
    expect(lab.page.locator(f"{row(lab, 'doc_writer')}.axe-nb-good")).to_have_count(1)
    assert "calm, 3 visitors" in (lab.server.folder / "CHANGELOG.md").read_text()
    decided = lab.page.locator(".axe-nb-tree .axe-nb-cost", has_text="allowed by the user")
    expect(decided).to_have_count(1)
    show(lab, "decided")
    lab.gate("counter")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed")
    show(lab, "twin")
    [*asked, twin] = lab.save().cells[0].outputs
    assert [output.output_type for output in asked] == ["stream"] * len(asked)
    assert "allowed by the user" in twin.data["text/html"]
    assert "axe-nb-question" not in twin.data["text/html"]


@pytest.mark.req("D-48")
def test_a_question_about_hostile_words_is_inert_and_no_other_input_is_answered(
    new_lab: Lab,
) -> None:
    lab = new_lab
    start(lab, EDITOR.replace("TEXTS", f"{PAYLOADS[0]!r}, '\\n'.join(PAYLOADS)"))
    buttons = lab.page.locator(".axe-nb-question:visible button")
    expect(buttons.nth(3)).to_be_enabled()
    lab.page.locator("input.jp-Stdin-input").evaluate("box => { box.type = 'password' }")
    expect(buttons.nth(3)).to_be_disabled()
    lab.page.locator("input.jp-Stdin-input").evaluate("box => { box.type = 'text' }")
    buttons.nth(3).click()
    again = lab.page.locator(".axe-nb-question:visible", has_text=PAYLOADS[-1].strip()[:10])
    expect(again).to_have_count(1)
    show(lab, "hostile")
    tree = lab.page.locator(".axe-nb-question:visible")
    active = ", ".join(name for name in ACTIVE.split(", ") if name != "button")
    assert tree.evaluate("(e, active) => e.querySelectorAll(active).length", active) == 0
    assert lab.page.evaluate("() => window.pwned") is None
    deny = buttons.filter(has_text="Deny")
    expect(deny).to_be_enabled()
    deny.click()
    lab.gate("counter")
    lab.finished()
    twin = lab.page.locator(".jp-OutputArea summary >> text=completed")
    twin.first.wait_for()
    assert "Tuesday: calm\n" in (lab.server.folder / "CHANGELOG.md").read_text()
    assert "denied by the user" in lab.save().cells[0].outputs[-1].data["text/plain"]
