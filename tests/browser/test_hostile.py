"""Whatever a model or a tool says, a page does nothing of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from axe_nb.views.html import twin
from tests.browser.lab import Lab
from tests.views.runs import PAYLOADS, code, hostile_run, saved

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

ACTIVE = (
    "script, style, link, iframe, object, embed, img, svg, math, video, audio, form, input, button,"
    " textarea, meta, base, template, mjx-container, [data-commandlinker-command]"
)

TRUSTED = """
from IPython.display import display
from axe_nb.views.html import twin
from tests.views.runs import hostile_run
display(twin(hostile_run()), raw=True)
"""

LIVE = """
import time
from pathlib import Path
from axe_nb.cell_display import feed, live_tree
from axe_nb.cell_display.display import RunView
from axe_nb.events import TextDelta, TurnFinished
from axe_nb.views.transcript import events_of
from tests.views.runs import hostile_run
view, result = RunView(live=True), hostile_run()
*events, last = events_of(result)
live_tree.EVERY = feed.AGAIN = 0.0  # each piece is an update of its own
live_tree.PACE = 1e9
for event in events:
    if isinstance(event, TurnFinished) and event.run == "0":
        text = result.text if event.turn == 1 else event.text
        for at in range(0, len(text), 9):
            view.event(TextDelta("0", event.turn, 1, text[at : at + 9]))
            view.tick()
    view.event(event)
    view.tick()
while not Path("end").exists():
    time.sleep(0.05)
    view.tick()
view.event(last)
view.finish(result)
"""

SERVER = """
%load_ext axe_nb
import axe_nb
from tests.mcp_servers.servers import everything, raw
from tests.views.runs import PAYLOADS

@axe_nb.script("victim")
def model(request):
    if request.turn == 1:
        calls = [axe_nb.call("raw__echo", text=payload) for payload in PAYLOADS]
        return [*calls, *(axe_nb.call("all__echo", message=payload) for payload in PAYLOADS)]
    return "\\n\\n".join(result.content for result in request.results)

servers = {"raw": raw(), "all": everything()}
victim = axe_nb.Agent("victim", "script/victim", mcp_servers=servers, mode="auto")
axe_nb.define(victim.but(name="reader", mcp_servers={"raw": raw("hostile")}))
axe_nb.run(victim, "go")
%axe tools reader
"""


COUNT = """(e, active) => [
  [...e.querySelectorAll(active)].filter(each => !each.closest(".mathjax_process > mjx-container"))
    .map(each => each.className),
  e.querySelectorAll('.axe-nb-text').length,
  [...e.querySelectorAll('.axe-nb-text > button.axe-nb-copy:last-child')].map(b => b.innerHTML),
]"""


def check(lab: Lab, selector: str, own: Sequence[str] = ()) -> None:
    """Nothing in the output acts but our own, loads, is typeset, or lies over the page."""
    lab.unfold()
    lab.page.wait_for_timeout(1500)  # what would load or fire gets its time
    area = lab.page.locator(selector).first
    assert lab.page.evaluate("() => window.pwned") is None
    acting, texts, copies = area.evaluate(COUNT, ACTIVE)  # at one moment: a tree may be live
    assert texts == len(copies)
    assert acting == [*own, *["axe-nb-copy"] * len(copies)]
    assert set(copies) <= {""}
    loads = ", ".join(f"mjx-container {what}" for what in ("a", "[href]", "[src]", "[style*=url]"))
    assert area.locator(loads).count() == 0, "formulas of an answer are typeset, and do nothing"
    attributes = area.evaluate(
        "e => [...e.querySelectorAll('*')].flatMap(x => [...x.attributes].map(a => a.name))"
    )
    assert not [name for name in attributes if name.startswith("on")]
    links = area.evaluate("e => [...e.querySelectorAll('a')].map(a => a.protocol)")
    assert set(links) <= {"https:", "http:", "mailto:"}
    styles = "e => [...e.querySelectorAll('*')].map(each => getComputedStyle(each).position)"
    assert "fixed" not in area.evaluate(styles)
    assert PAYLOADS[0] in area.inner_text()


def test_a_saved_notebook_of_a_stranger_is_inert(lab: Lab) -> None:
    lab.open(saved(twin(hostile_run())))
    check(lab, ".jp-OutputArea-output")


def test_a_cell_that_ran_here_is_inert(lab: Lab) -> None:
    lab.open(code(TRUSTED))
    lab.run_all()
    lab.page.wait_for_selector(".jp-OutputArea details", state="attached")
    check(lab, ".jp-OutputArea-output")


LOOK = f"""
window.looks = window.links = 0;
window.look = new MutationObserver(() => {{
  const written = document.querySelector(".axe-nb-writing");
  window.looks += Boolean(written);
  window.links = Math.max(window.links, written?.querySelectorAll("a").length ?? 0);
  const all = [...(written?.querySelectorAll("*") ?? [])];
  const acts = all.some((e) => [...e.attributes].some(({{name}}) => name.startsWith("on")));
  const act = (e) => e.matches({ACTIVE!r}) && !e.closest(".mathjax_process > mjx-container");
  if (acts || all.some(act)) window.pwned = "in between";
}});
window.look.observe(document, {{subtree: true, childList: true, characterData: true}});
"""
"""Looks at each state of an answer that grows."""


def test_the_live_tree_is_inert_at_each_moment(lab: Lab) -> None:
    lab.open(code(LIVE))
    lab.page.evaluate(LOOK)
    lab.run_all(wait=False)
    lab.page.wait_for_selector(".axe-nb-error, .axe-nb-bad", state="attached")
    jumps = [f"axe-nb-chip axe-nb-jump axe-nb-{tone}" for tone in ("limit", "bad")]
    own = ["axe-nb-stop", *jumps, *["axe-nb-chip"] * 4, "axe-nb-search"]
    check(lab, ".axe-nb-tree", own=own)
    assert lab.page.evaluate("() => window.looks") > 30, "fewer on a busy machine"
    assert lab.page.evaluate("() => window.links") > 3, "it was rendered as Markdown"
    lab.page.evaluate("() => window.look.disconnect()")
    lab.gate("end")
    lab.finished()
    lab.page.wait_for_selector(".jp-OutputArea details", state="attached")
    check(lab, ".jp-OutputArea-output")


@pytest.mark.req("D-46")
def test_the_words_of_an_mcp_server_are_inert(lab: Lab) -> None:
    lab.open(code(SERVER))
    lab.run_all()
    lab.page.wait_for_selector(".jp-OutputArea details", state="attached")
    check(lab, ".jp-OutputArea-output")
    listed = lab.page.locator(".jp-OutputArea-output", has_text="raw__a_b").first
    assert "<script>" in listed.inner_text()
    assert listed.evaluate("(e, active) => e.querySelectorAll(active).length", ACTIVE) == 0
    assert "owned" not in lab.page.title()
