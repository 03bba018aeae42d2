"""The extension of JupyterLab: prompts as Markdown, agents as TOML, in a real notebook."""

from __future__ import annotations

import importlib.util

import pytest
from playwright.sync_api import BrowserContext

from tests.browser.lab import Lab, server
from tests.conftest import not_run
from tests.views.runs import code

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

PROMPT = "%%axe lead -m script/x\n# Title of {{ topic }}\n- don't **guess** {{2}} or \\{{ topic }}"
AGENT = """%%axe_agent lead
# why
model = "script/x"
system_prompt = \"""
It's {{ tone }}, {{ 1 + n }}.\""\"
"""
PYTHON = "# why\n%axe list\nfound = %axe run lead x\n'{{ topic }}'"
GRID = "%%time\n\n%%axe_grid lead --raw\n# {{ topic }}"

ASKS = """\
# asks
import axe_nb; from tests.browser.browser_runs import *
r = axe_nb.run(editor("Tuesday: calm, 3 visitors"), "Go.")"""

TYPE_OF = {"prompt": "text/x-axe-prompt", "agent": "text/x-axe-agent", "code": "text/x-ipython"}

COLOURS = """
index => {
  const root = document.querySelectorAll(".jp-CodeCell .cm-content")[index];
  const names = {
    "mirror-editor-header": "heading", "mirror-editor-comment": "comment",
    "mirror-editor-string": "string", "mirror-editor-property": "key",
  };
  const probe = root.appendChild(document.createElement("i"));
  const known = {};
  for (const [name, called] of Object.entries(names)) {
    probe.style.color = `var(--jp-${name}-color)`;
    known[getComputedStyle(probe).color] = called;
  }
  probe.remove();
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data;
    if (!text.trim()) continue;
    const mark = element.closest(".axe-nb-magic, .axe-nb-options, .axe-nb-slot");
    const ours = mark?.className.match(/axe-nb-(\\w+)/)[1];
    found.push([ours ?? known[getComputedStyle(element).color] ?? "", text]);
  }
  return found;
}
"""
"""Index of a code cell -> (what it is shown as, text) for its pieces in order."""

TYPES = "() => jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.mimeType)"


def shown_as(lab: Lab, index: int, kind: str) -> str:
    found = lab.page.evaluate(COLOURS, index)
    return " ".join("".join(text if name == kind else "\n" for name, text in found).split())


def shows(lab: Lab, *kinds: str) -> None:
    """Waits until the cells have these types, and the editors their languages."""
    wanted = [TYPE_OF[kind] for kind in kinds]
    lab.page.wait_for_function(f"wanted => String(({TYPES})()) === String(wanted)", arg=wanted)
    for index, kind in enumerate(kinds):
        # "# …" is a heading of Markdown, and a comment of both other languages
        lab.page.wait_for_function(
            f"([index, kind]) => ({COLOURS})(index)"
            ".some(([name, text]) => name === kind && text.startsWith('#'))",
            arg=[index, "heading" if kind == "prompt" else "comment"],
        )


def write(lab: Lab, index: int, text: str) -> None:
    lab.page.locator(".jp-CodeCell .cm-content").nth(index).click()
    lab.page.keyboard.press("Control+a")
    lab.page.keyboard.press("Delete")
    lab.page.keyboard.insert_text(text)


def test_bodies_are_shown_as_what_they_are_from_the_opening_on(lab: Lab) -> None:
    lab.open(code(PROMPT, AGENT, PYTHON, GRID))
    shows(lab, "prompt", "agent", "code", "prompt")
    for index, kind, text in (
        (0, "magic", "%%axe"), (0, "options", "lead -m script/x"), (0, "heading", "# Title of"),
        (0, "slot", "{{ topic }}"),
        (0, "string", ""),  # an apostrophe in a prompt begins no string
        (1, "magic", "%%axe_agent"), (1, "key", "model system_prompt"),
        (1, "string", '"script/x" """It\'s , {{ 1 + n }}."""'), (1, "slot", "{{ tone }}"),
        (2, "magic", "%axe %axe"), (2, "options", "list run lead x"), (2, "slot", ""),
        (3, "magic", "%%axe_grid"),
        (3, "slot", ""),  # --raw replaces nothing
    ):  # fmt: skip
        assert shown_as(lab, index, kind) == text
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.theme(theme)
        marked = ("%%axe", "lead -m script/x", "{{ tone }}", "%%axe_agent")
        contrasts = lab.contrasts(".jp-Notebook")
        assert min(ratio for text, ratio in contrasts.items() if text in marked) >= 4.5
    saved = lab.save()
    assert [cell.source for cell in saved.cells] == [PROMPT, AGENT, PYTHON, GRID]
    assert not any("axe" in str(cell.metadata) for cell in saved.cells)


def test_tab_completes_in_cells_that_are_not_python(lab: Lab) -> None:
    agent = "import axe_nb; _ = axe_nb.define(axe_nb.Agent('lead-reader', 'script/x'))"
    lab.open(code(f"%load_ext axe_nb\ntopology = 1; {agent}", ""))
    lab.command("notebook:run-cell")
    lab.page.wait_for_function(
        "() => /1/.test(document.querySelector('.jp-InputPrompt').innerText)"
    )
    for text, offered in {
        "%%axe lead-": "lead-reader",
        "%%axe x --no-s": "--no-stream",
        "%%axe x\nIt isn't {{ topol": "topology",
        "%%axe_agent x\n[sub_agents_config.": "budget",
    }.items():
        write(lab, 1, text)
        lab.page.keyboard.press("Tab")
        lab.page.locator(f".jp-Completer:visible >> text={offered}").first.wait_for()
        lab.page.keyboard.press("Enter")
        source = "() => jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.source"
        lab.page.wait_for_function(f"text => ({source})().endsWith(text)", arg=offered)


def test_notebook_7_shows_them_too_and_a_live_tree_whose_button_answers(
    context: BrowserContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if importlib.util.find_spec("notebook") is None:
        not_run("notebook is not installed; it is in the dependency group test")
    with server(tmp_path_factory.mktemp("notebook"), "notebook") as running:
        lab = Lab(running, context)
        lab.open(code(PROMPT, AGENT, PYTHON, ASKS))
        shows(lab, "prompt", "agent", "code", "code")
        assert shown_as(lab, 0, "magic") == "%%axe"
        assert shown_as(lab, 0, "slot") == "{{ topic }}"
        assert shown_as(lab, 1, "key") == "model system_prompt"
        write(lab, 2, "%%axe lead\n# one")
        shows(lab, "prompt", "agent", "prompt", "code")
        lab.page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 3 }")
        lab.command("notebook:run-cell")
        button = lab.page.wait_for_selector(".axe-nb-question button:enabled")
        lab.gate("counter")
        button.click()
        lab.page.wait_for_selector(".jp-OutputArea summary >> text=completed >> visible=true")
        assert "calm, 3 visitors" in (lab.server.folder / "CHANGELOG.md").read_text()
        lab.close()
        assert (lab.requests, lab.dialogs) == ([], [])
        assert not any("axe" in error for error in lab.errors), "Notebook has some of its own"
