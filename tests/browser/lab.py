"""A real JupyterLab on loopback and a headless Chromium, for the browser tests and the benchmark.

Source: jupyter-facts.md §0, §2; goals.md "live view".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import nbformat
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip

QUIET = {
    "buildCheck": False,
    "disabledExtensions": {
        "@jupyterlab/apputils-extension:announcements": True,
        "@jupyterlab/extensionmanager-extension": True,
    },
}
"""What would phone home, or ask npm."""

TOKEN = "axe-nb-test"

EXTENSION = Path(__file__).parents[2] / "labextension"
"""The extension of JupyterLab, as the wheel has it."""

SIZE = {"width": 1280, "height": 900}
LIGHT = "JupyterLab Light"

CUT_OFF = re.compile("Error: Canceled future for [a-z_]+ message before replies were done\\n")
"""JupyterLab's word for a kernel that is closed while it still asks it something of its own."""

CLOSE_ALL = "() => [...window.jupyterapp.shell.widgets('main')].forEach(each => each.dispose())"

CONTRASTS = """
(selector) => {
  const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  function rgb(...layers) {
    context.clearRect(0, 0, 1, 1);
    for (const layer of layers) { context.fillStyle = layer; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  }
  function light(colour) {
    const [r, g, b] = colour.map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  const found = {};
  const walker = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.matches("[role=status]")) continue;
    const behind = [], ups = [];
    for (let up = element; up; up = up.parentElement) ups.push(getComputedStyle(up));
    for (const style of ups.toReversed()) behind.push(style.backgroundColor);
    const back = rgb(...behind), opacity = ups.reduce((all, s) => all * s.opacity, 1);
    const own = rgb(...behind, ups[0].color);
    const seen = own.map((c, i) => c * opacity + back[i] * (1 - opacity));
    const [dark, bright] = [light(seen), light(back)].sort((a, b) => a - b);
    found[text] = (bright + 0.05) / (dark + 0.05);
  }
  return found;
}
"""


