"""Runs in a real marimo: the live tree, the saved one, and a question answered in the cell."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Locator, Page, expect

from tests.conftest import not_run
from tests.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

NOTEBOOK = """\
import marimo
app = marimo.App()
@app.cell
async def _():
    import asyncio
    import axe_nb
    from tests.browser import browser_runs as runs
    first = axe_nb.run(runs.research(), "Check.")
    agent = runs.editor("Tuesday: calm, 3 visitors")
    second = axe_nb.run(agent, "Go.")
    both = await asyncio.gather(*(axe_nb.arun(agent, "Go.") for _ in range(2)))
    texts = [each.text for each in axe_nb.map(runs.writer(), ["one", "two"])]
"""


@pytest.fixture
def page(browser: Browser, tmp_path: Path, mode: str) -> Iterator[Page]:
    """The notebook, edited or run as an app."""
    if importlib.util.find_spec("marimo") is None:
        not_run("marimo is not installed; it is in the dependency group test")
    (tmp_path / "book.py").write_text(NOTEBOOK)
    settings = "[tool.marimo.runtime]\nauto_instantiate = true\n"  # as it does in an app
    (tmp_path / "pyproject.toml").write_text(settings)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "XDG_"))}
    environ = {**inherited, "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    options = ["--headless", "--no-token", "--host=127.0.0.1", f"--port={port}"]
    command = [sys.executable, "-m", "marimo", mode, *options, "book.py"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environ)
    page, errors = browser.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))

    def opens() -> bool:
        with suppress(Error):
            return page.goto(f"http://127.0.0.1:{port}") is not None
        return process.poll() is not None

    try:
        assert eventually(opens, 120)
        yield page
    finally:
        page.close()
        process.terminate()
        process.wait(20)
    assert errors == []


@pytest.mark.parametrize("mode", ["edit", "run"])
def test_marimo_shows_runs_live_and_its_editor_asks(page: Page, tmp_path: Path, mode: str) -> None:
    def row(name: str) -> Locator:
        return page.locator(f".axe-nb-tree details:has(> summary b:text-is('{name}'))").last

    expect(row("counter")).to_have_class(re.compile("axe-nb-running"), timeout=120_000)
    row("critic").locator("> summary").click()
    (tmp_path / "counter").touch()
    expect(row("counter")).to_have_class(re.compile("axe-nb-good"))
    expect(row("critic")).to_have_js_property("open", True)
    row("critic").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(row("counter")).to_have_js_property("open", True)
    for name in ("researcher", "critic"):
        (tmp_path / name).touch()
    told = page.locator("summary:has-text('completed')")
    expect(told.first).to_contain_text("lead script/lead · completed · 2 turns · 3 sub-agents")
    if mode == "edit":
        console = page.locator("[data-testid=console-output-area]")
        expect(console).to_contain_text("doc_writer (0.1) wants to call edit_file(")
        expect(row("edit_file").locator(".axe-nb-new")).to_have_text("+Tuesday: calm, 3 visitors")
        allow = page.locator(".axe-nb-answer[value=y]")
        allow.click()
        expect(allow).to_have_count(2)
        for answers in (1, 2):
            page.locator("[data-stdin-blocking]").fill("n")
            page.wait_for_timeout(300)  # in which a button would learn of the input
            expect(page.locator(".axe-nb-answer:enabled")).to_have_count(0)  # of another tree?
            page.keyboard.press("Enter")
            expect(console.get_by_text("n", exact=True)).to_have_count(answers)
    expect(page.locator("body")).to_contain_text("writer: 0 of 2 runs")
    is_changed = "3 visitors" in (tmp_path / "CHANGELOG.md").read_text()
    assert is_changed == (mode == "edit"), "the visitors of an app have no input"
    for name in ("text", "end"):
        (tmp_path / name).touch()
    expect(page.locator("body")).to_contain_text("writer: 2 of 2 runs, 0 failed")
    expect(told).to_have_count(4)  # what was displayed before stays
    expect(page.locator(".axe-nb-tree")).to_have_count(0)
