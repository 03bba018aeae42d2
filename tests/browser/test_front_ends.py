"""Our outputs in pages that imitate VS Code and Colab, which cannot be started here.

VS Code has one frame for all outputs, which does not scroll, and puts widgets on white in every
theme. Colab has a sandboxed frame for each cell, as high as its content. See docs/front_ends.md.
"""

from __future__ import annotations

import base64
import json
import sys
from html import escape
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import CONTRASTS
from tests.nb.kernels import contents, shown, started

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

RUN = """
import os
os.environ.pop("PYTEST_VERSION", None)  # a person watches
from tests.browser.browser_runs import *
Path("counter").touch()
r = axe_nb.run(editor("Tuesday: calm, 3 visitors"), "Go.")"""

VSCODE = """<body class=vscode-dark style="overflow: hidden; color: #ccc; background: #1e1e1e">
<style>:root { --vscode-editor-background: #1e1e1e; --vscode-editor-foreground: #ccc; JP }
.jp-RenderedHTMLCommon { color: var(--jp-content-font-color1) }
.cell-output-ipywidget-background { background: white !important }</style>
<div style="position: absolute; width: 100%; overflow-x: auto"><div id=output
class=cell-output-ipywidget-background></div></div>"""

LIGHT = "--jp-content-font-color1: #212121; --jp-layout-color0: white; --jp-layout-color2: #eee"
"""What the widgets of VS Code bring along."""

COLAB = """<body style="color: COLOUR"><div id=output></div><script>
const tell = () => parent.postMessage(document.body.scrollHeight + 16, "*");
new ResizeObserver(tell).observe(document.body)</script>"""

PAGES = {
    "VS Code": VSCODE.replace("JP", ""),
    "VS Code with colours": VSCODE.replace("JP", LIGHT),
    "Colab": "<html style='background: white'>" + COLAB.replace("COLOUR", "#212121"),
    "Colab, dark": "<html theme=dark style='background: #383838; "
    "--colab-primary-surface-color: #383838'>" + COLAB.replace("COLOUR", "#d5d5d5"),
}

SHOW = """<script type=module>
const [esm, css, news] = DATA;
document.head.append(Object.assign(document.createElement("style"), {textContent: css}));
const {default: make} = await import("data:text/javascript;base64," + esm);
const heard = {}, state = {snapshot: JSON.stringify(news[0]), mark: "", can_stop: false};
const model = {get: (name) => state[name], on: (name, hear) => { heard[name] = hear }};
const widget = make(); widget.initialize({model});
widget.render({model, el: document.getElementById("output")});
for (const each of news) heard["msg:custom"](each);
</script>"""

OUTER = """<iframe sandbox=allow-scripts srcdoc="INNER" style="width: 100%; height: 200px"></iframe>
<script>
onmessage = ({data}) => { document.querySelector("iframe").style.height = data + "px" }
</script>"""


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What a kernel sends until a question is open, and the saved tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        with started(Path(sys.executable), tmp_path_factory.mktemp("run")) as kernel:
            outputs = kernel.run(RUN, live=True, answers=["y"])
    [opened] = [o["data"]["state"] for o in outputs if "_esm" in o.get("data", {}).get("state", {})]
    told = contents(outputs)
    asks = [at for at, news in enumerate(told) if any(r.get("question") for r in news["rows"])]
    esm = base64.b64encode(opened["_esm"].encode()).decode()
    sent = json.dumps([esm, opened["_css"], told[: asks[0] + 1]])
    return sent.replace("</", "<\\/"), shown(outputs)[-1]["text/html"]


@pytest.mark.parametrize("name", PAGES)
def test_trees_work_without_jupyterlab(browser: Browser, sent: tuple[str, str], name: str) -> None:
    page = browser.new_page(viewport={"width": 900, "height": 600})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    inner = f"<!doctype html>{PAGES[name]}{SHOW.replace('DATA', sent[0])}"
    page.set_content(OUTER.replace("INNER", escape(inner)))
    frame = page.frame_locator("iframe")
    expect(frame.locator(".axe-nb-question .axe-nb-new")).to_have_text("+Tuesday: calm, 3 visitors")
    expect(frame.locator(".axe-nb-question button").first).to_be_disabled()  # no input to type into
    page.wait_for_timeout(500)  # the frame gets its height
    scroll = frame.locator(".axe-nb-scroll")
    assert scroll.evaluate("e => e.clientHeight") > 300, "not a part of a frame that it shrinks"
    head = frame.locator(".axe-nb-scroll > details > summary")
    frame.locator(".axe-nb-question summary").click()  # more than fits
    assert scroll.evaluate("e => { e.scrollTo(0, 99); return e.scrollTop }") > 20
    tops = [each.evaluate("e => e.getBoundingClientRect().top") for each in (head, scroll)]
    assert tops[0] == tops[1], "it stays in view"
    row = ".axe-nb-row:has(> summary b:text-is('counter'))"
    frame.locator(f"{row} > summary").click()
    expect(frame.locator(f"{row}[open]")).to_be_visible()
    for html in (sent[1], ""):
        found = page.frames[1].evaluate(CONTRASTS, "#output")
        assert {t: r for t, r in found.items() if r < (2.5 if t in "●✓?" else 4.2)} == {} != found
        # the saved tree, in an output of its own
        frame.locator("#output").evaluate(
            "(e, html) => { e.outerHTML = html }", f"<div id=output>{html}</div>"
        )
    assert errors == []
