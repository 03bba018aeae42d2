"""The reference server of MCP, which others wrote, used by agents and killed while it works."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import axe_nb
from axe_nb import Agent, Request, call, script, script_server
from axe_nb.scripting.wire import Protocol
from axe_nb.session.session import session
from tests.mcp_servers.servers import everything, processes_with, wait_until
from tests.nb.kernels import started, text
from tests.protocols import PROTOCOLS, provider_of

pytestmark = [
    pytest.mark.req("D-46", "D-82"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

MARK = f"mark=every-{os.getpid()}"
CALLS = (
    call("all__get-sum", a=2, b=3),
    call("all__get-structured-content", location="Chicago"),
    call("all__get-tiny-image"),
    call("all__get-sum", a="two"),
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_its_tools_and_pictures_reach_a_model(protocol: Protocol, project: Path) -> None:
    seen: list[Request] = []

    @script("m")
    def model(request: Request) -> Any:
        seen.append(request)
        return list(CALLS) if request.turn == 1 else "done"

    agent = Agent(
        "a", f"{provider_of(protocol)}/m", mode="auto", mcp_servers={"all": everything()},
    )  # fmt: skip
    try:
        with script_server(protocol):
            result = axe_nb.run(agent, "go")
    finally:
        session.servers.close()
    assert result.ok, result.error
    offered = {tool.name for tool in seen[0].tools}
    assert {"all__echo", "all__get-sum", "all__trigger-long-running-operation"} <= offered
    total, structured, image, wrong = result.log[0].results
    assert total.content == "The sum of 2 and 3 is 5."
    assert "temperature" in json.loads(structured.content)
    assert (len(image.pictures), image.pictures[0].format) == (1, "PNG")
    assert seen[1].pictures == image.pictures
    assert wrong.is_error


CELLS = [
    "%load_ext axe_nb\nimport axe_nb, contextlib, os, signal, time\n"
    "from tests.mcp_servers.servers import processes_with, read_by, wait_until",
    """
@axe_nb.tool
def kill() -> str:
    "Kills the server while it works for the other call of the same turn."
    wait_until(lambda: read_by(MARK) > before)
    killed = processes_with(MARK)
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):  # it ended with the one before
            os.kill(pid, signal.SIGKILL)
    return f"killed: {len(killed) > 0}"

@axe_nb.script("m")
def model(request):
    global before
    if request.turn == 1:
        before = read_by(MARK)
        slow = axe_nb.call("all__trigger-long-running-operation", duration=60)
        return [slow, axe_nb.call("kill")]
    if request.turn == 2:
        return axe_nb.call("all__echo", message="started again")
    return request.last
""",
    """%%axe_agent a
model = "script/m"
mode = "auto"
tools = ["kill"]
mcp_servers = ["all"]
""",
    "%%axe a -o r\ngo",
    "%axe tools a",
]


def test_a_notebook_uses_it_while_it_is_killed_and_leaves_no_process(project: Path) -> None:
    settings = Path(os.environ["XDG_CONFIG_HOME"], "axe", "config.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text(tomli_w.dumps({"mcp_servers": {"all": everything(MARK)}}))
    with started(Path(sys.executable), project) as kernel:
        kernel.run(f"MARK = {MARK!r}")
        outputs = [text(kernel.run(cell)) for cell in CELLS]
        assert "exited during this call" in outputs[3]
        assert "killed: True" in outputs[3]
        assert "Echo: started again" in outputs[3]
        assert "all__get-tiny-image" in outputs[4]
        assert processes_with(MARK)
    wait_until(lambda: not processes_with(MARK))
