"""A cell whose run is shown live, and the rows of its tree."""

from __future__ import annotations

from tests.browser.lab import Lab
from tests.views.runs import code

RUNS = "import axe_nb; from tests.browser.browser_runs import *"

RESEARCH = f"{RUNS}; r = axe_nb.run(research(), 'Check.')"

BACKGROUND = f"%load_ext axe_nb\n{RUNS}\nagent = axe_nb.define(research())"
"""The cell before one that runs `lead` in the background."""

BUDGET = f"""{RUNS}; from axe_nb.session.session import session
session.budget.set(0.05)
r = axe_nb.run(spender(), "Go.")"""
"""A run that asks for more than the budget."""


def start(lab: Lab, source: str) -> None:
    """Runs the cell, up to the first gate."""
    lab.open(code(source))
    lab.run_all(wait=False)
    lab.page.wait_for_selector(".axe-nb-tree .axe-nb-row")


def row(lab: Lab, name: str) -> str:
    return f"details.axe-nb-row:has(> summary b:text-is('{name}'))"


def answer(lab: Lab, name: str) -> None:
    """Lets the agent of that name answer, and waits until its row says that it has."""
    lab.gate(name)
    lab.page.wait_for_selector(f"{row(lab, name)}.axe-nb-good", state="attached")
