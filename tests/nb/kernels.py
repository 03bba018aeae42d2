"""A real kernel to run cells in, of whichever Python is given."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from jupyter_client import KernelManager
from jupyter_client.blocking import BlockingKernelClient

LONGEST_CELL = 120.0
"""Seconds."""

WIDGET = "application/vnd.jupyter.widget-view+json"

Output = dict[str, Any]


class Kernel:
    """One running kernel; `run` executes a cell as a notebook would."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client
        self.cell = ""
        """The last cell, as messages name it."""
        self.spoilt = False
        """A test did to it what cannot be taken back: it is not used for another."""
        self.payload: list[Output] = []
        """What the last cell asked the front end to do."""

    def run(
        self,
        code: str,
        *,
        live: bool = False,
        interrupt_after: float | None = None,
        answers: Iterable[str] = (),
    ) -> list[Output]:
        """The cell's outputs in order: message type and content of each.

        If it is `live`, a person sits in front of it, who types `answers`. The kernel is
        interrupted after so many seconds, and again where the cell goes on for five more.
        """
        typed, self.asked = iter(answers), list[str]()
        self.cell = asked = self._client.execute(code, allow_stdin=live)
        outputs: list[Output] = []
        started = time.monotonic()
        self.interrupted_at = 0.0
        while time.monotonic() - started < LONGEST_CELL:
            late = time.monotonic() - started
            if interrupt_after is not None and late > interrupt_after:
                interrupt_after = late + 5.0
                self.interrupted_at = self.interrupted_at or time.monotonic()
                self._manager.interrupt_kernel()
            if live:  # the next answer, if the cell has asked and there is one
                with contextlib.suppress(queue.Empty, StopIteration):
                    question = self._client.get_stdin_msg(timeout=0)
                    self.asked.append(question["content"]["prompt"])
                    self._client.input(next(typed))
            try:
                message = self._client.get_iopub_msg(timeout=0.02)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                self.idle_at = time.monotonic()
                self.payload = self._reply(asked).get("payload", [])
                return outputs
            last = outputs[-1] if outputs else {}
            if kind == last.get("type") == "stream" and content["name"] == last["name"]:
                last["text"] += content["text"]  # as front ends do
            elif kind not in ("status", "execute_input"):
                outputs.append({"type": kind, **content})
        raise TimeoutError(f"the cell did not end within {LONGEST_CELL} s: {code[:80]}")

    def later(self, seconds: float) -> list[Output]:
        """What comes on its own within the time, each with the cell that it is said of."""
        outputs: list[Output] = []
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                message = self._client.get_iopub_msg(timeout=left)
                of = message["parent_header"].get("msg_id")
                if message["msg_type"] != "status":
                    outputs.append({"type": message["msg_type"], "of": of, **message["content"]})
        return outputs

    def _reply(self, asked: str) -> dict[str, Any]:
        while True:
            reply = self._client.get_shell_msg(timeout=LONGEST_CELL)
            if reply["parent_header"].get("msg_id") == asked:
                return dict(reply["content"])

    def page(self) -> str:
        """What the last cell put in the pager, as `?` does."""
        [page] = [entry["data"]["text/plain"] for entry in self.payload]
        return re.sub(r"\x1b\[[0-9;]*m", "", page)

    def next_cell(self) -> str:
        [text] = [entry["text"] for entry in self.payload]
        return str(text)

    def complete(self, code: str, at: int | None = None) -> list[str]:
        """The text up to the cursor (default: the end) with each word that Tab offers there."""
        at = len(code) if at is None else at
        content = self._reply(self._client.complete(code, at))
        start = content["cursor_start"]
        return [code[:start] + match for match in content["matches"]]