@dataclass
class Server:
    """A JupyterLab server with a folder of its own."""

    folder: Path
    """Notebooks live here; cells run here."""
    url: str
    page: str = "lab/tree"
    """Path of the page that opens a notebook."""

    def clear(self) -> None:
        headers = {"Authorization": f"token {TOKEN}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=30) as client:
            for kernel in client.get("/api/kernels").raise_for_status().json():
                client.delete(f"/api/kernels/{kernel['id']}").raise_for_status()
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def server(home: Path, program: str = "jupyterlab", **env: str) -> Iterator[Server]:
    """JupyterLab, or the module of that name, on a free port; gone with its kernels at the end."""
    root, config = home / "notebooks", home / "config"
    root.mkdir(parents=True)
    (config / "labconfig").mkdir(parents=True)
    (home / "data" / "labextensions").mkdir(parents=True)
    (home / "data" / "labextensions" / "axe-nb").symlink_to(EXTENSION)
    (config / "labconfig" / "page_config.json").write_text(json.dumps(QUIET))
    places = {
        "JUPYTER_CONFIG_DIR": config, "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime", "IPYTHONDIR": home / "ipython",
        "JUPYTER_PREFER_ENV_PATH": "0",  # the extension of this checkout, not of its environment
        "HOME": home, "PYTHONPATH": Path(__file__).parents[2],
    }  # fmt: skip
    inherited = {k: v for k, v in os.environ.items() if k != "PYTEST_VERSION"}
    inherited["AXE_NB_RETRIES"] = "0"
    start = f"import runpy, tests.early; runpy.run_module({program!r}, run_name='__main__')"
    command = [
        sys.executable, "-c", start, "--no-browser", "--allow-root", "--ip=127.0.0.1",
        "--ServerApp.port=0", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={root}", "--expose-app-in-browser",
        "--LabApp.news_url=None", "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    environ = {**inherited, **{k: str(v) for k, v in places.items()}, **env}
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT)
        try:
            page = "notebooks" if program == "notebook" else "lab/tree"
            yield Server(root, _address(home, process), page)
        finally:
            process.terminate()
            process.wait(20)


def _address(home: Path, process: subprocess.Popen[bytes]) -> str:
    info = home / "runtime" / f"jpserver-{process.pid}.json"
    for _ in range(1800):
        if info.exists() and info.stat().st_size:
            return f"http://127.0.0.1:{json.loads(info.read_text())['port']}"
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("JupyterLab did not start:\n" + (home / "server.log").read_text()[-2000:])


@contextmanager
def started(chromium: str) -> Iterator[Browser]:
    """Debian's Chromium, without a window and with a fresh profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
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
    """Addresses outside the server that the page tried to reach; none of them is resolved."""
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    page: Page = field(init=False)
    is_loaded: bool = False
    """Whether JupyterLab is there already, so that a notebook is opened within it."""

    def __post_init__(self) -> None:
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.page.on("dialog", self._on_dialog)
        self.page.on("pageerror", lambda error: self.errors.append(f"{error}\n{error.stack}"))
        self.page.on("request", self._on_request)

    def _on_dialog(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":
            # JupyterLab asks where a notebook has changed since it was saved; a visitor leaves
            dialog.accept()
            return
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.requests.append(request.url)

    def open(self, notebook: nbformat.NotebookNode, name: str = "test.ipynb") -> None:
        """Writes the notebook and shows it, with a fresh kernel that is ready to run cells."""
        nbformat.write(notebook, self.server.folder / name)
        self.show(name)

    def show(self, name: str, *, kernel: bool = True) -> None:
        """Opens a notebook that is there, as a visitor would."""
        if self.is_loaded:
            self.page.evaluate(
                "path => { window.jupyterapp.commands.execute('docmanager:open', {path}) }", name
            )
        else:
            self.page.goto(f"{self.server.url}/{self.server.page}/{name}?token={TOKEN}&reset")
            self.is_loaded = True
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        if kernel:
            self.page.wait_for_function(
                "() => window.jupyterapp.shell.currentWidget?.sessionContext"
                "?.session?.kernel?.status === 'idle'"
            )

    def close(self) -> None:
        """Closes the window, then its kernels; the folder is empty afterwards."""
        self.page.close()
        self.server.clear()

    def tidy(self) -> None:
        """Closes what is open in the window, as if JupyterLab had just been loaded."""
        before = len(self.errors)
        self.page.evaluate(CLOSE_ALL)
        self.page.set_viewport_size(SIZE)
        if self.page.evaluate("() => document.body.dataset.jpThemeName") != LIGHT:
            self.theme(LIGHT)
        self.server.clear()
        assert self.page.locator(".jp-Notebook, .jp-Dialog").count() == 0
        self.forget_cut_off(before)

    def forget_cut_off(self, before: int) -> None:
        """Forgets what was said since then of a kernel that the test itself has ended."""
        self.errors[before:] = (e for e in self.errors[before:] if not CUT_OFF.match(e))

    def command(self, name: str) -> None:
        """Starts a command of JupyterLab; does not wait for its end."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)

    def run_all(self, *, wait: bool = True) -> None:
        """Runs every cell; waits until none is running unless told otherwise."""
        self.command("notebook:run-all-cells")
        if wait:
            self.finished()

    def finished(self, seconds: float = 60) -> None:
        self.page.wait_for_function(
            """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
                .every(prompt => /\\d/.test(prompt.textContent))""",
            timeout=seconds * 1000,
        )

    def ended(self, state: str = "completed") -> None:
        """Waits until the cells are done, and the saved tree of a run says so."""
        self.finished()
        self.page.wait_for_selector(f".jp-OutputArea summary >> text={state} >> visible=true")

    def theme(self, name: str) -> None:
        """JupyterLab Light or JupyterLab Dark."""
        self.page.evaluate(
            "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})",
            name,
        )
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        # JupyterLab removes its splash twice, with an error, if it is shown again before it is gone
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def gate(self, *names: str) -> None:
        for name in names:
            (self.server.folder / name).touch()

    def unfold(self) -> None:
        self.page.evaluate(
            "() => document.querySelectorAll('.jp-OutputArea details').forEach(e => e.open = true)"
        )

    def save(self, name: str = "test.ipynb") -> nbformat.NotebookNode:
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return nbformat.read(self.server.folder / name, as_version=4)

    def contrasts(self, selector: str) -> dict[str, float]:
        """Text → its contrast with what is behind it (WCAG), for every visible text."""
        found: dict[str, float] = self.page.evaluate(CONTRASTS, selector)
        return found
