"""Tools that start a child when nothing can carry it out any more: they end, and say why."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request
from axe_nb.tools.tool import ToolContext


def asks_once(request: Request) -> Any:
    if request.agent == "child":
        return "from the child"
    last = request.messages[-1]
    return axe_nb.call("work") if last.role == "user" else request.last


def start_by_run(ctx: ToolContext) -> object:
    return axe_nb.run("child", "go", display=False).text


def start_by_arun(ctx: ToolContext) -> object:
    return asyncio.run(axe_nb.arun("child", "go", display=False)).text


def start_by_delegate(ctx: ToolContext) -> object:
    return asyncio.run(ctx.delegate("go", agent="child")).text


@pytest.mark.req("D-57")
@pytest.mark.parametrize("start", [start_by_run, start_by_arun, start_by_delegate])
@pytest.mark.parametrize("is_scheduled", [True, False])
def test_a_tool_that_starts_a_child_ends_where_the_loop_of_its_run_was_closed(
    start: Callable[[ToolContext], object], is_scheduled: bool
) -> None:
    # a process of its own: the coroutines that are dropped with the loop complain to the end
    command = [sys.executable, "-c", CLOSES_ITS_LOOP, start.__name__, str(is_scheduled)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "this call has ended and can no longer start a sub-agent\n", done.stderr


CLOSES_ITS_LOOP = """
import asyncio, os, sys, threading
import axe_nb
from axe_nb import Agent
from tests.engine import test_closed_loops

axe_nb.script("asks once")(test_closed_loops.asks_once)

began, go, ended = threading.Event(), threading.Event(), threading.Event()
start = getattr(test_closed_loops, sys.argv[1])

@axe_nb.tool
def work(ctx: axe_nb.ToolContext) -> str:
    began.set()
    go.wait(20)
    try:
        start(ctx)
    except Exception as error:
        os.write(1, f"{error}\\n".encode())  # what a tool prints is part of its result
    ended.set()
    return ""

axe_nb.define(Agent("child", "script/asks once"))
lead = Agent("lead", "script/asks once", tools=[work], sub_agents=["child"])

async def run_until_the_tool_works():
    global running
    running = asyncio.ensure_future(axe_nb.arun(lead, "go", display=False))
    await asyncio.to_thread(began.wait, 20)

loop = asyncio.new_event_loop()
loop.run_until_complete(run_until_the_tool_works())
if sys.argv[2] == "True":  # the child is asked of a loop that nobody runs any more
    go.set()
    ended.wait(0.5)
loop.close()
go.set()
ended.wait(20)
os._exit(0)
"""


@pytest.mark.req("D-57")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("start", [start_by_run, start_by_arun, start_by_delegate])
def test_a_process_that_a_tool_forks_runs_no_agents(
    start: Callable[[ToolContext], object],
) -> None:
    told = "a forked process cannot start a sub-agent of this call; use a thread"
    assert ask_forked(start) == told


def ask_forked(start: Callable[[ToolContext], object]) -> str:
    """What a process that a tool forks gets from a child, or its error."""

    @axe_nb.tool
    def work(ctx: ToolContext) -> str:
        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()

        def tell() -> None:
            try:
                answers.put(str(start(ctx)))
            except Exception as error:
                answers.put(str(error))

        process = context.Process(target=tell)
        process.start()
        process.join(20)
        if process.is_alive():
            process.kill()
            return "it hangs"
        return str(answers.get())

    axe_nb.script("asks once")(asks_once)
    axe_nb.define(Agent("child", "script/asks once"))
    lead = Agent("lead", "script/asks once", tools=[work], sub_agents=["child"])
    return axe_nb.run(lead, "go", display=False).text
