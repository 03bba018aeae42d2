"""MCP servers in containers, with a program in the place of docker that starts what it is given."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import axe_nb
from axe_nb import Agent, call
from axe_nb.sandbox import process
from tests.mcp_servers.servers import raw

pytestmark = [
    pytest.mark.req("D-46", "D-82", "D-60"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a program for Linux"),
]

DOCKER = """#!/bin/sh
[ "$1" = image ] && exit 0
tr '\\0' '\\n' < /proc/$$/cmdline > FOLDER/arguments
env > FOLDER/environment
while [ "$1" != img ]; do shift; done
shift
exec "$@"
"""

SECRET = "s3cret-of-the-server"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where the stand-in notes its arguments and its environment."""
    program = tmp_path / "docker"
    program.write_text(DOCKER.replace("FOLDER", str(tmp_path)))
    program.chmod(0o755)
    monkeypatch.setattr(process, "PROGRAM_FOLDERS", (str(tmp_path),))
    return tmp_path


def test_the_variables_of_a_server_are_not_among_the_arguments_of_docker(
    stand_in: Path, project: Path
) -> None:
    @axe_nb.script("lead")
    def lead(request: axe_nb.Request) -> object:
        return call("raw__environ") if request.turn == 1 else request.results[0].content

    own = {"SERVER_KEY": SECRET, "DOCKER_PASSWORD": SECRET, "PLACE": "Ulm", "LD_LIBRARY_PATH": "/x"}
    servers = {"raw": raw(sandbox="docker:img", env=own)}
    agent = Agent("lead", "script/lead", mcp_servers=servers, mode="auto")
    found = json.loads(axe_nb.run(agent, "go", display=False).log[0].results[0].content)
    assert found["PLACE"] == "Ulm"
    assert "SERVER_KEY" in found
    arguments = (stand_in / "arguments").read_text().split("\n")
    assert SECRET not in "\n".join(arguments)
    for name in ("SERVER_KEY", "DOCKER_PASSWORD", "PLACE"):
        assert arguments[arguments.index(name) - 1] == "--env"
    environment = (stand_in / "environment").read_text()
    assert f"SERVER_KEY={SECRET}\n" in environment
    assert "LD_LIBRARY_PATH=/x" in arguments, "which would change the client"
    assert "LD_LIBRARY_PATH=/x" not in environment.split("\n")
    assert SECRET not in os.environ.values()
