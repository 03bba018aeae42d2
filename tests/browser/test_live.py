"""The live tree in a real JupyterLab."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.live_tree import LISTED, RESEARCH, row, start

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

GOOD = "document.querySelectorAll('.axe-nb-good').length"
CHAIN = (
    "import axe_nb; from tests.browser.browser_runs import *; r = axe_nb.run(chain(3), 'Go on.')"
)


def test_the_tree_grows_and_at_the_end_its_twin_stands_there_alone(lab: Lab) -> None:
    start(lab, RESEARCH)
    lab.page.wait_for_selector(f"{row(lab, 'researcher')} >> text=2 turns")
    summary = lab.page.locator(".axe-nb-scroll > details > summary")
    assert (
        "turn 1 · 0 of 3 sub-agents done · 3 running · 1 tool call (1 failed) · 1,114 tokens"
        in summary.inner_text()
    )
    lab.gate("counter")
    lab.page.wait_for_selector(f"{row(lab, 'counter')}.axe-nb-good >> text=1 turn · 310 tokens")
    assert lab.page.locator(f"{row(lab, 'critic')}.axe-nb-running").count() == 1
    lab.gate("researcher", "critic")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed")
    assert lab.page.locator(".axe-nb-tree").count() == 0
    assert lab.page.locator(".jp-OutputArea strong >> text=27 keys").is_visible()
    saved = lab.save()
    [output] = saved.cells[0].outputs
    assert output.output_type == "display_data"
    assert set(output.data) == {"text/html", "text/plain"}
    assert "widgets" not in saved.metadata


FORK = """\
import axe_nb; from pathlib import Path; from tests.browser.browser_runs import *
for name in ("researcher", "counter", "critic"):
    Path(name).touch()
