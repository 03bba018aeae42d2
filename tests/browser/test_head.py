"""The head of a live tree: progress, the axis of seconds, chips and the search."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from axe_nb.views.appearance import SEGMENTS
from tests.browser.lab import Lab
from tests.browser.live_tree import RESEARCH, RUNS, row, start

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


def test_forty_rows_are_found_by_state_and_by_word(lab: Lab) -> None:
    start(lab, f"{RUNS}; r = axe_nb.run(crowd(), 'Go.')")
    head = lab.page.locator(".axe-nb-scroll > details > summary")
    expect(head).to_contain_text("21 of 24 sub-agents done · 2 running · 1 failed")
    shares = lab.page.locator(".axe-nb-progress > i").evaluate_all(
        "all => all.map(e => [e.className, e.style.flexGrow])"
    )
    assert shares == [["axe-nb-good", "21"], ["axe-nb-bad", "1"], ["axe-nb-running", "2"]]
    workers = lab.page.locator(".axe-nb-run .axe-nb-run:visible")
    assert workers.count() == 24
    chip = ".axe-nb-chips button >> text="
    lab.page.click(f"{chip}running")
    assert [text.split("\n")[1] for text in workers.all_inner_texts()] == ["worker_22", "worker_23"]
    lab.page.click(f"{chip}failed")
    assert workers.count() == 1
    # the cause stands in the row
    expect(workers).to_contain_text("no such <b>model</b>", use_inner_text=True)
    lab.page.click(f"{chip}all")
    lab.page.locator("button.axe-nb-jump >> text=1 failed ↓").press("Enter")
    focused = "() => document.activeElement.querySelector('summary b:not([role])')?.textContent"
    assert lab.page.evaluate(focused) == "worker_0"
    lab.page.click(f"{chip}all")
    lab.page.fill(".axe-nb-search", "PART 7")
    assert [text.split("\n")[1] for text in workers.all_inner_texts()] == ["worker_7"]
    lab.page.fill(".axe-nb-search", "")
    lab.page.click(f"{chip}slowest")
    tops = {
        name: lab.page.locator(row(lab, name)).bounding_box() for name in ("worker_23", "worker_5")
    }
    assert tops["worker_23"]["y"] < tops["worker_5"]["y"]  # type: ignore[index]
    lab.page.set_viewport_size({"width": 1280, "height": 500})
    lab.page.evaluate("() => document.querySelector('.axe-nb-scroll').scrollTo(0, 200)")
    tops = {
        part: lab.page.locator(part).bounding_box()
        for part in (".axe-nb-scroll", ".axe-nb-scroll > details > summary", ".axe-nb-head")
    }
    box, *parts = (top["y"] for top in tops.values() if top)
    assert all(box - 1 <= part <= box + 60 for part in parts), "the head stays"
    expect(lab.page.locator(".axe-nb-chip[aria-pressed=true]")).to_have_text("slowest first")
    lab.gate("crowd")
    lab.finished()


def test_a_small_tree_has_no_chips_and_its_bars_show_the_time_of_the_model(lab: Lab) -> None:
    start(lab, RESEARCH)
    lab.page.wait_for_selector(f"{row(lab, 'researcher')} >> text=grep", state="attached")
    assert not lab.page.locator(".axe-nb-tools").is_visible()
    bar = lab.page.locator(f"{row(lab, 'researcher')} > summary .axe-nb-model").first
    assert bar.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(91, 143, 217)"
    assert SEGMENTS["model"] == "#5b8fd9"
    assert lab.page.locator(".axe-nb-legend").inner_text().split()[:2] == ["model", "tool"]
    names = lab.page.locator(".axe-nb-axis > small").all_inner_texts()
    assert names[0] == "0"
    assert names[-1].endswith(" s")
    for width in (1280, 1920):
        lab.page.set_viewport_size({"width": width, "height": 900})
        axis, bar = (lab.page.locator(f".axe-nb-{part}").first for part in ("axis", "bar"))
        lefts = [part.evaluate("e => e.getBoundingClientRect().left") for part in (axis, bar)]
        assert abs(lefts[0] - lefts[1]) < 4, "the axis is above the bars"
    lab.gate("counter", "researcher", "critic")
    lab.finished()


def test_a_tree_at_the_lower_edge_comes_into_view_until_the_reader_scrolls(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1280, "height": 600})
    start(lab, RESEARCH + "\n#" * 18)
    last = lab.page.locator(row(lab, "critic"))
    expect(last).to_be_in_viewport(ratio=0.9)
    lab.page.mouse.move(700, 300)
    lab.page.mouse.wheel(0, -2000)
    expect(last).not_to_be_in_viewport()
    lab.gate("counter", "researcher", "critic")
    lab.finished()
    expect(last).not_to_be_in_viewport()
