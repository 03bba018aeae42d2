"""A real JupyterLab on loopback and a headless Chromium, for the browser tests and the benchmark.

Source: jupyter-facts.md §0, §2; goals.md "live view".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

QUIET = {
    "disabledExtensions": {
        "@jupyterlab/apputils-extension:announcements": True,
        "@jupyterlab/extensionmanager-extension": True,
    }
}
"""What would phone home."""

TOKEN = "axe-nb-test"


@dataclass
class Server:
    """A JupyterLab server with a folder of its own."""

    folder: Path
    """Notebooks live here; cells run here."""
    url: str


@contextmanager
def server(home: Path, **env: str) -> Iterator[Server]:
    """JupyterLab on a free port, gone with its kernels at the end."""
    root, config = home / "notebooks", home / "config"
    root.mkdir(parents=True)
    (config / "labconfig").mkdir(parents=True)
    (config / "labconfig" / "page_config.json").write_text(json.dumps(QUIET))
    places = {
        "JUPYTER_CONFIG_DIR": config, "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime", "IPYTHONDIR": home / "ipython",
        "HOME": home,
    }  # fmt: skip
    inherited = {k: v for k, v in os.environ.items() if k != "PYTEST_VERSION"}
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
        "--ServerApp.port=0", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={root}", "--expose-app-in-browser",
        "--LabApp.news_url=None", "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**inherited, **{k: str(v) for k, v in places.items()}, **env},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield Server(root, _address(home, process))
        finally:
            process.terminate()
            process.wait(20)


def _address(home: Path, process: subprocess.Popen[bytes]) -> str:
    info = home / "runtime" / f"jpserver-{process.pid}.json"
    for _ in range(600):
        if info.exists() and info.stat().st_size:
            return f"http://127.0.0.1:{json.loads(info.read_text())['port']}"
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("JupyterLab did not start:\n" + (home / "server.log").read_text()[-2000:])


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium with a fresh profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Lab:
    """One browser window on one server; knows what the page did."""

    server: Server
    context: BrowserContext
    requests: list[str] = field(default_factory=list)
    """Addresses outside the server that the page tried to reach; all of them are refused."""
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    page: Page = field(init=False)

    def __post_init__(self) -> None:
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("dialog", self._on_dialog)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.context.route("**/*", self._route)

    def _on_dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _route(self, route: Any) -> None:
        if route.request.url.startswith((self.server.url, "data:", "blob:")):
            route.continue_()
            return
        self.requests.append(route.request.url)
        route.abort()

    def write(self, name: str, *cells: str) -> Path:
        """A notebook of code cells on disk."""
        notebook = nbformat.v4.new_notebook()
        notebook.metadata["kernelspec"] = {
            "name": "python3", "display_name": "Python 3", "language": "python"
        }  # fmt: skip
        notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        path = self.server.folder / name
        nbformat.write(notebook, path)
        return path

    def open(self, name: str, *, kernel: bool = True) -> None:
        """Shows the notebook in a workspace of its own."""
        stem = name.removesuffix(".ipynb")
        self.page.goto(f"{self.server.url}/lab/workspaces/{stem}/tree/{name}?token={TOKEN}&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        if kernel:
            self.page.wait_for_function(
                "() => window.jupyterapp.shell.currentWidget?.sessionContext"
                "?.session?.kernel?.status === 'idle'"
            )

    def command(self, name: str) -> None:
        """Starts a command of JupyterLab; does not wait for its end."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)

    def run_all(self, *, wait: bool = True) -> None:
        """Runs every cell; waits until none is running unless told otherwise."""
        self.command("notebook:run-all-cells")
        if wait:
            self.finished()

    def finished(self, seconds: float = 60) -> None:
        """Waits until every code cell has been executed."""
        self.page.wait_for_function(
            """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
                .every(prompt => /\\d/.test(prompt.textContent))""",
            timeout=seconds * 1000,
        )

    def theme(self, name: str) -> None:
        """JupyterLab Light or JupyterLab Dark."""
        self.page.evaluate(
            "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})",
            name,
        )
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)

    def save(self, name: str) -> nbformat.NotebookNode:
        """The notebook as JupyterLab writes it."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return nbformat.read(self.server.folder / name, as_version=4)
