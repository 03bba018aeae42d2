"""Script models whose delays pass on a virtual clock: hours in no time, the same every time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axe_nb import Agent, Response, RunResult
from axe_nb.agents.agent_tables import SubAgentsConfig
from tests.engine.in_process import agent, ask, check_events, said, stage

pytestmark = pytest.mark.req("D-36")


@pytest.fixture(autouse=True)
def in_no_time(project: Path) -> Iterator[None]:
    (project / "axe/scripts").mkdir()
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 20, "nobody waits for a virtual second"


def slow(name: str, delay: float) -> Agent:
    return agent(name, lambda _: Response(f"took {delay}s", seconds=delay))


def calling(*names: str, delay: float = 0, **config: Any) -> Agent:
    first = Response("", tuple(ask(name) for name in names), seconds=delay)
    model = said(first, lambda request: Response(request.last, seconds=delay))
    return agent("boss", model, sub_agents=names, sub_agents_config=SubAgentsConfig(**config))


def play(*agents: Agent, timeout: float = 120) -> RunResult:
    played = stage(*agents)
    result = played.play(timeout=timeout)
    check_events(played.events, result)
    return result


@pytest.mark.req("A-11.1", "A-11.5", "D-5")
@pytest.mark.parametrize(
    ("delays", "parallel", "own", "whole"),
    [([30], True, 10, 50), ([30, 50, 40], True, 0, 50), ([30, 50], False, 0, 80)],
    ids=["along a conversation", "side by side", "in order"],
)
def test_delays_add_up_but_for_those_side_by_side(
    delays: list[int], parallel: bool, own: int, whole: int
) -> None:
    names = "abc"[: len(delays)]
    children = map(slow, names, delays)
    result = play(calling(*names, delay=own, parallel=parallel), *children)
    assert result.ok
    took = [result.duration_ms, *(child.duration_ms for child in result.children)]
    for seconds, known in zip([whole, *delays], took, strict=True):
        assert 1000 * seconds <= known < 1000 * seconds + 3000


@pytest.mark.req("A-12.3", "O-28")
@pytest.mark.parametrize("together", [1, 3])
def test_subtasks_of_a_plan_end_with_the_time_of_the_root(together: int) -> None:
    Path("axe/scripts/planner.toml").write_text("""
clock = "virtual"
[[rule]]
when = { agent = "boss", turn = 1 }
calls = [{ tool = "delegate_task", arguments = { plan = "p", subtasks = [
  { task = "one" }, { task = "two" }, { task = "three" } ] } }]
[[rule]]
delay = 60
text = "done"
""")
    config = SubAgentsConfig(max_concurrent=together)
    boss = Agent("boss", "script/planner", tools=["delegate_task"], sub_agents_config=config)
    result = play(boss, timeout=50)
    assert (result.status, result.error) == ("timeout", "timeout after 50s")
    assert [child.status for child in result.children] == ["timeout"] * together
