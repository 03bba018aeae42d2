"""Screenshots of the view in its states: `python -m tests.browser.screenshots FOLDER [STATE…]`.

Each state is taken in JupyterLab's light and dark theme, 1280 and 640 pixels wide, for somebody
to look at. Nothing is compared.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbconvert.exporters import HTMLExporter
from playwright.sync_api import Browser

from tests.browser.lab import LIGHT, SIZE, Lab, server, started
from tests.browser.live_tree import BACKGROUND, BUDGET, RESEARCH, RUNS, start
from tests.conftest import CHROMIUM
from tests.views.runs import code

WIDTHS, HEIGHT = (1280, 640), 900

BUTTON = ".axe-nb-question button:enabled"


def shows(source: str, selector: str, *gates: str) -> Callable[[Lab], None]:
    """A state: a cell that went through these gates, once the page has such an element."""

    def show(lab: Lab) -> None:
        start(lab, source if "\n" in source else f"{RUNS}; r = axe_nb.run({source})")
        lab.gate(*gates)
        lab.page.wait_for_selector(selector, state="attached")

    return show


def show_crowd(count: int) -> Callable[[Lab], None]:
    return shows(f"crowd({count}), 'Check the documentation.'", ".axe-nb-row.axe-nb-bad")


def show_background(lab: Lab) -> None:
    lab.open(code(BACKGROUND, "%%axe lead --bg\nCheck."))
    lab.run_all()
    lab.page.wait_for_selector(".axe-nb-stop:visible")


def show_interrupt(lab: Lab) -> None:
    show_crowd(8)(lab)
    lab.command("notebook:interrupt-kernel")
    lab.ended("cancelled")


def show_reload(lab: Lab) -> None:
    """The page loaded anew while the run goes on."""
    show_crowd(8)(lab)
    lab.save()
    lab.is_loaded = False
    lab.show("test.ipynb", kernel=False)
    lab.page.wait_for_selector(".jp-OutputArea-output")


def show_reopened(lab: Lab) -> None:
    """A saved run, opened again without a kernel and without trust."""
    (lab.server.folder / "again.ipynb").write_text(save_run(lab), "utf-8")
    lab.is_loaded = False
    lab.show("again.ipynb", kernel=False)
    lab.unfold()


def show_html(lab: Lab) -> None:
    """The same as a page made by nbconvert."""
    notebook = nbformat.reads(save_run(lab), as_version=4)
    page = lab.server.folder / "run.html"
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], "utf-8")
    lab.page.goto(page.as_uri())
    lab.page.locator("details").first.evaluate("each => { each.open = true }")


def save_run(lab: Lab) -> str:
    """A notebook with a finished run of three agents, without what the browser trusts."""
    start(lab, RESEARCH)
    lab.gate("researcher", "counter", "critic")
    lab.ended()
    notebook = lab.save()
    notebook.metadata.pop("signature", None)
    notebook.cells[0].metadata.pop("trusted", None)
    notebook.cells[0].source += "\n"  # no output that this server has signed
    return json.dumps(notebook)


ENDED = ".jp-OutputArea summary >> text=completed"

STATES: dict[str, Callable[[Lab], None]] = {
    "eight": show_crowd(8),
    "forty": show_crowd(40),
    "question": shows("editor('Tuesday: calm, 3 visitors'), 'Go.'", BUTTON),
    "budget": shows(BUDGET, BUTTON),
    "background": show_background,
    "step": shows("research(), 'Check.', step=True", BUTTON),
    "stream": shows("writer(), 'Go.'", "text=The loader accepts", "text"),
    "failure": shows("research(gated=False, timeout=1), 'Check.'", ENDED),
    "interrupt": show_interrupt,
    "reload": show_reload,
    "reopened": show_reopened,
    "nbconvert": show_html,
}


def take(browser: Browser, folder: Path, state: str) -> None:
    """The state in both themes and widths, each a file `STATE-THEME-WIDTH.png`."""
    with tempfile.TemporaryDirectory() as home, server(Path(home)) as jupyter:
        visitor = browser.new_context(viewport=SIZE)
        lab = Lab(jupyter, visitor)
        STATES[state](lab)
        themes = [LIGHT]
        if lab.page.evaluate("() => !!window.jupyterapp"):
            lab.command("application:toggle-left-area")
            themes.append("JupyterLab Dark")
        for theme in themes:
            if themes[1:]:
                lab.theme(theme)
            for width in WIDTHS:
                lab.page.set_viewport_size({"width": width, "height": HEIGHT})
                lab.page.wait_for_timeout(500)  # the page settles
                name = f"{state}-{theme.split()[-1].lower()}-{width}.png"
                lab.page.screenshot(path=folder / name)
                print(folder / name, flush=True)
        visitor.close()


def main(folder: str, *states: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    if CHROMIUM is None:
        sys.exit("there is no chromium (Debian: sudo apt-get install chromium)")
    with started(CHROMIUM) as browser:
        for state in states or STATES:
            take(browser, Path(folder), state)


if __name__ == "__main__":
    if unknown := set(sys.argv[2:]) - STATES.keys() or len(sys.argv) < 2:
        sys.exit(f"python -m tests.browser.screenshots FOLDER [{'|'.join(STATES)}]")
    main(*sys.argv[1:])
