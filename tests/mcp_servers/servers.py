"""Agents with MCP servers, for tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_nb import Agent, Request, RunResult, ToolCall
from axe_nb.session.session import Session
from tests.engine.in_process import Stage
from tests.engine.in_process import agent as make_agent
from tests.node.packages import find_node, find_package
from tests.waiting import eventually

RAW = Path(__file__).with_name("raw_server.py").read_text("utf-8")


def raw(mode: str = "usual", **table: Any) -> dict[str, Any]:
    """The table of a server of the standard library, which starts at once."""
    return {"command": [sys.executable, "-I", "-S", "-c", RAW, mode], "start_timeout": 60, **table}


def everything(*words: str, **table: Any) -> dict[str, Any]:
    """The table of MCP's reference server, which has all that the protocol has."""
    program = find_package("@modelcontextprotocol/server-everything") / "dist" / "index.js"
    command = [str(find_node()), str(program), "stdio", *words]
    return {"command": command, "start_timeout": 120, **table}


@contextmanager
def stage() -> Iterator[Stage]:
    """A session of its own, whose servers end with the block."""
    found = Stage(Session(keeps_history=False))
    try:
        yield found
    finally:
        found.session.servers.close()


def caller(
    *calls: ToolCall | Callable[[Request], Any], name: str = "caller", **fields: Any
) -> Agent:
    """An agent in mode auto that makes one call in each turn, and then says the last results."""
    fields = {"mode": "auto", "mcp_servers": {"raw": raw()}, **fields}

    def model(request: Request) -> Any:
        if request.turn <= len(calls):
            made = calls[request.turn - 1]
            return made if isinstance(made, ToolCall) else made(request)
        return "\n".join(result.content for result in request.results)

    return make_agent(name, model, **fields)


def play(on: Stage, agent: Agent, **overrides: Any) -> RunResult:
    on.root = agent
    return on.play(**overrides)


def wait_until(condition: Callable[[], bool]) -> None:
    assert eventually(condition, 60), "it did not happen"


def processes_with(mark: str) -> list[int]:
    """The processes, in whatever sandbox, one of whose words has the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in words:
                found.append(int(folder.name))
    return found


def read_by(mark: str) -> int:
    """How many bytes these processes have read since they began."""
    lines = [Path(f"/proc/{pid}/io").read_text("utf-8") for pid in processes_with(mark)]
    return sum(int(text.split()[1]) for text in lines)  # rchar: 1234 …