r = axe_nb.run(research(), "Check.", display=False)
Path("critic").unlink()
f = r.fork("0.3/1", prompt="Task: Look again")"""


@pytest.mark.req("D-66")
def test_the_tree_of_a_fork_marks_what_was_recorded_while_the_rest_is_live(lab: Lab) -> None:
    start(lab, FORK)
    critic = lab.page.locator(f"{row(lab, 'critic')}.axe-nb-running")
    expect(critic).to_have_count(1)
    head = lab.page.locator(".axe-nb-scroll > details > summary")
    expect(head).to_contain_text("fork of 0.3/1")
    recorded = lab.page.locator("details.axe-nb-good > summary", has_text="recorded")
    expect(recorded).to_contain_text(["researcher", "turn 2", "counter"])
    expect(critic.locator("> summary")).not_to_contain_text("recorded")
    lab.gate("critic")
    lab.finished()
    shown = lab.page.locator(".jp-OutputArea").first
    expect(shown).to_contain_text("completed · fork of 0.3/1")
    assert lab.page.locator(".axe-nb-tree").count() == 0


def test_while_a_step_waits_for_the_person_the_tree_goes_on_and_says_who_waits(lab: Lab) -> None:
    start(lab, RESEARCH.replace("'Check.'", "'Check.', break_at='agent:counter'"))
    prompt = lab.page.locator(".jp-Stdin-prompt")
    expect(prompt).to_contain_text("counter (0.2), turn 1, is about to ask script/counter")
    summary = lab.page.locator(".axe-nb-scroll > details > summary")
    expect(summary).to_contain_text("counter waits for you")
    expect(lab.page.locator(f"{row(lab, 'counter')} > summary")).to_contain_text("waits for you")
    lab.gate("researcher")
    lab.page.wait_for_selector(f"{row(lab, 'researcher')}.axe-nb-good", state="attached")
    answer = lab.page.locator("input.jp-Stdin-input")
    answer.fill("n")
    answer.press("Enter")
    expect(summary).not_to_contain_text("waits for you")
    lab.gate("counter", "critic")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed")


LAID_OUT = """
() => [
  ...document.querySelectorAll(".jp-OutputArea :is(h2, table, td, li, pre, p)")
].slice(0, 6).map((e) => {
  const {x, y, width, height} = e.getBoundingClientRect();
  const {color, fontFamily, fontSize, fontWeight, lineHeight} = getComputedStyle(e);
  return [e.tagName, x, y, width, height, color, fontFamily, fontSize, fontWeight, lineHeight];
})
"""
"""Where the first words of an answer stand, and how they look."""


@pytest.mark.req("D-24")
def test_a_reply_is_shown_while_it_is_written_and_its_thoughts_are_folded_at_the_end(
    lab: Lab,
) -> None:
    start(
        lab,
        "import axe_nb; from tests.browser.browser_runs import *; r = axe_nb.run(writer(), 'Go.')",
    )
    turn = lab.page.locator(row(lab, "turn 1"))
    asked = turn.locator("> summary bdi")
    expect(asked).to_have_text("thinks: … then. <b>Who</b> reads them?")
    thoughts = turn.locator(".axe-nb-text:has(details)")
    expect(thoughts.locator("pre")).not_to_be_visible()
    thoughts.locator("summary").click()
    expect(thoughts.locator("pre")).to_be_visible()
    expect(thoughts).to_have_text("thinksKeys and defaults, then. <b>Who</b> reads them?")
    lab.gate("text")
    writing = lab.page.locator(".axe-nb-writing")
    expect(writing.locator("h2")).to_have_text("Keys")
    expect(writing.locator("p").first).to_have_text("The loader accepts <i>27</i> keys,")
    expect(thoughts.locator("pre")).to_be_visible()
    live = lab.page.evaluate(LAID_OUT)
    expect(asked).to_have_text("writes")
    lab.gate("end")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed")
    shown = lab.page.locator(".jp-OutputArea").first.inner_text()
    assert "27</i> keys, 3 of them required." in shown
    assert live == lab.page.evaluate(LAID_OUT), "nothing jumps, and nothing looks different"
    assert "Keys and defaults" not in shown
    saved = str(lab.save().cells[0].outputs)
    assert "thought</small></summary><pre" in saved
    assert "Keys and defaults, then. &lt;b&gt;Who&lt;/b&gt; reads them?" in saved


@pytest.mark.req("D-65")
def test_data_stand_in_their_table_while_they_are_written(lab: Lab) -> None:
    start(lab, LISTED)
    table = lab.page.locator(".axe-nb-writing table")
    expect(table.locator("td")).to_have_text(["Berne", "133883"])
    live = lab.page.evaluate(LAID_OUT)
    lab.gate("end")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed")
    cells = lab.page.locator(".jp-OutputArea td")
    expect(cells).to_have_text(["Berne", "133883", "<b>Rome</b>", "2755309"])
    ended = lab.page.evaluate(LAID_OUT)
    assert [e[:3] + e[5:] for e in live[:2]] == [e[:3] + e[5:] for e in ended[:2]], "it only grows"


CUT_OFF = RESEARCH.replace("research(), 'Check.'", "cut_off(), 'Go.'")


@pytest.mark.req("D-23")
def test_of_an_attempt_that_broke_off_nothing_is_left_beside_the_next_one(lab: Lab) -> None:
    start(lab, CUT_OFF)
    tree = lab.page.locator(".axe-nb-tree")
    written = lab.page.locator(".axe-nb-writing")
    expect(written.locator("h1")).to_have_text("First")
    expect(written.locator("pre").first).to_contain_text("not closed <img src=x")
    lab.gate("cut")
    turn = lab.page.locator(row(lab, "turn 1"))
    expect(turn.locator("> summary")).to_contain_text("tries again, 1 of 1")
    expect(written).to_have_text("")
    expect(tree).not_to_contain_text("first thought")
    lab.gate("again")
    expect(written).to_have_text("The second one")
    expect(written.locator("pre", has_text="not closed")).to_have_count(0)
    assert written.inner_html().count("<em>second</em>") == 1
    expect(turn.locator("> summary")).to_contain_text("writes")
    expect(tree).not_to_contain_text("first thought")
    assert written.locator("h1, table, img").count() == 0
    lab.gate("end")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed")
    shown = lab.page.locator(".jp-OutputArea").first
    assert shown.inner_text().count("The second one is whole.") == 1
    assert "First" not in str(lab.save().cells[0].outputs)
    expect(shown).to_contain_text("1 retry")


def test_rows_stay_as_the_reader_left_them_while_updates_arrive(lab: Lab) -> None:
    start(lab, RESEARCH)
    researcher = lab.page.locator(row(lab, "researcher"))
    researcher.locator("> summary").focus()
    lab.page.keyboard.press("Enter")
    told = researcher.locator(".axe-nb-text >> text=Task: List every TOML key")
    told.first.wait_for(state="visible")
    lab.gate("counter")
    lab.page.wait_for_selector(f"{row(lab, 'counter')}.axe-nb-good")
    assert researcher.evaluate("e => e.open") is True
    first = lab.page.locator(row(lab, "turn 1")).first
    first.locator("> summary").click()
    assert first.evaluate("e => e.open") is False
    lab.gate("researcher")
    lab.page.wait_for_selector(f"{row(lab, 'researcher')}.axe-nb-good", state="attached")
    assert first.evaluate("e => e.open") is False
    assert researcher.evaluate("e => e.open") is True
    lab.gate("critic")
    lab.finished()


def test_the_newest_row_is_marked_and_time_goes_on(lab: Lab) -> None:
    start(lab, RESEARCH)
    newest = lab.page.locator(".axe-nb-newest")
    for name in ("counter", "researcher"):  # one after the other: nothing else moves
        lab.page.wait_for_selector(row(lab, name))
        lab.gate(name)
        lab.page.wait_for_selector(f"{row(lab, name)}.axe-nb-newest")
        expect(newest).to_have_count(1)
    cost = lab.page.locator(f"{row(lab, 'critic')} > summary small")
    before = cost.inner_text()
    lab.page.wait_for_function(
        "([name, text]) => [...document.querySelectorAll('.axe-nb-row > summary small')]"
        ".some(e => e.parentElement.innerText.includes(name) && e.innerText !== text)",
        arg=["critic", before],
    )
    lab.gate("critic")
    lab.finished()


def test_a_reader_who_scrolled_up_is_left_alone(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1280, "height": 500})
    start(lab, CHAIN)
    pane = lab.page.locator(".axe-nb-scroll")

    def rows(count: int) -> None:
        lab.page.wait_for_function(
            "n => document.querySelectorAll('.axe-nb-call').length"
            " + document.querySelectorAll('.axe-nb-run').length > n",
            arg=count,
        )
        lab.page.wait_for_timeout(300)

    lab.gate("1")
    rows(20)
    room = "e => e.scrollHeight - e.scrollTop - e.clientHeight"
    assert pane.evaluate(room) < 30
    pane.evaluate("e => e.scrollTo(0, 40)")
    lab.page.wait_for_timeout(200)
    lab.gate("2")
    rows(40)
    assert pane.evaluate("e => e.scrollTop") == 40
    pane.evaluate("e => e.scrollTo(0, e.scrollHeight)")
    lab.page.wait_for_timeout(200)
    lab.gate("3")
    rows(60)
    assert pane.evaluate(room) < 30
    lab.gate("4")
    lab.finished()


DROP = """
const Socket = window.WebSocket;
window.WebSocket = class extends Socket {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", (event) => {
      if (!window.drop || !(event.data instanceof ArrayBuffer)) return;
      if (!new TextDecoder().decode(event.data).includes('"custom"')) return;
      window.dropped = (window.dropped || 0) + 1;
      event.stopImmediatePropagation();
    });
  }
};
"""
"""Makes the page lose messages while `window.drop` is true."""


def test_what_was_lost_on_the_way_is_shown_all_the_same(new_lab: Lab) -> None:
    lab = new_lab
    lab.page.add_init_script(DROP)
    start(lab, CHAIN.replace("chain(3)", "chain(12, pause=0.3)"))
    lab.page.evaluate("window.drop = true")
    lab.page.wait_for_function(f"{GOOD} >= 12 * 21")
    assert lab.page.evaluate("window.dropped") > 3
    lab.gate("end")
    lab.finished()


def test_the_first_rows_are_there_however_late_the_page_listens(lab: Lab) -> None:
    start(lab, CHAIN)
    lab.gate("1", "2", "3")
    lab.page.wait_for_function(f"{GOOD} >= 63")
    lab.gate("4")
    lab.finished()


def test_states_can_be_heard(lab: Lab) -> None:
    start(lab, RESEARCH)
    sign = lab.page.locator(f"{row(lab, 'critic')} > summary b").first
    assert sign.get_attribute("role") == "img"
    assert sign.get_attribute("aria-label") == "running"
    assert "lead: script/lead" in lab.page.locator("[role=status].axe-nb-said").inner_text()
    lab.gate("researcher", "counter", "critic")
    lab.finished()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_text_has_enough_contrast_in_either_theme(lab: Lab, theme: str) -> None:
    start(lab, RESEARCH)
    lab.theme(theme)
    lab.gate("counter")
    lab.page.wait_for_selector(f"{row(lab, 'counter')}.axe-nb-good")
    lab.page.locator(f"{row(lab, 'counter')} > summary").click()
    live = lab.contrasts(".axe-nb-tree")
    lab.gate("researcher", "critic")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed")
    lab.unfold()
    twin = lab.contrasts(".jp-OutputArea-output")
    for found in (live, twin):
        assert len(found) > 10
        signs = {text: ratio for text, ratio in found.items() if text in "●✓✗◷⊘■–"}
        assert signs
        assert min(signs.values()) >= 3
        assert min(r for text, r in found.items() if text not in signs) >= 4.5


LONG = """
import asyncio, pathlib, axe_nb
NAME = "the_long_named_researcher_of_everything"

