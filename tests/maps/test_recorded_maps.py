"""Maps and cassettes: recorded and replayed the same in any timing.

Source: product.md "Cassettes", "Exploring"; D-59.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, Request
from axe_nb.session.session import session
from tests.maps.conftest import Echo

pytestmark = pytest.mark.req("E-1", "D-59")

PROMPTS = ["same", "same", "slow", "other", "same", "same", "slow"]


@pytest.fixture
def numbered() -> Iterator[Agent]:
    """An agent that numbers its answers in the order of arrival, which is by chance."""
    numbers = count(1)

    async def answer(request: Request) -> str:
        await asyncio.sleep(random.random() / 50)
        return f"answer {next(numbers)}"

    axe_nb.script("numbered")(answer)
    return Agent(name="numbered", model="script/numbered")


def ask(agent: Agent, **options: Any) -> list[str]:
    return [r.text for r in axe_nb.map(agent, PROMPTS, **options)]


@pytest.mark.req("D-59")
def test_equal_prompts_replay_their_own_answers_in_any_timing(
    numbered: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "cassette.txt"
    with axe_nb.cassette(path, mode="record"):
        recorded = ask(numbered, concurrency=7)
    assert len(set(recorded)) == len(PROMPTS)
    for concurrency in (1, 3, 7):
        with axe_nb.cassette(path, mode="replay"):
            assert ask(numbered, concurrency=concurrency) == recorded
            assert ask(numbered, keep="nothing")[0] == "", "each is played once"


@pytest.mark.req("D-59", "E-6")
def test_a_grid_replays_equal_cases_of_its_judge_in_any_timing(tmp_path: Path) -> None:
    numbers = count(1)

    @axe_nb.script("grader")
    async def grade(request: Request) -> Any:
        await asyncio.sleep(random.random() / 50)
        return {"score": next(numbers), "reason": "so"}

    @axe_nb.script("same")
    async def answer(request: Request) -> str:
        await asyncio.sleep(random.random() / 50)
        if "fail" in request.last:
            raise axe_nb.ProviderError("bad_request", "no", status=400)
        return "the same"

    agent, judge = Agent("same", "script/same"), Agent("judge", "script/grader")

    def compare(mode: Any, concurrency: int) -> list[float | None]:
        with axe_nb.cassette(tmp_path / "c", mode=mode):
            grid = axe_nb.grid(
                [agent, agent.but(name="other")], "P {{ input }}", inputs=["a", "fail"],
                judge=judge, repeats=3, concurrency=concurrency,
            )  # fmt: skip
        return [run.score for run in grid.runs]

    recorded = compare("record", 6)
    assert sorted(filter(None, recorded)) == [1, 2, 3, 4, 5, 6]
    for concurrency in (1, 4, 6):
        assert compare("replay", concurrency) == recorded


def test_the_cassette_of_the_environment_records_maps_and_a_miss_is_the_result_of_its_run(
    echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_CASSETTE", str(tmp_path / "c"))
    monkeypatch.setenv("AXE_CASSETTE_MODE", "record")
    try:
        ask(echo.agent)
        axe_nb.run(echo.agent, "same")
        assert session.cassette is not None
        assert session.cassette.recorded == len(PROMPTS) + 1
    finally:
        session.use_cassette(None)
    with axe_nb.cassette(tmp_path / "c", mode="replay"):
        first, second = axe_nb.map(echo.agent, ["other", "new"])
    assert first.ok
    assert isinstance(second.cause, axe_nb.CassetteMiss)
