"""`python -m tests.browser.firefox [DARK.png LIGHT.png]`: the live tree in JupyterLab in Firefox.

Debian's Firefox is driven over the W3C's WebDriver BiDi, as Playwright drives a Firefox of its own
only. No part of `python3 tests`: Firefox and a JupyterLab of its own take about 20 seconds.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import nbformat
import websocket  # comes with jupyter-server

from tests.browser.lab import TOKEN, Server, server
from tests.browser.live_tree import RUNS
from tests.views.runs import code

PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.type": 1,
    "remote.prefs.recommended": True,
}
"""Nothing leaves this machine (the proxy is the discard port), and no window of its own opens."""

ADDRESS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")

PATIENCE = 60
"""Seconds; what takes longer hangs."""

CELL = f"{RUNS}; r = axe_nb.run(editor('Tuesday: calm, 3 visitors'), 'Go.')"

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


class Firefox:
    """One tab. Errors of the page and lines of its console are kept."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(
            f"{address}/session", timeout=PATIENCE, suppress_origin=True
        )
        self._number = 0
        self.errors: list[str] = []
        """What the page threw and nobody caught."""
        self.version = self._send("session.new", capabilities={})["capabilities"]["browserVersion"]
        self._send("session.subscribe", events=["log.entryAdded"])
        self._tab = self._send("browsingContext.create", type="tab")["context"]

    def _send(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            said = json.loads(self._socket.recv())
            if said.get("method") == "log.entryAdded":
                entry = said["params"]
                if entry["type"] == "javascript" and entry["level"] == "error":
                    self.errors.append(entry["text"])
            if said.get("id") == self._number:
                if said["type"] == "error":
                    raise RuntimeError(f"{method}: {said['error']}: {said['message']}")
                return said["result"]

    def close(self) -> None:
        self._socket.close()

    def show(self, address: str) -> None:
        size = {"width": 1280, "height": 900}
        self._send("browsingContext.setViewport", context=self._tab, viewport=size)
        self._send("browsingContext.navigate", context=self._tab, url=address, wait="complete")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression, which JSON can hold; promises are awaited."""
        found = self._send(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._tab},
            awaitPromise=True,
        )
        if found["type"] == "exception":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"].get("value", "null"))

    def until(self, expression: str) -> None:
        """Waits until the expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.ask(f"Boolean({expression})"):
            if time.monotonic() > until:
                raise TimeoutError(f"not true after {PATIENCE} s: {expression}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Clicks the middle of the first such element, as a person would."""
        at = self.ask(
            f"(e => {{ e.scrollIntoView({{block: 'nearest'}}); const b = e.getBoundingClientRect();"
            "return [Math.round(b.x + b.width / 2), Math.round(b.y + b.height / 2)]; })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        moves = [{"type": "pointerMove", "x": at[0], "y": at[1]}]
        moves += [{"type": name, "button": 0} for name in ("pointerDown", "pointerUp")]
        actions = [{"type": "pointer", "id": "mouse", "actions": moves}]
        self._send("input.performActions", context=self._tab, actions=actions)

    def picture(self, path: Path) -> None:
        """Saves the window as PNG."""
        found = self._send("browsingContext.captureScreenshot", context=self._tab)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def started(program: str, home: Path) -> Iterator[Firefox]:
    """Firefox without a window, with a fresh profile in that folder; gone at the end."""
    profile = home / "profile"
    profile.mkdir(parents=True)
    lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in PREFERENCES.items())
    (profile / "user.js").write_text("".join(lines))
    command = [
        program, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port=0"
    ]  # fmt: skip
    log = home / "firefox.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors)
    try:
        until, found = time.monotonic() + PATIENCE, None
        while found is None:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"Firefox did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
            found = ADDRESS.search(log.read_text("utf-8", "replace"))
        with closing(Firefox(found[1])) as tab:
            yield tab
    finally:
        process.terminate()
        process.wait(20)


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
    # the marker of a fold is the browser's own
    assert abs(min(live) - min(saved)) <= 2, f"names begin at {live} live, {saved} saved"
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
    program = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
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
