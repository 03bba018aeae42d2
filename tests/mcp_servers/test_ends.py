"""Nothing is left of a server, however its process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp_servers.servers import RAW, processes_with, wait_until

pytestmark = [
    pytest.mark.req("D-46", "D-82"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

SCRIPT = """
import os, signal, sys
import axe_nb

@axe_nb.script("a")
def model(request):
    if request.turn == 1:
        return axe_nb.call("raw__spawn", text={mark!r})
    return "done"

table = {{"command": [sys.executable, "-I", "-S", "-c", {raw!r}, "usual", {mark!r}],
         "sandbox": {sandbox!r}, "start_timeout": 120}}
agent = axe_nb.Agent("a", "script/a", mcp_servers={{"raw": table}}, mode="auto")
result = axe_nb.run(agent, "go", display=False)
print(result.text, result.error, flush=True)
{end}
"""


def test_a_process_that_ends_in_whatever_way_leaves_no_server(tmp_path: Path) -> None:
    ends = {
        ("auto", "pass"),
        ("auto", "os.kill(os.getpid(), signal.SIGKILL)"),
        ("off", "os.kill(os.getpid(), signal.SIGKILL)"),
    }
    running = []
    for count, (sandbox, end) in enumerate(sorted(ends)):
        mark = f"end-{os.getpid()}-{count}-"
        words = [sys.executable, "-c", SCRIPT.format(mark=mark, raw=RAW, sandbox=sandbox, end=end)]
        folder = tmp_path / str(count)
        folder.mkdir()
        process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
        running.append((process, mark, sandbox))
    for process, mark, sandbox in running:
        out, _ = process.communicate(timeout=240)
        assert out == "done None\n"
        # what it started itself in a session of its own is out of reach without a sandbox
        words = mark if sandbox == "auto" else f"usual\0{mark}"
        wait_until(lambda words=words: not processes_with(words))  # type: ignore[misc]
        for left in processes_with(mark):
            os.kill(left, signal.SIGKILL)
