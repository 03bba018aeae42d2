"""`parallel` and `then` go by the times of the runs and calls, live, saved and replayed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult, SubAgentsConfig, ToolContext, call, script
from axe_nb.times import Lap
from tests.views.runs import done

pytestmark = pytest.mark.req("D-67")

ONE, TWO = "child(task contains one)", "child(task contains two)"

IN_ORDER = f"not child, parallel; {ONE} then {TWO}; not {TWO} then {ONE}; child == 2"
TOGETHER = f"child == 2, parallel; {ONE} and {TWO}, parallel; not {ONE} then {TWO}"


@pytest.fixture(autouse=True)
def models() -> None:
    script("child")(lambda request: "did it")
    axe_nb.define(Agent("child", "script/child"))


def ask_twice(request: Request) -> Any:
    if request.turn > 1:
        return "done"
    return [call("call_agent", agent="child", task=word) for word in ("one", "two")]


def run(calls: Any = ask_twice, model: str = "script/lead", **config: Any) -> RunResult:
    script("lead")(calls)
    settings = SubAgentsConfig(**config)
    lead = Agent("lead", model, sub_agents=("child",), sub_agents_config=settings)
    return axe_nb.run(lead, "go", display=False)


def test_calls_of_one_reply_whose_children_run_one_by_one_are_in_order() -> None:
    axe_nb.expect(run(), TOGETHER)
    axe_nb.expect(run(max_concurrent=1), IN_ORDER)
    axe_nb.expect(run(parallel=False), IN_ORDER)


def test_calls_that_wait_for_one_another_are_judged_by_the_runs_that_they_start() -> None:
    axe_nb.expect(run(), "call_agent == 2, parallel; not call_agent then call_agent")
    in_order = "not call_agent, parallel; call_agent then call_agent; call_agent == 2"
    axe_nb.expect(run(max_concurrent=1), in_order)
    axe_nb.expect(run(parallel=False), in_order)


def test_a_saved_run_is_judged_alike(tmp_path: Path) -> None:
    for number, (result, words) in enumerate(
        [(run(), TOGETHER), (run(max_concurrent=1), IN_ORDER)]
    ):
        path = tmp_path / f"{number}.json"
        result.save(path)
        axe_nb.expect(axe_nb.load(path), words)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (1, '"subtask 0" then "subtask 1"; not "subtask 0" and "subtask 1", parallel'),
        (2, '"subtask 0" and "subtask 1", parallel; not "subtask 0" then "subtask 1"'),
    ],
)
def test_subtasks_of_a_plan_run_in_order_unless_they_may_run_together(
    width: int, expected: str
) -> None:
    def plan(request: Request) -> Any:
        if "step of a plan" in request.last or request.turn > 1:
            return "done"
        steps = [{"task": word} for word in ("one", "two")]
        return call("delegate_task", plan="p", subtasks=steps)

    script("lead")(plan)
    settings = SubAgentsConfig(max_concurrent=width)
    lead = Agent("lead", "script/lead", tools=["delegate_task"], sub_agents_config=settings)
    result = axe_nb.run(lead, "go", display=False)
    axe_nb.expect(result, expected)


@pytest.mark.parametrize("together", [True, False])
def test_children_that_one_tool_starts_are_judged_by_their_times(together: bool) -> None:
    @axe_nb.tool
    async def work(ctx: ToolContext) -> str:
        if together:
            await asyncio.gather(*(ctx.delegate(word, agent="child") for word in ("one", "two")))
            return "did"
        for word in ("one", "two"):
            await ctx.delegate(word, agent="child")
        return "did"

    script("lead")(lambda request: "done" if request.turn > 1 else call("work"))
    result = axe_nb.run(Agent("lead", "script/lead", tools=[work]), "go", display=False)
    axe_nb.expect(result, TOGETHER if together else IN_ORDER)


def test_runs_below_different_runs_may_be_parallel() -> None:
    @script("group")
    def group(request: Request) -> Any:
        return "done" if request.turn > 1 else call("call_agent", agent="child", task=request.last)

    @script("lead")
    def lead(request: Request) -> Any:
        if request.turn > 1:
            return "done"
        return [call("call_agent", agent="group", task=word) for word in ("one", "two")]

    axe_nb.define(Agent("group", "script/group", sub_agents=["child"]))
    result = axe_nb.run(Agent("lead", "script/lead", sub_agents=["group"]), "go", display=False)
    axe_nb.expect(result, f"{ONE} and {TWO}, parallel; not group then group")


def test_a_run_is_not_beside_one_below_it_nor_a_call_beside_its_child() -> None:
    result = run(lambda r: "done" if r.turn > 1 else call("call_agent", agent="child", task="one"))
    axe_nb.expect(result, "not lead and child, parallel; not call_agent and child, parallel")


def test_three_are_parallel_only_at_one_time() -> None:
    def one(name: str, began: float, ended: float) -> RunResult:
        lap = Lap("run", began, ended)
        return done(agent=name, id=f"0.{name}", call_id=name, times=(lap,))

    tree = done(
        children=(one("a", 0, 9), one("b", 1, 3), one("c", 4, 6)), times=(Lap("run", 0, 10),)
    )
    axe_nb.expect(tree, "a and b, parallel; a and c, parallel; not a and b and c, parallel")
    axe_nb.expect(tree, "b then c; not a then b")


@pytest.mark.parametrize("width", [1, 2])
def test_a_replay_is_judged_as_the_run_was(width: int, project: Path) -> None:
    axe_nb.define(Agent("child", "openai/child"))
    expected = IN_ORDER if width == 1 else TOGETHER
    with axe_nb.script_server("openai"), axe_nb.cassette("tape.axe", "record"):
        axe_nb.expect(run(model="openai/lead", max_concurrent=width), expected)
    with axe_nb.cassette("tape.axe", "replay"):
        axe_nb.expect(run(model="openai/lead", max_concurrent=width), expected)
