"""A hostile repository is cloned, and its notebook is run in JupyterLab by a person who says no."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hostile_repository import check, clone, set_traps

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.lab import Lab

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="needs links"),
]

IS_DONE = """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
  .every(prompt => /\\d/.test(prompt.textContent))"""


def refuse_all(lab: Lab) -> list[str]:
    """Says no to whatever a cell asks, until every cell has run; returns the questions."""
    asked: list[str] = []
    end = time.monotonic() + 240
    while not lab.page.evaluate(IS_DONE):
        assert time.monotonic() < end, f"not done; asked so far: {asked}"
        field = lab.page.query_selector(".jp-Stdin-input")
        if field is None:
            lab.page.wait_for_timeout(100)
            continue
        asked.append(field.evaluate("field => field.parentElement.innerText"))
        field.fill("n")
        field.press("Enter")
        field.wait_for_element_state(
            "hidden"
        )  # the answered one goes before the next is looked for
    return asked


@pytest.mark.req("D-50", "D-83", "D-53", "D-81")
def test_a_hostile_repository_does_no_harm_live(tmp_path: Path, browser: Browser) -> None:
    from tests.browser.lab import SIZE, Lab, server

    with set_traps(tmp_path) as traps:
        environ = traps.environ()
        environ.pop("PYTEST_VERSION", None)  # a person watches
        with server(tmp_path / "lab", **environ) as jupyter:
            folder = jupyter.folder / "clone"
            clone(traps, folder)
            before = traps.fingerprint()
            visitor = browser.new_context(viewport=SIZE)
            lab = Lab(jupyter, visitor)
            lab.page.set_default_timeout(25_000)
            lab.show("clone/start.ipynb")
            assert traps.ran() == [], "opening it runs nothing"
            lab.run_all(wait=False)
            asked = refuse_all(lab)
            notebook = lab.save("clone/start.ipynb")
            check(traps, before, f"{notebook.cells} {asked}", folder)
            assert lab.requests == []
            assert lab.dialogs == []
            visitor.close()
        assert any("write_file" in question for question in asked)
        assert any("and run its agents as they are written?" in question for question in asked)
