"""`axe_nb.grid`: variants on inputs, judged, within a budget, resumed, interrupted."""

from __future__ import annotations

import _thread
import asyncio
import json
import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axe_nb
from axe_nb import Agent, Request, Response, Usage
from axe_nb.agents.user_config import config_path
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_page import show_grid

pytestmark = pytest.mark.req("E-5")


@pytest.fixture(autouse=True)
def asked() -> list[tuple[str, str]]:
    """(agent, prompt) of each request to the models `capital` and `grader`."""
    requests: list[tuple[str, str]] = []

    @axe_nb.script("capital")
    def capital(request: Request) -> str:
        prompt = request.messages[-1].content
        requests.append((request.agent, prompt))
        known = {"Italy": "Rome", "France": "Paris"}
        if request.agent == "good" or prompt.endswith("Italy"):
            return known.get(prompt.split()[-1], "unknown")
        return "London"

    @axe_nb.script("grader")
    def grader(request: Request) -> str:
        prompt = request.messages[-1].content
        requests.append((request.agent, prompt))
        is_right = "Rome" in prompt or "Paris" in prompt
        return json.dumps({"score": 0.9 if is_right else 0.1, "reason": "as the atlas says"})

    for name in ("good", "bad"):
        axe_nb.define(Agent(name=name, model="script/capital", system_prompt="Answer."))
    axe_nb.define(Agent(name="judge", model="script/grader", system_prompt="Judge."))
    return requests


COUNTRIES = ["Italy", "France"]
ASK = "The capital of {{ input }}"


def test_each_variant_is_asked_about_each_input(asked: list[tuple[str, str]]) -> None:
    def right(result: axe_nb.RunResult, row: Any) -> Any:
        return np.bool_(result.text == {"Italy": "Rome", "France": "Paris"}[row["input"]])

    grid = axe_nb.grid(["good", "bad"], ASK, inputs=COUNTRIES, repeats=2, score=right)
    wanted = [(a, f"The capital of {c}") for a in ("good", "bad") for c in COUNTRIES] * 2
    assert sorted(asked) == sorted(wanted)
    assert [summary.passed for summary in grid.summary] == [4, 2]
    assert grid["France", "bad"][0].reason == "score returned False"
    assert axe_nb.last() is None
    seen: list[Any] = []
    axe_nb.script("other")(lambda request: seen.append((request.params["top_k"], request.last)))
    axe_nb.grid(
        "good", {"short": "{{ a }}?", "long": "What is {{ a }}?"},
        inputs=[{"a": 1}], models=["script/other"], params=[{"top_k": 1}, {"top_k": 2}],
    )  # fmt: skip
    assert sorted(seen) == [(1, "1?"), (1, "What is 1?"), (2, "1?"), (2, "What is 1?")]


def test_a_judge_scores_each_run_and_its_tokens_are_counted_apart(
    asked: list[tuple[str, str]],
) -> None:
    grid = axe_nb.grid(["good", "bad"], ASK, inputs=COUNTRIES, judge="judge")
    assert [run.score for run in grid.runs] == [0.9, 0.9, 0.9, 0.1]
    assert grid["France", "bad"][0].reason == "as the atlas says"
    cases = [prompt for agent, prompt in asked if agent == "judge"]
    assert ["<task>\nThe capital of" in case for case in cases] == [True] * 4
    [good, _] = grid.summary
    assert good.tokens == sum(grid[n, 0][0].result.total_usage.total for n in (0, 1))
    assert good.judge_tokens > 0


def test_the_cost_of_a_variant_is_that_of_its_runs_without_the_judge(project: Path) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text('[prices."script/priced"]\ninput = 3\noutput = 15\n', "utf-8")
    usage = Usage(1000, 100, cached_tokens=0)
    axe_nb.script("priced")(lambda request: Response("Rome", (), "stop", usage))
    agent = Agent(name="a", model="script/priced")
    grid = axe_nb.grid(agent, ASK, inputs=COUNTRIES, repeats=2, judge="judge")
    assert grid.summary[0].cost == pytest.approx(4 * (1000 * 3 + 100 * 15) / 1e6)
    assert "$0.018" in show_grid(grid)["text/plain"]
    assert list(grid.to_frame()["cost"]) == pytest.approx([0.0045] * 4)


