"""Debian's Firefox over WebDriver BiDi: what a few checks need of it, and no more.

Playwright drives a Firefox of its own only. Source: the W3C's WebDriver BiDi.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import websocket  # comes with jupyter-server

NOWHERE = 9
"""The discard port: a proxy at which nobody listens. Addresses on loopback need none."""

PREFERENCES = {
    "app.update.auto": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": NOWHERE,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": NOWHERE,
    "network.proxy.type": 1,
    "remote.prefs.recommended": True,
}
"""Nothing leaves this machine, and no window of the browser's own opens."""

ADDRESS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")

PATIENCE = 60
"""Seconds; what takes longer hangs."""


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
        """Ends the session; the process is its owner's."""
        self._socket.close()

    def show(self, address: str, width: int = 1280, height: int = 900) -> None:
        """Loads a page."""
        size = {"width": width, "height": height}
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
        self._act({"type": "pointer", "id": "mouse", "actions": moves})

    def press(self, key: str) -> None:
        """Presses a key: a letter, or one of WebDriver's codes."""
        taps = [{"type": name, "value": key} for name in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keys", "actions": taps})

    def _act(self, actions: dict[str, Any]) -> None:
        self._send("input.performActions", context=self._tab, actions=[actions])

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
        with closing(Firefox(_address(process, log))) as tab:
            yield tab
    finally:
        process.terminate()
        process.wait(20)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        if found := ADDRESS.search(log.read_text("utf-8", "replace")):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError("Firefox did not start:\n" + log.read_text("utf-8", "replace")[-2000:])
