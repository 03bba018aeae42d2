"""Calls tools as the loop does, with a context of a run that stands alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.events import RunResult
from axe_nb.messages import ToolCall
from axe_nb.tools.output import limited, output_of
from axe_nb.tools.tool import Job, Ledger, Tool, ToolContext, ToolError


async def no_child(job: Job) -> RunResult:
    raise AssertionError("no test of a tool starts a child here")


def context(workdir: Path, ledger: Ledger | None = None, raw: str = "") -> ToolContext:
    return ToolContext(
        call=ToolCall("call_1", "a_tool", {}, raw),
        agent=Agent(name="tester", model="script/tester"),
        depth=0,
        max_depth=3,
        workdir=workdir,
        ledger=ledger or Ledger(),
        start=no_child,
    )


async def answer(
    tool: Tool, workdir: Path, arguments: dict[str, Any], ledger: Ledger | None = None
) -> str:
    """The tool's text. Raises ToolError where it fails, and nothing else."""
    output = limited(tool, output_of(await tool.fn(context(workdir, ledger), arguments)))
    assert not output.is_error
    return output.content


def run(tool: Tool, workdir: Path, ledger: Ledger | None = None, **arguments: Any) -> str:
    return asyncio.run(answer(tool, workdir, arguments, ledger))


def failure(tool: Tool, workdir: Path, ledger: Ledger | None = None, **arguments: Any) -> str:
    """The text of the tool's error; a call that works is a failure here."""
    try:
        output = run(tool, workdir, ledger, **arguments)
    except ToolError as error:
        return str(error)
    raise AssertionError(f"no error, but: {output[:500]}")
