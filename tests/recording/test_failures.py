"""Trees that a cap, the time or a failure ended: replayed as they were, asked again if possible."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, Usage, call, script, script_server
from axe_nb.agents.agent_tables import SubAgentsConfig
from axe_nb.scripting.wire import Protocol
from tests.engine.in_process import agent, ask, lead, over
from tests.protocols import PROTOCOLS
from tests.recording.runs import without_times

pytestmark = pytest.mark.usefixtures("project")

REPLAYS = 4

CHILDREN = 6


def define_capped(limits: Mapping[str, Any], seed: int, turns: int = 2) -> Agent:
    """A lead with children that ask in a random order."""
    chance = random.Random(seed)

    @axe_nb.tool
    async def rest() -> str:
        await asyncio.sleep(chance.random() / 100)
        return "rested"

    async def guide(request: Request) -> Any:
        await asyncio.sleep(chance.random() / 50)
        if request.turn < turns:
            return axe_nb.Response("", (call("rest"),), "tool_use", Usage(50, 10))
        return axe_nb.Response(f"{request.messages[0].content}: done", usage=Usage(50, 10))

    axe_nb.define(agent("guide", guide, tools=("rest",)))
    return lead(*(ask("guide", f"{n}") for n in range(CHILDREN))).but(limits=limits)


def describe(result: RunResult) -> Any:
    return [
        (one.id, one.status, one.text, one.error, one.turns, one.messages) for one in result.walk()
    ]


@pytest.mark.req("D-59")
@pytest.mark.parametrize(
    "limits", [{"max_requests": 5}, {"max_requests": 9}, {"max_total_tokens": 350}]
)
@pytest.mark.parametrize("mode", ["replay", "auto"])
def test_refusals_of_parallel_children_replay_the_same(limits: dict[str, Any], mode: Any) -> None:
    capped = define_capped(limits, seed=0)
    with axe_nb.cassette("tree.axe", "record"):
        first = axe_nb.run(capped, "Go")
    said = "".join(message.content for one in first.walk() for message in one.messages)
    errors = [one.error or "" for one in first.walk()]
    results = [r.content for one in first.walk() for m in one.messages for r in m.tool_results]
    assert any(f"limits.{next(iter(limits))}" in text for text in (said, *errors, *results))
    for seed in range(1, REPLAYS):
        define_capped(limits, seed)
        with axe_nb.cassette("tree.axe", mode) as cassette:
            again = axe_nb.run(capped, "Go")
        assert (cassette.misses, cassette.recorded) == (0, 0)
        assert describe(again) == describe(first)


@pytest.mark.req("D-59")
def test_a_cap_that_was_raised_asks_for_what_it_had_refused() -> None:
    with axe_nb.cassette("tree.axe", "record"):
        refused = axe_nb.run(define_capped({"max_requests": 5}, seed=0, turns=1), "Go")
    assert not refused.ok
    with axe_nb.cassette("tree.axe", "auto") as cassette:
        result = axe_nb.run(define_capped({"max_requests": 50}, seed=1, turns=1), "Go")
    assert (result.status, cassette.hits, len(result.children)) == ("completed", 5, CHILDREN)
    with axe_nb.cassette("tree.axe", "replay"):
        again = axe_nb.run(define_capped({"max_requests": 50}, seed=2, turns=1), "Go")
    assert describe(again) == describe(result)


def three_children(request: Request) -> Any:
    return [ask("child", f"{number}") for number in range(3)]


def a_plan(request: Request) -> Any:
    return call("delegate_task", plan="p", subtasks=[{"task": "0"}, {"task": "1"}, {"task": "2"}])


def a_group(request: Request) -> Any:
    return ask("group", "all of them")


TREES = {
    "in parallel": (three_children, SubAgentsConfig(max_concurrent=3)),
    "one after another": (three_children, SubAgentsConfig(parallel=False)),
    "a plan in order": (a_plan, SubAgentsConfig(max_concurrent=1)),
    "a plan in parallel": (a_plan, SubAgentsConfig(max_concurrent=3)),
    "two levels": (a_group, SubAgentsConfig(max_concurrent=3)),
}


OTHERS = [one for one in PROTOCOLS if one != "openai"]


def define_slow_tree(calls: Any, config: SubAgentsConfig, protocol: str) -> None:
    """An agent `lead`, two of whose three children or grandchildren take too long."""

    async def child(request: Request) -> str:
        if "0" not in request.last:
            await asyncio.sleep(20)
        return "in time"

    async def model(request: Request) -> Any:
        if "step of a plan" in request.last:  # a copy of it
            return await child(request)
        return "lead goes on" if request.turn > 1 else calls(request)

    tools = ("delegate_task",) if calls is a_plan else ()
    below = () if calls is a_plan else ("group", "child")
    for one in (
        agent("child", child), agent("group", three_children, sub_agents=("child",)),
        agent("lead", model, sub_agents=below, tools=tools, sub_agents_config=config),
    ):  # fmt: skip
        axe_nb.define(over(protocol, one))


def shown(result: RunResult, after: str) -> str:
    """The tree without its times, which `after` is one of."""
    return json.dumps(without_times(result)).replace(f"timeout after {after}", "timeout")


@pytest.mark.req("D-10", "D-59")
@pytest.mark.parametrize(
    ("kind", "protocol"),
    [*((kind, "openai") for kind in TREES), *(("in parallel", one) for one in OTHERS)],
)
def test_a_tree_that_its_root_timed_out_replays_as_it_was(kind: str, protocol: Protocol) -> None:
    define_slow_tree(*TREES[kind], protocol=protocol)
    with script_server(protocol), axe_nb.cassette("tape.axe", "record"):
        first = axe_nb.run("lead", "go", timeout=1)
    assert (first.status, first.error) == ("timeout", "timeout after 1s")
    assert [run.status for run in first.walk()].count("timeout") >= 2
    began = time.monotonic()
    with axe_nb.cassette("tape.axe", "replay") as cassette:
        again = axe_nb.run("lead", "go", timeout=60)  # its own time does not run out
    assert time.monotonic() - began < 10
    assert again.error == "timeout after 60s"
    assert shown(again, after="60s") == shown(first, after="1s")
    assert (cassette.misses, cassette.unused) == (0, 0)


@pytest.mark.req("D-10", "D-59")
def test_the_time_of_a_run_below_the_root_is_replayed_and_the_root_goes_on() -> None:
    define_slow_tree(a_group, SubAgentsConfig(timeout=0.5), protocol="openai")
    with script_server("openai"), axe_nb.cassette("tape.axe", "record"):
        first = axe_nb.run("lead", "go")
    assert (first.status, first.text) == ("completed", "lead goes on")
    [group] = first.children
    assert (group.status, len(group.children)) == ("timeout", 3)
    with axe_nb.cassette("tape.axe", "replay") as cassette:
        assert without_times(axe_nb.run("lead", "go")) == without_times(first)
        assert cassette.unused == 0


class Town:
    """A lead that asks two towns; `state` says how the model of the towns is."""

    state = "good"

    def __init__(self) -> None:
        @script("town")
        async def town(request: Request) -> str:
            if self.state == "broken" and "A" in request.system:
                raise axe_nb.ProviderError("server", "out of order", status=500)
            if self.state == "slow" and "A" in request.system:
                await asyncio.sleep(20)
            return f"fine, {request.system}"

    def run(self, mode: Any, system: str = "A", **options: Any) -> RunResult:
        for name, text in (("a", system), ("b", "B")):
            axe_nb.define(
                Agent(name=name, model="openai/town", system_prompt=text, retry={"max_retries": 0})
            )
        axe_nb.define(over("openai", lead(ask("a"), ask("b"))))
        with script_server("openai"), axe_nb.cassette("a.axe", mode):
            return axe_nb.run("lead", "go", **options)


@pytest.mark.parametrize("mode", ["auto", "record"])
@pytest.mark.parametrize("state", ["broken", "slow"])
def test_a_child_that_fails_leaves_the_recorded_run_as_it_was(mode: str, state: str) -> None:
    town = Town()
    first = town.run("record")
    assert first.ok
    town.state = state
    bad = town.run(mode, "A, changed", timeout=None if state == "broken" else 1)
    assert not all(run.ok for run in bad.walk())
    assert any("a.axe keeps" in warning for warning in bad.warnings) == (mode == "record")
    again = town.run("replay")
    assert (again.text, again.status) == (first.text, "completed")
    town.state = "good"
    result = town.run("auto", "A, changed")
    assert result.ok
    assert town.run("replay", "A, changed").text == result.text


@pytest.mark.parametrize("mode", ["auto", "record"])
@pytest.mark.parametrize("changed", ["model", "nothing"])
def test_a_run_that_fails_leaves_its_recording_as_it_was(mode: str, changed: str) -> None:
    broken = False

    @script("one")
    def one(_: Request) -> str:
        if broken:
            raise axe_nb.ProviderError("server", "out of order", status=500)
        return "fine"

    script("two")(one)

    def run(mode: Any, model: str = "one") -> RunResult:
        agent = Agent(name="one", model=f"openai/{model}", retry={"max_retries": 0})
        with script_server("openai"), axe_nb.cassette("a.axe", mode):
            return axe_nb.run(agent, "go")

    assert run("record").ok
    broken = True
    other = "two" if changed == "model" else "one"
    if (mode, changed) != ("auto", "nothing"):  # which is played
        assert run(mode, other).status == "error"
    assert run("replay").text == "fine"
    broken = False
    assert run("auto", other).text == "fine"
    assert run("replay", other).text == "fine"


def test_a_second_attempt_that_succeeds_replaces_what_was_recorded() -> None:
    tries: list[int] = []

    @script("one")
    def one(request: Request) -> str:
        tries.append(1)
        if len(tries) == 2:
            raise axe_nb.ProviderError("rate_limit", "slow down", status=429, retry_after=0.01)
        return f"answer {len(tries)}"

    agent = Agent(name="one", model="openai/one", retry={"max_retries": 1})
    for text in ("answer 1", "answer 3"):
        with script_server("openai"), axe_nb.cassette("a.axe", "record"):
            assert axe_nb.run(agent, "go").text == text
    with axe_nb.cassette("a.axe", "replay") as cassette:
        assert axe_nb.run(agent, "go").text == "answer 3"
        assert cassette.unused == 0