async def later(result: axe_nb.RunResult, row: Any) -> bool:
    return True


def broken(result: axe_nb.RunResult, row: Any) -> float:
    raise KeyError("gone")


def test_a_score_that_crashes_is_no_verdict_and_is_told_before_the_table(
    tmp_path: Path,
) -> None:
    grid = axe_nb.grid(["good", "bad"], ASK, inputs=COUNTRIES, score=broken)
    [first, _] = grid.summary
    assert (first.passed, first.share, first.unjudged) == (0, None, 2)
    assert "score failed: KeyError" in grid[0, 0][0].reason
    assert len(grid.failures) == 4
    head, *_ = str(grid).partition("   variant")
    assert "score failed on 4 runs; the first: " in head
    assert "better" not in head
    html = grid._repr_mimebundle_()[0]["text/html"]
    assert html.index("score failed on") < html.index("<table>")
    assert list(grid.to_frame()["passed"]) == [None] * 4
    grid.save(tmp_path / "g.jsonl")
    assert str(axe_nb.load(tmp_path / "g.jsonl")) == str(grid)


def test_runs_not_scored_are_in_no_share_and_reasons_stay_beside_a_failed_expectation() -> None:
    axe_nb.script("grader")(lambda request: '{"score": 0.4, "reason": "half of it is missing"}')
    judge = Agent(name="grader", model="script/grader")

    def points(result: axe_nb.RunResult, row: Any) -> float:
        return broken(result, row) if row["input"] == "b" else 10

    grid = axe_nb.grid("good", "{{ input }}", inputs=["a", "b", "c"], score=points, judge=judge)
    assert [run.score for run in grid.runs] == [10, None, 10]
    assert "score failed: KeyError" in grid.runs[1].reason
    assert "half of it is missing" in grid.runs[1].reason
    summary = grid.summary[0]
    assert (summary.passed, summary.share, summary.unjudged, summary.runs) == (2, 1.0, 1, 3)
    assert summary.score == 10
    assert "2 of 2" in str(grid)
    assert [square.share for square in grid.column(0)] == [1.0, None, 1.0]
    expect = "text contains 'nowhere'"
    for scores, score in ((None, 0.4), (broken, None)):
        [run] = axe_nb.grid("good", "Hi", expect=expect, score=scores, judge=judge).runs
        assert (run.passed, run.score, run.result.ok) == (False, score, True)
        assert run.reason.startswith("expectation not met: text contains 'nowhere'")
        assert "half of it is missing" in run.reason
    assert "score failed: KeyError" in run.reason


@pytest.mark.req("E-6")
@pytest.mark.parametrize("said", ["no number", '{"score": NaN, "reason": "x"}'])
def test_a_judge_that_fails_is_told_before_the_table_and_passes_nothing_wrong(said: str) -> None:
    axe_nb.script("grader")(lambda request: said)
    grid = axe_nb.grid("good", ASK, inputs=["Italy"], judge="judge")
    [run] = grid.runs
    assert (run.score, run.passed) == (None, True)
    assert "the judge failed" in run.reason
    assert grid.summary[0].unjudged == 1
    assert "the judge failed on 1 run; the first: " in str(grid).partition("   variant")[0]


