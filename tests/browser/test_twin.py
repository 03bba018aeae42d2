"""The static twin in a real JupyterLab: saved, reopened, never trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from playwright.sync_api import expect

import axe_nb
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.messages.exchanges import Lap
from axe_nb.results import RunResult, Turn
from axe_nb.views.html import twin
from tests.browser.lab import Lab
from tests.views.runs import ask, done, hostile_run, saved, turn
from tests.views.test_server_calls import PAGES, SEARCH, searched

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

TWIN = ".jp-OutputArea-output details"


def of_children(*names: str, answer: str = "ok", late: str = "", text: str = "Done.") -> RunResult:
    """A run with children of these names at once, each with the answer, one of them too late."""
    calls = tuple(ask(n, n, f"Do {n}") for n in names)
    children = tuple(
        done(
            agent=n, id=f"0.{i}", call_id=n, task=f"Do {n}", prompt=f"Task: Do {n}", text=answer,
            log=(turn(1, text=answer),), status="timeout" if n == late else "completed",
            error="timeout after 2s" if n == late else None,
        )
        for i, n in enumerate(names, 1)
    )  # fmt: skip
    results = tuple(ToolResult(n, "ok", is_error=n == late) for n in names)
    first = Turn(1, "Three at once.", calls, results, "", turn(1).usage)
    return done(text=text, log=(first, turn(2, text="x")), children=children)


def three() -> dict[str, str]:
    text = "It costs $5 or $6, **all in all**."
    return twin(of_children("researcher", "counter", "critic", late="critic", text=text))


def test_a_reopened_notebook_shows_the_folded_tree_without_trust_or_kernel(
    lab: Lab, jupyter: Any
) -> None:
    notebook = saved(three())
    del notebook.metadata["kernelspec"]
    nbformat.write(notebook, Path(jupyter.folder) / "bare.ipynb")
    lab.show("bare.ipynb", kernel=False)
    lab.page.locator("button >> text=No Kernel").last.click()
    trusted = lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.trusted"
    )
    assert trusted is False
    assert lab.page.locator(".jp-OutputArea-output strong").inner_text() == "all in all"
    lab.page.locator(f"{TWIN} > summary").first.focus()
    critic = lab.page.locator(f"{TWIN}:has(> summary b:text-is('critic'))").last
    assert critic.is_visible()
    assert critic.evaluate("e => e.open") is True
    assert "timeout after 2s" in critic.inner_text()
    counter = lab.page.locator(f"{TWIN}:has(> summary b:text-is('counter'))").last
    assert counter.evaluate("e => e.open") is False
    lab.page.keyboard.press("Enter")
    assert not critic.is_visible()
    lab.page.keyboard.press("Enter")
    assert critic.is_visible()


def test_a_result_of_several_lines_is_in_the_type_of_code_also_after_nbconvert(
    lab: Lab, tmp_path: Path
) -> None:
    result = ToolResult("1", "name   size\na.txt  17", is_error=False)
    log = (Turn(1, "", (ToolCall("1", "list_dir", {}),), (result,), "", turn(1).usage),)
    notebook = saved(twin(done(log=(*log, turn(2, text="x")))))
    file = tmp_path / "run.html"
    file.write_text(HTMLExporter().from_notebook_node(notebook)[0], "utf-8")
    lab.open(notebook)
    with lab.page.context.new_page() as converted:
        converted.goto(file.as_uri())
        for page in (lab.page, converted):
            text = page.locator(f"{TWIN} pre")
            assert "mono" in text.evaluate("e => getComputedStyle(e).fontFamily")


LINE = "e => e.offsetTop - e.closest('summary').offsetTop > 9"
BOXES = "all => all.map(e => e.getBoundingClientRect()).map(({left, height}) => [left, height])"


@pytest.mark.parametrize("width", [1000, 1280, 1800])
def test_all_rows_are_on_one_grid_and_one_line_each(lab: Lab, width: int) -> None:
    lab.page.set_viewport_size({"width": width, "height": 900})
    lab.open(saved(three()))
    lab.unfold()
    for part in ("span > b", "bdi"):
        rows = lab.page.locator(f"{TWIN} details > summary {part}").evaluate_all(BOXES)
        column = [left for left, _ in rows]
        assert len(column) == 4
        assert max(column) - min(column) < 1
    # a failure is read whole, in two lines where there is less room
    rows = lab.page.locator(f"{TWIN} details > summary").filter(has_not_text="critic")
    rows = rows.evaluate_all(BOXES)
    assert len({round(height) for _, height in rows}) == 1


@pytest.mark.req("D-6")
def test_in_a_narrow_window_thirty_characters_of_a_task_are_whole(lab: Lab) -> None:
    says = "The sheds hold 184 stores each"
    lab.open(saved(twin(of_children("documentation-writer", "counter", answer=says))))
    lab.command("application:toggle-left-area")
    lab.page.set_viewport_size({"width": 640, "height": 900})
    lab.unfold()
    lab.page.wait_for_timeout(300)
    task = lab.page.locator(f"{TWIN} summary bdi", has_text=says).first
    parts = [task, lab.page.locator(f"{TWIN} summary small", has_text="tokens").first]
    cuts = [part.evaluate("e => e.scrollWidth - e.clientWidth") for part in parts]
    lab.page.set_viewport_size({"width": 390, "height": 900})
    name = lab.page.locator(f"{TWIN} summary b:text-is('documentation-writer')").first
    cuts.append(name.evaluate("e => e.scrollWidth - e.clientWidth"))
    lab.page.set_viewport_size({"width": 320, "height": 900})
    cuts.append(name.evaluate(LINE))
    lab.command("application:toggle-left-area")
    assert cuts == [0] * 4, "task, cost, and on a phone the name are whole, beside the marker"


def test_dollar_signs_are_typeset_in_formulas_of_an_answer_only(lab: Lab) -> None:
    control: dict[str, Any] = {"text/html": "<p id=control>$x^2$</p>", "text/plain": ""}
    told = ToolCall("c", "read_file", {"path": "$y^2$ \\(z\\)"})
    ours = twin(done(text="$a$ and $$b$$", log=(turn(1, told, results=["$c$"]), turn(2))))
    lab.open(saved(ours, control))
    lab.page.wait_for_selector("mjx-container", state="attached")
    areas = lab.page.locator(".jp-OutputArea")
    assert areas.nth(0).locator("mjx-container").count() == 1
    assert areas.nth(1).locator("mjx-container").count() == 1
    assert "$a$ and" in areas.nth(0).inner_text()


def test_without_any_style_it_is_an_outline_in_reading_order(lab: Lab) -> None:
    lab.open(saved(three()))
    lab.unfold()
    lab.page.evaluate(
        "() => document.querySelectorAll('.jp-OutputArea [style]')"
        ".forEach(e => e.removeAttribute('style'))"
    )
    text = " ".join(lab.page.locator(".jp-OutputArea-output").inner_text().split())
    order = (
        "It costs $5 or $6", "✓ lead script/x · completed", "✓ turn 1 Three at once.",
        "✓ researcher ok 512 tokens", "task Do researcher", "✓ counter ok 512 tokens",
        "◷ critic timeout after 2s · retry %%axe --from",
    )  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.req("D-76")
def test_cited_and_found_pages_are_links_without_trust(lab: Lab) -> None:
    lab.open(saved(twin(searched(SEARCH, sources=PAGES[:2]))))
    links = lab.page.locator(".jp-OutputArea-output a")
    assert links.evaluate_all("all => all.map(each => each.getAttribute('href'))") == [
        page.url for page in (*PAGES[:2], *PAGES)
    ]
    assert [link.is_visible() for link in links.all()] == [True] * 2 + [False] * 3
    lab.page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert links.last.is_visible()
    found = lab.page.locator(f"{TWIN}:has(> summary b:text-is('web_search'))").last
    assert "Page 3 p3.example.org" in found.inner_text()


@pytest.mark.req("D-59")
def test_an_exported_page_plays_itself_and_runs_nothing_else(context: Any, tmp_path: Path) -> None:
    laps = (Lap("run", 0.0, 1.0), Lap("model", 0.2, 0.9, 1))
    path = axe_nb.export(replace(hostile_run(), times=laps), tmp_path / "run.html")
    with context.new_page() as page:
        page.goto(path.as_uri())
        page.locator(".player").scroll_into_view_if_needed()
        expect(page.locator(".player output")).to_have_text("1.0 s")
        button = page.locator(".player button")
        expect(button).to_have_text("Play again")
        button.press("Enter")
        expect(page.locator(".timeline .going, .timeline .later").first).to_be_visible()
        expect(button).to_have_text("Play again")
        assert page.evaluate("() => window.pwned") is None
        assert page.locator("img, iframe, object, form, link, svg").count() == 0
