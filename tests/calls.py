"""Calls tools as the loop does, with a context of a run that stands alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from axe_nb import builtin
from axe_nb.agents.agent import Agent
from axe_nb.messages import ToolCall
from axe_nb.results import RunResult
from axe_nb.tools.tool import (
    FileLog,
    Guard,
    Job,
    Tool,
    ToolContext,
    ToolError,
    cut_output,
    output_of,
)

APPROVED = Guard(floor="ask", reason="a person was asked")
"""The guard of a call that someone approved, so that commands run without a sandbox too."""


def tool(name: str) -> Tool:
    """The built-in tool of this name."""
    found = builtin.SOURCE.find(name)
    assert found is not None
    return found


async def no_child(job: Job) -> RunResult:
    raise AssertionError("no test of a tool starts a child here")


def context(workdir: Path, file_log: FileLog | None = None, raw: str = "") -> ToolContext:
    return ToolContext(
        call=ToolCall("call_1", "a_tool", {}, raw),
        agent=Agent(name="tester", model="script/tester"),
        depth=0,
        max_depth=3,
        workdir=workdir,
        file_log=file_log or FileLog(),
        start=no_child,
        allows_host=lambda _: True,  # as in mode auto
    )


async def answer(
    tool: Tool, workdir: Path, arguments: dict[str, Any], file_log: FileLog | None = None
) -> str:
    """The tool's text. Raises ToolError where it fails, and nothing else."""
    ctx = replace(context(workdir, file_log), guard=APPROVED)
    output = output_of(await tool.fn(ctx, arguments))
    assert not output.is_error
    return cut_output(output.content)


def run(tool: Tool, workdir: Path, file_log: FileLog | None = None, **arguments: Any) -> str:
    return asyncio.run(answer(tool, workdir, arguments, file_log))


def failure(tool: Tool, workdir: Path, file_log: FileLog | None = None, **arguments: Any) -> str:
    """The text of the tool's error; a call that works is a failure here."""
    try:
        output = run(tool, workdir, file_log, **arguments)
    except ToolError as error:
        return str(error)
    raise AssertionError(f"no error, but: {output[:500]}")
