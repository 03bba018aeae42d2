"""The live tree by keyboard alone, and as a screen reader is told of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.browser_runs import TASKS
from tests.browser.lab import Lab
from tests.browser.live_tree import RESEARCH, answer, row, start

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

FOCUSED = (
    "() => document.activeElement.querySelector(':scope > summary b:not([role])')?.textContent"
)
STOPS = (
    "e => [...e.querySelectorAll('*')]"
    ".filter(each => each.tabIndex >= 0 && each.checkVisibility()).length"
)


def press(lab: Lab, key: str, focused: str) -> None:
    """Presses a key, and waits until the row of that name has the focus."""
    lab.page.keyboard.press(key)
    lab.page.wait_for_function(f"name => ({FOCUSED})() === name", arg=focused)


def test_the_tree_is_one_tab_stop_and_arrows_go_through_its_rows(lab: Lab) -> None:
    start(lab, RESEARCH)
    lab.page.wait_for_selector(f"{row(lab, 'researcher')} >> text=grep", state="attached")
    tree = lab.page.get_by_role("tree", name="Run")
    assert tree.evaluate(STOPS) == 1
    lab.page.locator(".jp-InputPrompt").first.click()
    active = lab.page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")
    for _ in range(20):
        lab.page.keyboard.press("Tab")
        if lab.page.evaluate(FOCUSED):
            break
    assert lab.page.evaluate(FOCUSED) == "lead"
    for key, focused in (
        ("ArrowDown", "turn 1"), ("ArrowDown", "researcher"), ("ArrowDown", "counter"),
        ("End", "critic"), ("ArrowDown", "critic"), ("Home", "lead"), ("ArrowUp", "lead"),
        ("ArrowRight", "turn 1"), ("ArrowDown", "researcher"), ("ArrowRight", "researcher"),
    ):  # fmt: skip
        press(lab, key, focused)
    expect(lab.page.locator(row(lab, "researcher"))).to_have_attribute("aria-expanded", "true")
    for key, focused in (
        ("ArrowRight", "grep 1"), ("ArrowLeft", "researcher"), ("Enter", "researcher"),
    ):  # fmt: skip
        press(lab, key, focused)
    expect(lab.page.locator(row(lab, "researcher"))).to_have_attribute("aria-expanded", "false")
    answer(lab, "counter")
    assert lab.page.evaluate(FOCUSED) == "researcher", "updates leave the focus alone"
    press(lab, "ArrowDown", "counter")
    assert tree.evaluate(STOPS) == 1
    lab.page.keyboard.press("Tab")
    assert lab.page.evaluate(FOCUSED) is None, "Tab leaves the tree"
    press(lab, "Shift+Tab", "counter")
    lab.page.locator(f"{row(lab, 'lead')} > summary").first.click()
    assert tree.evaluate(STOPS) == 1
    assert lab.page.evaluate(FOCUSED) == "lead"
    lab.page.keyboard.press("ArrowRight")
    index = "() => jupyterapp.shell.currentWidget.content.activeCellIndex"
    assert lab.page.evaluate(index) == active, "the keys went to the tree, not to the notebook"
    answer(lab, "researcher")
    copy_texts(lab)
    assert tree.evaluate(STOPS) == 1
    assert lab.page.evaluate(index) == active
    lab.gate("critic")
    lab.finished()


def copy_texts(lab: Lab) -> None:
    """Copies the texts of the researcher, by key and by button, with a clipboard and without."""
    lab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    read = "() => navigator.clipboard.readText()"
    for key, focused in (
        ("ArrowDown", "turn 1"), ("ArrowDown", "researcher"), ("c", "researcher"),
    ):  # fmt: skip
        press(lab, key, focused)
    researcher = lab.page.locator(row(lab, "researcher"))
    expect(researcher.locator("> .axe-nb-told")).to_have_text("copied")
    assert TASKS["researcher"] in lab.page.evaluate(read)
    press(lab, "ArrowRight", "researcher")
    answered = researcher.locator("> .axe-nb-inside > div > .axe-nb-text").last
    expect(answered).to_contain_text("more character")
    lab.page.evaluate("() => navigator.clipboard.writeText('')")
    lab.page.evaluate("() => { navigator.clipboard.writeText = () => { throw Error(); } }")
    answered.locator(".axe-nb-copy").click()
    expect(answered.locator(".axe-nb-told")).to_have_text("copied")
    whole = "27 keys, 3 without a default:\n" + "\n".join(f"- key_{n} = {n}" for n in range(27))
    assert lab.page.evaluate(read) == whole, "all of it, not what the row shows"
    assert lab.page.evaluate(FOCUSED) == "researcher"
    lab.page.evaluate("() => { delete navigator.clipboard.writeText }")


def test_a_screen_reader_is_told_names_states_and_levels(lab: Lab) -> None:
    start(lab, RESEARCH)
    lab.page.wait_for_selector(f"{row(lab, 'researcher')} >> text=grep", state="attached")
    answer(lab, "counter")
    assert tell(lab) == [
        ("running lead", 1, True),
        ("completed turn 1 I'll ask three agents.", 2, False),
        (f"running researcher {TASKS['researcher']}", 2, False),
        ("completed counter 184", 2, False),
        (f"running critic {TASKS['critic']}", 2, False),
    ]
    tree = lab.page.get_by_role("tree", name="Run")
    lead = tree.get_by_role("treeitem").first
    expect(lead).to_have_accessible_description(re.compile("script/lead · turn 1"))
    expect(tree.get_by_role("img")).to_have_count(0)  # signs would say the state once more
    lab.gate("researcher", "critic")
    lab.finished()
    expect(lead).to_have_accessible_name("completed lead")
    expect(lead).to_have_accessible_description(re.compile("^script/lead · 2 turns"))


def tell(lab: Lab) -> list[tuple[str, int, bool]]:
    """(name, level, is unfolded) of each row of the tree, as the browser tells them."""
    told = lab.context.new_cdp_session(lab.page).send("Accessibility.getFullAXTree")["nodes"]
    known = {node["nodeId"]: node for node in told}
    [tree] = [
        node for node in told if value(node, "role") == "tree" and value(node, "name") == "Run"
    ]
    rows: list[tuple[str, int, bool]] = []
    left = [tree]
    while left:
        node = left.pop(0)
        left = [*(known[id] for id in node["childIds"] if id in known), *left]
        if value(node, "role") == "treeitem":
            facts = {one["name"]: one["value"].get("value") for one in node["properties"]}
            rows.append((value(node, "name"), facts["level"], facts["expanded"]))
    return rows


def value(node: dict[str, Any], key: str) -> str:
    return str(node.get(key, {}).get("value", ""))
