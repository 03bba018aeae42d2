"""The live tree in a real JupyterLab."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.live_tree import RESEARCH, RUNS, answer, row, start

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

GOOD = "document.querySelectorAll('.axe-nb-good').length"
CHAIN = f"{RUNS}; r = axe_nb.run(chain(3), 'Go on.')"


def test_the_tree_stays_with_its_times_until_the_kernel_is_gone_and_its_twin_is_saved(
    lab: Lab,
) -> None:
    start(lab, RESEARCH)
    lab.page.wait_for_selector(f"{row(lab, 'researcher')} >> text=grep", state="attached")
    summary = lab.page.locator(".axe-nb-scroll > details > summary")
    assert (
        "turn 1 · 0 of 3 sub-agents done · 3 running · 1 tool call (1 failed) · 1,114 tokens"
        in summary.inner_text()
    )
    lab.gate("counter")
    lab.page.wait_for_selector(f"{row(lab, 'counter')}.axe-nb-good >> text=184")
    assert lab.page.locator(f"{row(lab, 'critic')}.axe-nb-running").count() == 1
    lab.gate("researcher", "critic")
    lab.ended()
    assert lab.page.locator(".axe-nb-tree strong >> text=27 keys").is_visible()
    took = lab.page.locator(f"{row(lab, 'counter')} > summary time")
    expect(took).to_contain_text(" s")
    assert lab.page.locator(".jp-OutputArea-output:visible details:not(.axe-nb-row)").count() == 0
    saved = lab.save()
    [output] = saved.cells[0].outputs
    assert output.output_type == "display_data"
    assert set(output.data) == {"text/html", "text/plain"}
    assert "widgets" not in saved.metadata
    lab.command("kernelmenu:shutdown")
    lab.page.wait_for_selector(".axe-nb-tree", state="detached")
    assert lab.page.locator(".jp-OutputArea-output strong >> text=27 keys").is_visible()


def test_while_a_step_waits_for_the_person_the_tree_goes_on_and_says_who_waits(lab: Lab) -> None:
    start(lab, RESEARCH.replace("'Check.'", "'Check.', break_at='agent:counter'"))
    asked = "counter (0.2), turn 1: [g]o on"
    lab.page.wait_for_selector(f".jp-Stdin-prompt >> text={asked}")
    summary = lab.page.locator(".axe-nb-scroll > details > summary")
    expect(summary).to_contain_text("counter waits for you")
    expect(lab.page.locator(f"{row(lab, 'counter')} > summary")).to_contain_text("waits for you")
    answer(lab, "researcher")
    lab.page.locator(".axe-nb-answer >> text=Edit…").click()
    lab.gate("counter", "critic")
    lab.page.wait_for_selector(".jp-Stdin-prompt >> text=new reply, as text or JSON")
    box = lab.page.locator("input.jp-Stdin-input").last
    box.fill("185")
    box.press("Enter")
    lab.ended()
    [twin] = lab.save().cells[0].outputs  # the dialogue is gone
    assert "counter · 185" in twin.data["text/plain"]


LAID_OUT = """
() => [
  ...document.querySelectorAll(".jp-OutputArea :is(h2, table, td, li, pre, p)")
].filter((e) => e.checkVisibility()).slice(0, 6).map((e) => {
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
    start(lab, f"{RUNS}; r = axe_nb.run(writer(), 'Go.')")
    turn = lab.page.locator(row(lab, "writer"))
    asked = turn.locator("> summary span")
    expect(asked).to_contain_text("thinks: … then. <b>Who</b> reads them?")
    expect(lab.page.locator(".axe-nb-legend, .axe-nb-axis").first).to_be_hidden()  # no bars yet
    thoughts = turn.locator(".axe-nb-text:has(details)")
    expect(thoughts.locator("pre")).not_to_be_visible()
    thoughts.locator("summary").click()
    expect(thoughts.locator("pre")).to_be_visible()
    expect(thoughts).to_have_text("thinks Keys and defaults, then. <b>Who</b> reads them?")
    lab.gate("text")
    writing = lab.page.locator(".axe-nb-writing")
    expect(writing.locator("h2")).to_have_text("Keys")
    expect(writing.locator("p").first).to_have_text("The loader accepts <i>27</i> keys,")
    expect(thoughts.locator("pre")).to_be_visible()
    live = lab.page.evaluate(LAID_OUT)
    expect(asked).to_contain_text("writes")
    lab.gate("end")
    lab.ended()
    shown = lab.page.locator(".jp-OutputArea").first.inner_text()
    assert "27</i> keys, 3 of them required." in shown
    assert live == lab.page.evaluate(LAID_OUT), "nothing jumps, and nothing looks different"
    saved = str(lab.save().cells[0].outputs)
    assert "thought</small> </summary><pre" in saved
    assert "Keys and defaults, then. &lt;b&gt;Who&lt;/b&gt; reads them?" in saved


def test_formulas_of_answers_are_typeset_in_the_live_tree_and_copied_as_tex(lab: Lab) -> None:
    says = "$5 or $6; $\\href{a}{b}$; $x^2$ is \\(\\frac{1}{2}\\).\n\nSo it is."
    model = "async def model(_):\n  await gate('counter')\n  return says"
    agent = "team({'counter': 'Sum.'}, {'counter': model}, says)"
    start(lab, f"{RUNS}; says = {says!r}\n{model}\nr = axe_nb.run({agent}, 'Go.')")
    lab.gate("counter")
    lab.ended()
    written = lab.page.locator(".axe-nb-writing")
    expect(written.locator("mjx-container")).to_have_count(2)
    assert written.inner_text().startswith("$5 or $6; $\\href{a}{b}$; ")
    lab.page.locator(f"{row(lab, 'counter')} > summary").click()
    answered = lab.page.locator(f"{row(lab, 'counter')} .axe-nb-text").last
    expect(answered.locator("mjx-container")).to_have_count(2)
    lab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answered.locator(".axe-nb-copy").click()
    expect(answered.locator(".axe-nb-told")).to_have_text("copied")
    assert lab.page.evaluate("() => navigator.clipboard.readText()") == says


def test_thousands_of_formulas_in_a_paragraph_do_not_freeze_the_page(lab: Lab) -> None:
    model = "axe_nb.script('m')(lambda request: '$x_1$ ' * 3000)"
    start(lab, f"{RUNS}; {model}; r = axe_nb.run(axe_nb.Agent('m', 'script/m'), 'Go.')")
    began, formulas = time.monotonic(), lab.page.locator(".axe-nb-writing mjx-container")
    expect(formulas).to_have_count(3000, timeout=60_000)
    assert time.monotonic() - began < 30, "one by one they take 70 s"


@pytest.mark.req("D-23")
def test_of_an_attempt_that_broke_off_nothing_is_left_beside_the_next_one(lab: Lab) -> None:
    start(lab, f"{RUNS}; r = axe_nb.run(cut_off(), 'Go.')")
    tree = lab.page.locator(".axe-nb-tree")
    written = lab.page.locator(".axe-nb-writing")
    expect(written.locator("h1")).to_have_text("First")
    expect(written.locator("pre").first).to_contain_text("not closed <img src=x")
    lab.gate("cut")
    turn = lab.page.locator(row(lab, "writer"))
    expect(turn.locator("> summary")).to_contain_text("tries again, 1 of 1")
    expect(written).to_have_text("")
    lab.gate("again")
    expect(written).to_have_text("The second one")
    expect(turn.locator("> summary")).to_contain_text("writes")
    expect(tree).not_to_contain_text("first thought")
    assert written.inner_html().count("<em>second</em>") == 1
    assert written.locator("h1, table, img, pre").count() == 0
    lab.gate("end")
    lab.ended()
    shown = lab.page.locator(".axe-nb-tree").first
    assert shown.inner_text().count("The second one is whole.") == 1
    assert "First" not in str(lab.save().cells[0].outputs)
    expect(shown).to_contain_text("1 retry")


def test_rows_stay_as_the_reader_left_them_the_newest_is_marked_and_time_goes_on(lab: Lab) -> None:
    start(lab, RESEARCH)
    researcher = lab.page.locator(row(lab, "researcher"))
    researcher.locator("> summary").focus()
    lab.page.keyboard.press("Enter")
    researcher.locator(".axe-nb-text >> text=List every TOML key").first.wait_for()
    lab.gate("counter")  # nothing else moves
    lab.page.wait_for_selector(f"{row(lab, 'counter')}.axe-nb-newest")
    expect(lab.page.locator(".axe-nb-newest")).to_have_count(1)
    assert researcher.evaluate("e => e.open") is True
    cost = lab.page.locator(f"{row(lab, 'critic')} > summary small")
    expect(cost).not_to_have_text(cost.inner_text())
    first = lab.page.locator(row(lab, "lead")).first
    first.locator("> summary").click()
    answer(lab, "researcher")
    assert first.evaluate("e => e.open") is False
    assert researcher.evaluate("e => e.open") is True
    lab.gate("critic")
    lab.finished()


def test_a_reader_who_scrolled_up_is_left_alone(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1280, "height": 500})
    start(lab, CHAIN)
    pane = lab.page.locator(".axe-nb-scroll")

    def ask(turn: int) -> None:
        lab.gate(str(turn))
        lab.page.wait_for_function(
            "n => document.querySelectorAll('.axe-nb-call, .axe-nb-run').length > n", arg=20 * turn
        )
        lab.page.wait_for_timeout(300)

    room = "e => e.scrollHeight - e.scrollTop - e.clientHeight"
    ask(1)
    assert pane.evaluate(room) < 30
    pane.evaluate("e => e.scrollTo(0, 40)")
    lab.page.wait_for_timeout(200)
    ask(2)
    assert pane.evaluate("e => e.scrollTop") == 40
    pane.evaluate("e => e.scrollTo(0, e.scrollHeight)")
    lab.page.wait_for_timeout(200)
    ask(3)
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


def test_what_was_lost_on_the_way_is_shown_all_the_same(lab: Lab) -> None:
    lab.page.add_init_script(DROP)
    lab.is_loaded = False
    start(lab, CHAIN.replace("chain(3)", "chain(12, pause=0.3)"))
    lab.page.evaluate("window.drop = true")
    lab.page.wait_for_function(f"{GOOD} >= 12 * 20")
    assert lab.page.evaluate("window.dropped") > 3
    lab.gate("end")
    lab.finished()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_text_has_enough_contrast_in_either_theme(lab: Lab, theme: str) -> None:
    start(lab, RESEARCH)
    lab.theme(theme)
    answer(lab, "counter")
    lab.page.locator(f"{row(lab, 'counter')} > summary").click()
    live = lab.contrasts(".axe-nb-tree")
    lab.gate("researcher", "critic")
    lab.ended()
    lab.command("kernelmenu:shutdown")
    lab.page.wait_for_selector(".axe-nb-tree", state="detached")
    lab.unfold()
    twin = lab.contrasts(".jp-OutputArea-output")
    for found in (live, twin):
        assert len(found) > 10
        signs = {text: ratio for text, ratio in found.items() if text in "●✓✗◷⊘■–"}
        assert signs
        assert min(signs.values()) >= 3
        assert min(r for text, r in found.items() if text not in signs) >= 4.5
