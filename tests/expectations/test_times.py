"""`parallel` goes by the times of the runs and calls, live, saved and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request, RunResult
from axe_nb.messages.exchanges import Lap
from tests.engine.in_process import agent, ask, lead, over
from tests.expectations.test_check import has_parallel
from tests.views.runs import done

pytestmark = pytest.mark.req("D-67")


@pytest.fixture(autouse=True)
def models() -> None:
    axe_nb.define(agent("child", "did it"))


def run(protocol: str = "script", **config: Any) -> RunResult:
    """The run of a lead that asks its child twice."""
    asks = lead(ask("child", "one"), ask("child", "two"), **config)
    return axe_nb.run(over(protocol, asks), "go", display=False)


@pytest.mark.parametrize(
    ("config", "together"),
    [({}, True), ({"max_concurrent": 1}, False), ({"parallel": False}, False)],
)
def test_children_that_wait_for_one_another_are_not_parallel_live_and_saved(
    config: Any, together: bool, tmp_path: Path
) -> None:
    result = run(**config)
    result.save(tmp_path / "run.json")
    for one in (result, axe_nb.load(tmp_path / "run.json")):
        axe_nb.expect(one, "child == 2; call_agent == 2")
        assert has_parallel(one, "child") == [together]


def test_what_a_fork_took_over_is_not_parallel_to_what_it_ran_again() -> None:
    result = run(max_concurrent=1)
    assert has_parallel(result.fork("0.2/1"), "child") == [False]
    wide = run()
    assert has_parallel(wide.fork("0.2/1"), "child") == [False]
    assert has_parallel(wide.fork("0/2"), "child") == [True]


def test_a_run_is_not_beside_one_below_it() -> None:
    def child(request: Request) -> Any:
        deeper = request.turn == 1 and request.last.endswith("one")
        return ask("child", "two") if deeper else "done"

    axe_nb.define(agent("child", child, sub_agents=["child"]))
    result = axe_nb.run(lead(ask("child", "one")), "go", display=False)
    axe_nb.expect(result, "child == 2")
    assert has_parallel(result, "child") == [False]


def test_times_decide_and_not_the_calls() -> None:
    def one(name: str, began: float, ended: float, call_id: str) -> RunResult:
        lap = Lap("run", began, ended)
        return done(agent=name, id=f"0.{call_id}", call_id=call_id, times=(lap,))

    times = [("a", 0, 9), ("b", 1, 3), ("b", 4, 6), ("a", 8, 9), ("c", 1, 2), ("c", 2, 3)]
    tree = done(
        children=tuple(one(*given, str(number)) for number, given in enumerate(times)),
        times=(Lap("run", 0, 10),),
    )
    assert has_parallel(tree, "a", "b", "c") == [True, False, False]


@pytest.mark.parametrize("width", [1, 2])
def test_a_replay_is_judged_as_the_run_was(width: int, project: Path) -> None:
    axe_nb.define(Agent("child", "openai/child"))
    with axe_nb.script_server("openai"), axe_nb.cassette("tape.axe", "record"):
        recorded = run("openai", max_concurrent=width)
    with axe_nb.cassette("tape.axe", "replay"):
        replayed = run("openai", max_concurrent=width)
    assert has_parallel(recorded, "child") == has_parallel(replayed, "child") == [width == 2]
