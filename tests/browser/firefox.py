"""`python -m tests.browser.firefox [DARK.png LIGHT.png]`: the live tree in JupyterLab in Firefox.

No part of `python3 tests`: Firefox and a JupyterLab of its own take about 20 seconds.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import nbformat

from tests.browser.bidi import Firefox, started
from tests.browser.lab import TOKEN, Server, server
from tests.views.runs import code

PROGRAMS = ("firefox-esr", "firefox")

CELL = """\
import axe_nb; from tests.browser.browser_runs import *
r = axe_nb.run(editor("Tuesday: calm, 3 visitors"), "Go.")"""

READY = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
BUTTON = ".axe-nb-question:not([hidden]) button:not([disabled])"
ENDED = "/\\d/.test(document.querySelector('.jp-CodeCell .jp-InputPrompt').textContent)"
OPEN = "(document.querySelectorAll('.jp-OutputArea details').forEach(e => e.open = true), 1)"

SCROLLS = """
(() => { const place = document.querySelector('.axe-nb-place');
  return place.scrollHeight - place.clientHeight; })()
"""
"""Pixels that the output has too many, for which it would have a bar."""

BEGINS = """
[...document.querySelectorAll('.jp-OutputArea-output details details > summary')]
  .filter(row => row.checkVisibility())
  .map(row => [...row.querySelectorAll('b')].at(-1)?.getBoundingClientRect().x).filter(Boolean)
"""
"""Where the names of rows begin."""

APART = 2
"""Pixels that names may be apart, live and saved: the marker of a fold is the browser's own."""


def check(tab: Firefox, lab: Server, pictures: list[Path]) -> None:
    """Runs a cell that asks, answers by the button, and compares the live tree with the saved."""
    nbformat.write(code(CELL), lab.folder / "test.ipynb")
    tab.show(f"{lab.url}/{lab.page}/test.ipynb?token={TOKEN}&reset")
    tab.until(READY)
    theme(tab, "JupyterLab Dark")
    tab.ask("(window.jupyterapp.commands.execute('notebook:run-all-cells'), 1)")
    tab.until(f"document.querySelector('{BUTTON}')")
    assert tab.ask(SCROLLS) == 0, "the output of the live tree scrolls"
    live = tab.ask(BEGINS)
    if pictures:
        tab.picture(pictures[0])
    (lab.folder / "counter").touch()
    tab.click(BUTTON)
    tab.until(ENDED)
    tab.until("!document.querySelector('.axe-nb-tree')")
    assert "calm, 3 visitors" in (lab.folder / "CHANGELOG.md").read_text()
    tab.ask(OPEN)
    saved = tab.ask(BEGINS)
    assert live
    assert saved
    assert abs(min(live) - min(saved)) <= APART, f"names begin at {live} live, {saved} saved"
    theme(tab, "JupyterLab Light")
    if pictures[1:]:
        tab.picture(pictures[1])
    assert tab.errors == []


def theme(tab: Firefox, name: str) -> None:
    """Changes JupyterLab's theme."""
    tab.ask(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{name}'}}), 1")
    tab.until(f"document.body.dataset.jpThemeName === '{name}'")
    tab.until("!document.querySelector('#jupyterlab-splash')")


def main(arguments: list[str]) -> int:
    """Exit code: 0 iff everything is as it should be."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        print("NOT RUN: there is no Firefox (Debian: sudo apt-get install firefox-esr)")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with server(home / "lab") as lab, started(program, home / "firefox") as tab:
            check(tab, lab, [Path(each).absolute() for each in arguments])
            print(f"Firefox {tab.version}: a question answered, the tree shown live and saved")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