@axe_nb.script("lead")
def lead(request):
    return [axe_nb.call("call_agent", agent=NAME, task="שלום, Count all.") for _ in "ab"]

@axe_nb.script("slow")
async def slow(request):
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.05)
    return "done"

axe_nb.define(axe_nb.Agent(NAME, "script/slow"))
r = axe_nb.run(axe_nb.Agent("lead", "script/lead", sub_agents=(NAME,)), "go", timeout=60)
"""

CELLS = """
row => [...row.firstElementChild.children].filter(e => e.matches("b + b, bdi, small"))
  .map(e => [e.getBoundingClientRect(), getComputedStyle(e).overflowX === "hidden", e])
  .map(([{left, right}, isCut, e]) => [left, isCut ? right : left + e.scrollWidth])
"""


def test_in_a_narrow_window_a_long_name_gives_way_to_its_task(lab: Lab) -> None:
    start(lab, LONG)
    lab.command("application:toggle-left-area")
    lab.page.set_viewport_size({"width": 520, "height": 900})
    long = lab.page.locator(".axe-nb-row.axe-nb-run > summary:has(b:text('the_long_named'))").first
    long.wait_for()
    lab.page.wait_for_timeout(300)
    who, asked, cost = long.evaluate(CELLS)
    assert who[1] <= asked[0], "nothing is drawn over something else"
    assert asked[1] <= cost[0]
    assert asked[1] - asked[0] > 40
    assert cost[1] <= lab.page.locator(".axe-nb-scroll").bounding_box()["x"] + 520
    direction = "e => getComputedStyle(e).direction"
    assert long.locator("bdi").evaluate(direction) == "rtl"
    lab.command("application:toggle-left-area")
    lab.gate("go")
    lab.finished()


def test_in_a_narrow_window_the_bar_goes_before_the_task(lab: Lab) -> None:
    start(lab, RESEARCH)
    task = lab.page.locator(f"{row(lab, 'researcher')} > summary bdi")
    bar = lab.page.locator(f"{row(lab, 'researcher')} > summary i")
    width = "e => e.getBoundingClientRect().width"
    assert bar.evaluate(width) > 50
    lab.page.set_viewport_size({"width": 640, "height": 900})
    lab.page.wait_for_timeout(300)
    assert bar.evaluate(width) < 16
    assert task.evaluate("e => e.offsetWidth / e.parentElement.offsetWidth") > 0.2
    lab.gate("researcher", "counter", "critic")
    lab.finished()