def test_runs_that_the_budget_of_the_grid_cut_are_no_verdict_on_their_variant() -> None:
    """One variant answers at once, the other needs a second request, which the grid refuses."""

    @axe_nb.tool
    def look_up(word: str) -> str:
        return word

    axe_nb.script("quick")(lambda request: "fine")

    @axe_nb.script("thorough")
    async def thorough(request: Request) -> Any:
        await asyncio.sleep(0.5)
        return axe_nb.call("look_up", word="a") if request.turn == 1 else "fine"

    agents = [Agent("quick", "script/quick"), Agent("thorough", "script/thorough", tools=[look_up])]
    grid = axe_nb.grid(
        agents, "{{ input }}", inputs=range(8), concurrency=16, budget={"max_requests": 16}
    )
    assert {run.result.status for run in grid.runs[1::2]} == {"cancelled"}
    assert {run.passed for run in grid.runs[1::2]} == {None}
    assert (grid.summary[1].failed, grid.summary[1].judged) == (8, 0)
    assert "max_requests = 16" in grid.runs[1].reason
    assert "better" not in str(grid)
    assert "0  ✓  ⊘" in str(grid)


def test_a_grid_goes_on_where_it_stopped(tmp_path: Path, asked: list[tuple[str, str]]) -> None:
    path = tmp_path / "grid.jsonl"
    budget = {"max_requests": 3}
    first = axe_nb.grid(
        ["good", "bad"], ASK, inputs=COUNTRIES, judge="judge", concurrency=1, budget=budget,
        resume=path,
    )  # fmt: skip
    assert len(asked) == 3
    assert first.note == "the budget of this grid was reached: max_requests = 3"
    assert first.note in repr(first)
    assert [run.judgement is not None for run in first.runs] == [True, False]
    whole = axe_nb.grid(["good", "bad"], ASK, inputs=COUNTRIES, judge="judge", resume=path)
    assert len(asked) == 8
    assert sorted(Counter(asked).values()) == [1] * 6 + [2]  # "Rome" is judged for both agents
    again = axe_nb.grid(["good", "bad"], ASK, inputs=COUNTRIES, judge="judge", resume=path)
    assert len(asked) == 8
    assert [run.score for run in again.runs] == [run.score for run in whole.runs]
    axe_nb.grid("good", ASK, inputs=COUNTRIES, params={"top_k": 3}, resume=path)
    assert len(asked) == 10


@pytest.mark.parametrize("has_file", [True, False])
def test_an_interrupt_keeps_what_is_done_and_says_how_to_continue(
    has_file: bool, tmp_path: Path
) -> None:
    @axe_nb.script("slow")
    def slow(request: Request) -> str:
        if "France" in request.last:
            threading.Timer(0.05, _thread.interrupt_main).start()
            time.sleep(0.5)
        return "x"

    path = tmp_path / "grid.jsonl"
    again = "run it again to continue from there"
    told = again if has_file else "with resume=PATH, the same call would continue"
    agent, resume = Agent(name="slow", model="script/slow"), path if has_file else None
    with pytest.raises(KeyboardInterrupt, match=f"^the grid was stopped; {told}$"):
        axe_nb.grid(agent, ASK, inputs=COUNTRIES, concurrency=1, resume=resume)
    if has_file:
        lines = path.read_text().splitlines()[1:]
        assert ["completed" in line for line in lines] == [True, False]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"repeats": 0}, "repeats takes a positive whole number, not 0"),
        ({"concurrency": True}, "concurrency takes a positive whole number, not True"),
        ({"score": "x"}, "score takes a function"),
        ({"score": later}, "score takes a function (result, row), not async def"),
        ({"model": "script/x"}, "a grid takes models, not model"),
        ({"expect": "turns <"}, "turns <"),
        ({"judge": "nobody"}, "agent config not found: nobody"),
        ({"models": ["script/missing"]}, "missing"),
        ({"budget": "x"}, "budget takes dollars"),
        (
            {"inputs": [{"city": "Rome", "year": 753}]},
            'unknown name "input" in {{ input }} (line '
            "1)\nthe columns of the inputs: city, year; write \\{{ for a literal brace",
        ),
        ({"tmeout": 3}, 'unknown option "tmeout"'),
    ],
)
def test_a_mistake_is_told_before_anything_is_sent(
    given: dict[str, Any], told: str, asked: list[tuple[str, str]]
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        axe_nb.grid("good", ASK, **{"inputs": COUNTRIES, **given})
    assert asked == []
