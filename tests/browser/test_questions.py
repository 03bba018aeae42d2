"""Buttons in the tree answer the open input of their cell, as a person would."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.live_tree import BUDGET, RUNS, row, start
from tests.browser.test_hostile import ACTIVE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

EDITOR = """\
import axe_nb; from tests.browser.browser_runs import *; from tests.views.runs import PAYLOADS
r = axe_nb.run(editor(TEXTS), "Go.")"""


@pytest.mark.req("D-48", "D-56")
def test_a_button_answers_its_question_and_the_decision_stays_in_the_row(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1000, "height": 560})
    start(lab, EDITOR.replace("TEXTS", "'Tuesday: calm, 3 visitors'"))
    asks = lab.page.locator(f"{row(lab, 'doc_writer')} > summary")
    expect(asks).to_contain_text("? doc_writer asks you: may it call edit_file on CHANGELOG.md?")
    question = lab.page.locator(".axe-nb-question:visible")
    expect(question).to_be_in_viewport(ratio=0.99)  # the browser has gone to the input
    asked = "doc_writer asks you: may it call edit_file on CHANGELOG.md?"
    expect(lab.page.locator(".axe-nb-said")).to_have_text(asked)  # to screen readers
    expect(question.locator("pre:visible")).to_have_count(0)  # the diff says it all
    question.locator("summary").press("Enter")
    expect(question.locator("pre:visible")).to_contain_text('"old_text": "Tuesday: calm"')
    lab.page.keyboard.press("Tab")
    expect(question.locator("button:visible").first).to_be_focused()
    prompt = lab.page.locator(".jp-Stdin-prompt").last
    expect(prompt).to_have_text(
        "doc_writer (0.1): may it call edit_file on CHANGELOG.md? "
        "[y]es [n]o [a]lways [e]dit [s]top: "
    )
    expect(question.locator(".axe-nb-gone")).to_have_text("-Tuesday: calm")
    expect(question.locator(".axe-nb-new")).to_have_text("+Tuesday: calm, 3 visitors")
    buttons = question.locator("button:visible")
    expect(buttons).to_have_text(
        ["Allow y", "Always here a", "Edit… e", "Deny n", "Stop the run s"]
    )
    for width in (640, 853):  # a window that is made narrower keeps the buttons in sight
        lab.page.set_viewport_size({"width": width, "height": 560})
        expect(buttons.last).to_be_in_viewport()
    buttons.nth(2).click()
    expect(buttons).to_have_text(["Use this", "Back"])
    box = question.get_by_role("textbox", name="JSON")
    expect(box).to_be_focused()
    expect(box).to_have_value(re.compile('^{\n  "path": "CHANGELOG.md"'))
    box.fill('{"path": "CHANGELOG.md",, }')
    buttons.first.click()
    expect(question.get_by_role("alert")).to_contain_text("double-quoted")
    buttons.last.click()
    wrong = lab.page.locator(".jp-Stdin-prompt", has_text="must be a JSON object (column 1:")
    wrong.wait_for()
    buttons.nth(2).click()
    expect(box).to_have_value('{"path": "CHANGELOG.md",, }')  # what was typed is not lost
    buttons.last.click()
    expect(buttons).to_have_count(5)
    buttons.first.click()
    expect(lab.page.locator(".axe-nb-question:visible")).to_have_count(0)
    expect(lab.page.locator(f"{row(lab, 'doc_writer')}.axe-nb-good")).to_have_count(1)
    assert "calm, 3 visitors" in (lab.server.folder / "CHANGELOG.md").read_text()
    decided = lab.page.locator(".axe-nb-tree summary small", has_text="allowed by you")
    expect(decided).to_have_count(1)
    expect(decided).to_be_hidden()  # the rows that the question had opened
    lab.gate("counter")
    lab.ended()
    outputs = lab.save().cells[0].outputs
    [twin] = outputs  # and no dialogue
    assert "allowed by you" in twin.data["text/html"]
    assert "axe-nb-question" not in twin.data["text/html"]


@pytest.mark.req("D-56")
def test_the_budget_is_raised_by_a_button_in_the_row_that_waits_for_it(lab: Lab) -> None:
    start(lab, BUDGET)
    question = lab.page.locator(".axe-nb-question:visible")
    expect(question).to_contain_text("the budget of this notebook ($0.050) would be exceeded")
    expect(lab.page.locator(f"{row(lab, 'spender')} > summary").first).to_contain_text(
        "asks you: may this notebook spend up to $0.10?"
    )
    buttons = question.locator("button:visible")
    expect(buttons).to_have_text(["Raise y", "Refuse n", "Stop the run s"])
    buttons.first.click()
    lab.ended()


@pytest.mark.req("D-48")
def test_a_question_about_hostile_words_is_inert_and_no_other_input_is_answered(lab: Lab) -> None:
    start(lab, EDITOR.replace("TEXTS", "PAYLOADS[0], ' '.join(PAYLOADS)[:1500]"))
    buttons = lab.page.locator(".axe-nb-question:visible button:visible")
    expect(buttons.nth(3)).to_be_enabled()
    lab.page.locator("input.jp-Stdin-input").evaluate("box => { box.type = 'password' }")
    expect(buttons.nth(3)).to_be_disabled()
    lab.page.locator("input.jp-Stdin-input").evaluate("box => { box.type = 'text' }")
    buttons.nth(3).click()
    tree = lab.page.locator(".axe-nb-question:visible")
    expect(tree).to_have_count(1)
    ours = ("button", "form", "textarea")
    active = ", ".join(name for name in ACTIVE.split(", ") if name not in ours)
    expect(tree.locator("form, textarea")).to_have_count(2)
    assert tree.evaluate("(e, active) => e.querySelectorAll(active).length", active) == 0
    assert lab.page.evaluate("() => window.pwned") is None
    deny = buttons.filter(has_text="Deny")
    expect(deny).to_be_enabled()
    deny.click()
    lab.gate("counter")
    lab.ended()
    assert "Tuesday: calm\n" in (lab.server.folder / "CHANGELOG.md").read_text()
    [shown] = [o for o in lab.save().cells[0].outputs if o.output_type == "display_data"]
    assert "denied by you" in shown.data["text/plain"]


@pytest.mark.req("D-48")
def test_at_a_step_the_request_can_be_read_and_the_reply_is_edited_in_the_row(lab: Lab) -> None:
    start(lab, f"{RUNS}; r = axe_nb.run(research(gated=False), 'Check.', step=True)")
    question = lab.page.locator(".axe-nb-question:visible")
    question.locator("summary").click()
    expect(question.locator("pre").last).to_contain_text('"content": "Check."')
    edit = question.get_by_role("button", name="Edit…")
    expect(edit).to_be_enabled()
    edit.click()
    box = question.get_by_role("textbox", name="JSON")
    expect(box).to_have_value(re.compile('^{\\n  "text": "I\'ll ask three agents."'))
    expect(lab.page.locator(".jp-Stdin-prompt").last).to_have_text(
        "\nnew reply, as text or JSON; empty = unchanged: "
    )
    box.fill("Nothing to do,\nreally.")
    question.get_by_role("button", name="Use this reply").click()
    lab.ended()
    assert "Nothing to do,\nreally." in lab.save().cells[0].outputs[0].data["text/plain"]
