"""Runs that the time of a run above them cut are replayed as they were: the same tree."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, SubAgentsConfig, call, script, script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of
from tests.recording.runs import without_times

pytestmark = pytest.mark.req("D-10", "D-59")


def three_children(request: Request) -> Any:
    return [call("call_agent", agent="child", task=f"{number}") for number in range(3)]


def a_plan(request: Request) -> Any:
    return call("delegate_task", plan="p", subtasks=[{"task": "0"}, {"task": "1"}, {"task": "2"}])


def a_group(request: Request) -> Any:
    return call("call_agent", agent="group", task="all of them")


TREES = {
    "in parallel": (three_children, SubAgentsConfig(max_concurrent=3)),
    "one after another": (three_children, SubAgentsConfig(parallel=False)),
    "a plan in order": (a_plan, SubAgentsConfig(max_concurrent=1)),
    "a plan in parallel": (a_plan, SubAgentsConfig(max_concurrent=3)),
    "two levels": (a_group, SubAgentsConfig(max_concurrent=3)),
}


OTHERS = [one for one in PROTOCOLS if one != "openai"]


def define_tree(calls: Any, config: SubAgentsConfig, protocol: str) -> None:
    """An agent `lead`, two of whose three children or grandchildren take too long."""

    @script("child")
    async def child(request: Request) -> str:
        if "0" not in request.last:
            await asyncio.sleep(20)
        return "in time"

    @script("lead")
    async def lead(request: Request) -> Any:
        if "step of a plan" in request.last:  # a copy of it
            return await child(request)
        return "lead goes on" if request.turn > 1 else calls(request)

    script("group")(three_children)
    axe_nb.define(Agent("child", f"{provider_of(protocol)}/child"))
    axe_nb.define(Agent("group", f"{provider_of(protocol)}/group", sub_agents=("child",)))
    tools = ("delegate_task",) if calls is a_plan else ()
    below = () if calls is a_plan else ("group", "child")
    model = f"{provider_of(protocol)}/lead"
    axe_nb.define(Agent("lead", model, sub_agents=below, tools=tools, sub_agents_config=config))


def shown(result: RunResult, after: str) -> str:
    """The tree without its times, which `after` is one of."""
    return json.dumps(without_times(result)).replace(f"timeout after {after}", "timeout")


@pytest.mark.parametrize(
    ("kind", "protocol"),
    [*((kind, "openai") for kind in TREES), *(("in parallel", one) for one in OTHERS)],
)
def test_a_tree_that_ran_into_the_time_of_its_root_is_replayed_as_it_was(
    kind: str, protocol: Protocol, project: Path
) -> None:
    define_tree(*TREES[kind], protocol=protocol)
    with script_server(protocol), axe_nb.cassette("tape.axe", "record"):
        first = axe_nb.run("lead", "go", timeout=1)
    assert (first.status, first.error) == ("timeout", "timeout after 1s")
    assert [run.status for run in first.walk()].count("timeout") >= 2
    began = time.monotonic()
    with axe_nb.cassette("tape.axe", "replay") as cassette:
        again = axe_nb.run("lead", "go", timeout=60)  # its own time does not run out
        status = cassette.status()
    assert time.monotonic() - began < 10
    assert again.error == "timeout after 60s"
    assert shown(again, after="60s") == shown(first, after="1s")
    assert (status.misses, status.unused) == (0, 0)


def test_the_time_of_a_run_below_the_root_is_replayed_and_the_root_goes_on(project: Path) -> None:
    define_tree(a_group, SubAgentsConfig(timeout=0.5), protocol="openai")
    with script_server("openai"), axe_nb.cassette("tape.axe", "record"):
        first = axe_nb.run("lead", "go")
    assert (first.status, first.text) == ("completed", "lead goes on")
    [group] = first.children
    assert (group.status, len(group.children)) == ("timeout", 3)
    with axe_nb.cassette("tape.axe", "replay") as cassette:
        assert without_times(axe_nb.run("lead", "go")) == without_times(first)
        assert cassette.status().unused == 0