UNLOAD = """\
_shell = get_ipython()
_magics = _shell.magics_manager.registry.pop("AxeMagics", None)
if _magics is not None:
    _shell.configurables.remove(_magics)
    for _kind in ("line", "cell"):
        for _name in ("axe", "axe_agent", "axe_grid"):
            _shell.magics_manager.magics[_kind].pop(_name, None)
    from axe_nb.session.session import session
    session.keeps_history = True
_shell.extension_manager.loaded.discard("axe_nb")
_shell.config.pop("AxeMagics", None)
"""
"""Makes a kernel forget the extension, which has no way to be unloaded."""

RENEW = f"""
import os, sys
{UNLOAD}
if "axe_nb" in sys.modules:
    from axe_nb.session.session import session
    session.use_cassette(None)
    for _table in (*vars(session).values(), session.tools.tools):
        if isinstance(_table, dict):
            _table.clear()
    session.last, session.budget = None, type(session.budget)()
for name in os.environ.keys() - {{ENVIRON!r}}.keys():
    if not name.startswith("JPY_"):
        del os.environ[name]
os.environ.update({{ENVIRON!r}})
os.chdir({{FOLDER!r}})
_shell.reset(new_session=False)
"""
"""Makes a kernel like a new one in another folder."""


class Kernels:
    """One kernel for each Python, started when first asked for and renewed for each test."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self._running: dict[Path, Kernel] = {}

    def at(self, python: Path, folder: Path) -> Kernel:
        """A kernel of `python` whose current folder is `folder`, with nothing of earlier tests."""
        running = self._running.get(python)
        if running is None or running.spoilt:
            running = self._running[python] = self._ends.enter_context(started(python, folder))
        else:
            left = running.run(RENEW.format(ENVIRON=dict(os.environ), FOLDER=str(folder)))
            assert left == [], text(left)
        return running


@contextmanager
def started(python: Path, folder: Path) -> Iterator[Kernel]:
    """A new kernel of `python` whose current folder is `folder`; ended on the way out."""
    with tempfile.TemporaryDirectory(prefix="kernel") as sockets:
        # a port that was free may be taken by another worker before the kernel takes it
        manager = KernelManager(transport="ipc", ip=f"{sockets}/socket")
        manager.kernel_spec.argv = [
            str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"
        ]  # fmt: skip
        manager.start_kernel(cwd=str(folder))
        client = manager.blocking_client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=LONGEST_CELL)
            yield Kernel(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()


def text(outputs: list[Output]) -> str:
    """What the outputs say in plain text, one after another."""
    said: list[str] = []
    for output in outputs:
        if "data" in output:
            said.append(output["data"].get("text/plain", ""))
        elif output["type"] in ("stream", "error"):
            said.append(output.get("text") or "\n".join(output["traceback"]))
    return "\n".join(said)


def kinds(outputs: list[Output]) -> list[str]:
    """Types of the messages, each once, in order of first use."""
    return list(dict.fromkeys(output["type"] for output in outputs))


def shown(outputs: list[Output]) -> list[Output]:
    """Data of what was displayed, updates too."""
    return [o["data"] for o in outputs if o["type"] in ("display_data", "update_display_data")]


def contents(outputs: list[Output]) -> list[Any]:
    """What a live tree or table told the browser, in order: snapshots and news."""
    told = []
    for output in outputs:
        data = output.get("data", {})
        if data.get("method") == "custom":
            told.append(data["content"])
        elif "snapshot" in data.get("state", {}):
            told.append(json.loads(data["state"]["snapshot"]))
    return told


def write_agents(
    project: Path, scripts: Mapping[str, str], provider: str = "script", **more: str
) -> None:
    """Writes scripts, and an agent for each; `more` has further lines of agents."""
    (project / "axe" / "scripts").mkdir(exist_ok=True)
    for name in {**scripts, **more}:
        (project / "axe" / "agents" / f"{name}.toml").write_text(
            f'name = "{name}"\nmodel = "{provider}/{name}"\n{more.get(name, "")}', "utf-8"
        )
    for name, script in scripts.items():
        (project / "axe" / "scripts" / f"{name}.toml").write_text(script, "utf-8")
