"""Nothing is left of a server, however its session ends; a real one, killed while it is asked."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tomli_w

from axe_nb import call
from tests.engine.in_process import heard, texts
from tests.mcp_servers.servers import RAW, caller, play, processes_with, stage, wait_until
from tests.nb.kernels import started, text

pytestmark = [
    pytest.mark.req("D-46", "D-82"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

MARK = f"mark=axe-{os.getpid()}"
TIME = {
    "command": [sys.executable, "-X", MARK, "-m", "mcp_server_time"],
    "start_timeout": 120,
    "read_only": True,
}
CONVERT = call(
    "time__convert_time", source_timezone="Europe/Berlin", time="12:00",
    target_timezone="Asia/Tokyo",
)  # fmt: skip

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
        code = SCRIPT.format(mark=mark, raw=RAW, sandbox=sandbox, end=end)
        folder = tmp_path / str(count)
        folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        running.append((process, mark, sandbox))
    for process, mark, sandbox in running:
        out, _ = process.communicate(timeout=240)
        assert out == "done None\n"
        if sandbox == "auto":
            wait_until(lambda mark=mark: not processes_with(mark))  # type: ignore[misc]
        else:  # what it started itself in a session of its own is out of reach
            wait_until(lambda mark=mark: not processes_with(f"usual\0{mark}"))  # type: ignore[misc]
        for left in processes_with(mark):
            os.kill(left, signal.SIGKILL)


def test_a_real_server_that_is_killed_while_it_is_asked() -> None:
    with stage() as on:

        def find() -> list[int]:
            found = processes_with(MARK)
            return [pid for pid in found if b"bwrap" not in name_of(pid)]

        def send(number: int) -> None:
            for pid in find():
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, number)

        def is_killed_in_a_call() -> bool:
            on.root = caller(CONVERT, CONVERT, mcp_servers={"time": TIME})
            assert play(on, on.root).status == "completed"
            send(signal.SIGSTOP)
            timer = threading.Timer(2, lambda: send(signal.SIGKILL))
            timer.start()
            result = play(on, on.root)
            timer.join()
            [first], [second] = heard(result, 0), heard(result, 1)
            assert "T20:00:00+09:00" in second.content, "it was started again"
            return first.is_error and "exited during this call" in first.content

        wait_until(is_killed_in_a_call)  # it may be killed before it is asked
        assert texts(play(on, caller(CONVERT, mcp_servers={"time": TIME})))
    wait_until(lambda: not find())


def name_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return b""


CELLS = [
    "%load_ext axe_nb\nimport axe_nb, os, sys",
    """
@axe_nb.script("clock")
def model(request):
    if request.turn == 1:
        return axe_nb.call("time__convert_time", source_timezone="Europe/Berlin", time="12:00",
                           target_timezone="Asia/Tokyo")
    return "In Tokyo: " + request.results[0].content
""",
    """%%axe_agent clock
model = "script/clock"
mcp_servers = ["time"]
""",
    "%%axe clock\nWhat time is it in Tokyo?",
    "%axe tools clock",
]


def test_a_notebook_uses_a_real_server_of_the_settings(project: Path) -> None:
    settings = Path(os.environ["XDG_CONFIG_HOME"], "axe", "config.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text(tomli_w.dumps({"mcp_servers": {"time": TIME}}))
    with started(Path(sys.executable), project) as kernel:
        outputs = [text(kernel.run(cell)) for cell in CELLS]
        assert "T20:00:00+09:00" in outputs[3]
        assert "time__convert_time" in outputs[4]
        assert "Convert time between timezones" in outputs[4]
        assert processes_with(MARK)
    wait_until(lambda: not processes_with(MARK))
