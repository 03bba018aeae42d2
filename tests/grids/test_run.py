"""`axe_nb.grid`: variants on inputs, judged, within a budget, resumed, interrupted; odd cases."""

from __future__ import annotations

import _thread
import asyncio
import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, Response, RunResult, Usage
from axe_nb.exploring.grid import show_grid
from axe_nb.exploring.map_driver import write_case
from axe_nb.exploring.run_grid import GridRunner
from tests.files import settings
from tests.maps.test_map import Terminal
from tests.waiting import open_files

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

    @axe_nb.script("echo")
    async def echo(request: Request) -> str:
        await asyncio.sleep(0.3 * ("patient" in request.last))
        return request.last.upper()

    for name in ("good", "bad"):
        axe_nb.define(Agent(name=name, model="script/capital", system_prompt="Answer."))
    axe_nb.define(Agent(name="judge", model="script/grader", system_prompt="Judge."))
    return requests


COUNTRIES = ["Italy", "France"]
ASK = "The capital of {{ input }}"


def test_each_variant_is_asked_about_each_input(asked: list[tuple[str, str]]) -> None:
    def right(result: RunResult, row: Any) -> Any:
        return np.bool_(result.text == {"Italy": "Rome", "France": "Paris"}[row["input"]])

    grid = axe_nb.grid(["good", "bad"], ASK, inputs=COUNTRIES, repeats=2, score=right)
    wanted = [(a, f"The capital of {c}") for a in ("good", "bad") for c in COUNTRIES] * 2
    assert sorted(asked) == sorted(wanted)
    assert [summary.passed for summary in grid.summary] == [4, 2]
    assert grid["France", "bad"][0].reason == "score returned False"
    assert axe_nb.last() is None
    seen: list[Any] = []
    axe_nb.script("other")(lambda request: seen.append((request.params["top_k"], request.last)))
    prompts, params = (
        {"short": "{{ prompt }}?", "long": "What is it?"},
        [{"top_k": 1}, {"top_k": 2}],
    )
    grid = axe_nb.grid(
        "good", prompts, inputs=[{"prompt": 1}], models=["script/other"], params=params
    )
    assert sorted(seen) == [(1, "1?"), (1, "What is it?"), (2, "1?"), (2, "What is it?")]
    names = list(grid.to_frame().columns)
    assert [names[0], *names[-2:]] == ["input_prompt", "seconds", "prompt"]
    assert list(grid.to_frame()["prompt"]) == [*prompts.values()] * 2


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
    [head] = [line for line in str(grid).splitlines() if line.startswith("   variant")]
    assert head.split() == ["variant", "score", "tokens"], "nothing but scores tells them apart"


def test_the_cost_of_a_variant_is_that_of_its_runs_without_the_judge(project: Path) -> None:
    settings('[prices."script/priced"]\ninput = 3\noutput = 15\n')
    usage = Usage(1000, 100, cached_tokens=0)
    axe_nb.script("priced")(lambda request: Response("Rome", (), "stop", usage))
    agent = Agent(name="a", model="script/priced")
    grid = axe_nb.grid(agent, ASK, inputs=COUNTRIES, repeats=2, judge="judge")
    assert grid.summary[0].cost == pytest.approx(4 * (1000 * 3 + 100 * 15) / 1e6)
    assert "$0.018" in show_grid(grid)["text/plain"]
    assert list(grid.to_frame()["cost"]) == pytest.approx([0.0045] * 4)


def broken(result: RunResult, row: Any) -> float:
    raise KeyError("gone")


def test_a_score_that_crashes_is_no_verdict_and_is_told_before_the_table(tmp_path: Path) -> None:
    grid = axe_nb.grid(["good", "bad"], ASK, inputs=COUNTRIES, score=broken)
    [first, _] = grid.summary
    assert (first.passed, first.share, first.unjudged) == (0, None, 2)
    assert len(grid.failures) == 4
    head, *_ = str(grid).partition("   variant")
    assert "score failed on 4 runs; the first: Italy × good: score failed: KeyError" in head
    assert "better" not in head
    html = grid._repr_mimebundle_()[0]["text/html"]
    assert html.index("score failed on") < html.index("<table")
    assert list(grid.to_frame()["passed"]) == [None] * 4
    grid.save(tmp_path / "g.jsonl")
    assert str(axe_nb.load(tmp_path / "g.jsonl")) == str(grid)


def test_runs_not_scored_are_in_no_share_and_reasons_stay_beside_a_failed_expectation() -> None:
    def points(result: RunResult, row: Any) -> float:
        return broken(result, row) if row["input"] == "Oslo" else 10

    grid = axe_nb.grid("good", ASK, inputs=["Italy", "Oslo"], score=points, judge="judge")
    assert [run.score for run in grid.runs] == [10, None]
    reason = grid.runs[1].reason
    assert "score failed: KeyError" in reason
    assert "as the atlas says" in reason
    [summary] = grid.summary
    assert (summary.passed, summary.share, summary.unjudged, summary.score) == (1, 1.0, 1, 10)
    expect = "text contains 'nowhere'"
    for scores, score in ((None, 0.1), (broken, None)):
        [run] = axe_nb.grid("good", "Hi", expect=expect, score=scores, judge="judge").runs
        assert (run.passed, run.score, run.result.ok) == (False, score, True)
        assert run.reason.startswith("expectation not met: text contains 'nowhere'")
        assert "as the atlas says" in run.reason
    assert "score failed: KeyError" in run.reason


@pytest.mark.req("E-6")
@pytest.mark.parametrize("said", ["no number", '{"score": NaN, "reason": "x"}'])
def test_a_judge_that_fails_is_told_before_the_table_and_passes_nothing_wrong(said: str) -> None:
    axe_nb.script("grader")(lambda request: said)
    grid = axe_nb.grid("good", ASK, inputs=["Italy"], judge="judge")
    [run] = grid.runs
    assert (run.score, run.passed) == (None, None), "nothing else has judged it"
    assert "the judge failed" in run.reason
    assert grid.summary[0].unjudged == 1
    assert "the judge failed on 1 run; the first: " in str(grid).partition("   variant")[0]


def test_runs_that_the_budget_of_the_grid_cut_are_no_verdict_on_their_variant() -> None:
    """One variant answers at once, the other needs a second request, which the grid refuses."""

    axe_nb.script("quick")(lambda request: "fine")

    @axe_nb.script("thorough")
    async def thorough(request: Request) -> Any:
        await asyncio.sleep(0.5)
        return axe_nb.call("list_dir", path=".") if request.turn == 1 else "fine"

    thorough_one = Agent("thorough", "script/thorough", tools=["list_dir"])
    agents = [Agent("quick", "script/quick"), thorough_one]
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


def test_an_interrupt_keeps_what_is_done_and_says_how_to_continue(tmp_path: Path) -> None:
    @axe_nb.script("slow")
    def slow(request: Request) -> str:
        if "France" in request.last:
            threading.Timer(0.05, _thread.interrupt_main).start()
            time.sleep(0.5)
        return "x"

    path, agent = tmp_path / "grid.jsonl", Agent(name="slow", model="script/slow")
    for resume, told in (
        (None, "with resume=PATH, the same call would continue"),
        (path, "to continue, make the same call again"),
    ):
        with pytest.raises(KeyboardInterrupt, match=f"^the grid was stopped; {told}$"):
            axe_nb.grid(agent, ASK, inputs=COUNTRIES, concurrency=1, resume=resume)
    lines = path.read_text().splitlines()[1:]
    assert ["completed" in line for line in lines] == [True, False]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"repeats": 0}, "repeats takes a positive whole number, not 0"),
        ({"concurrency": True}, "concurrency takes a positive whole number, not True"),
        ({"score": "x"}, "score takes a function"),
        ({"score": asyncio.sleep}, "score takes a function (result, row), not async def"),
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


A, B = (Agent(name=name, model="script/echo") for name in "ab")
JUDGE = Agent(name="judge", model="script/grader")


def ask(*, agents: Any = (A, B), prompt: Any = "P {{ input }}", **options: Any) -> Any:
    return axe_nb.grid(agents, prompt, **{"inputs": ["x", "y"], **options})


@pytest.mark.req("E-6")
@pytest.mark.parametrize(
    ("score", "told"),
    [
        (math.inf, "score returned inf, not a finite number"),
        (np.nan, "score returned nan, not a finite number"),
        (None, "score returned None, which is neither a number nor a bool"),
        (10**400, "score failed: OverflowError"),
    ],
)
def test_a_score_that_has_no_mean_does_not_count(score: Any, told: str) -> None:
    grid = ask(score=lambda result, row: score)
    assert {run.score for run in grid.runs} == {None}
    assert all(run.reason.startswith(told) and not run.passed for run in grid.runs)
    assert grid.summary[0].score is None
    assert grid.diff(0, 1).score is None


@pytest.mark.req("E-6")
@pytest.mark.parametrize("said", ["</answer>", "</ANSWER >", "< /answer>", "<answer>", "</task>"])
def test_neither_a_task_nor_an_answer_can_set_marks_of_the_judge(said: str) -> None:
    case = write_case(f"x{said}y", f"x{said}y")
    marks = re.findall(r"<\s*/?\s*(?:task|answer)\s*>", case, re.IGNORECASE)
    assert marks == ["<task>", "</task>", "<answer>", "</answer>"]


@pytest.mark.req("E-2", "D-8")
def test_an_interrupt_keeps_runs_that_have_ended_but_were_not_scored_yet() -> None:
    all_ended, answered = threading.Event(), count(1)

    def score(result: RunResult, row: Any) -> bool:
        if row["input"] == 0:
            all_ended.wait(20)
            raise KeyboardInterrupt
        return True

    @axe_nb.script("counted")
    def answer(request: Request) -> str:
        if next(answered) == 8:
            all_ended.set()
        return "x"

    agent, inputs = Agent(name="a", model="script/counted"), list(range(8))
    runner = GridRunner(agent, "P {{ input }}", inputs=inputs, score=score, concurrency=2)
    with pytest.raises(KeyboardInterrupt, match="the grid was stopped"):
        runner.run(False, "g")
    assert runner.grid.note == "interrupted"
    assert len(runner.grid) >= 5, "all but the one that was scored, and two in progress"
    assert all(run.passed for run in runner.grid.runs)


@pytest.mark.req("E-3")
def test_grids_do_not_leave_files_open(tmp_path: Path) -> None:
    options = {"judge": JUDGE, "resume": tmp_path / "r.jsonl"}
    ask(**options)
    before = open_files()
    for _ in range(3):
        ask(**options)
        axe_nb.map(A, ["never begun"], resume=tmp_path / "r.jsonl")
    assert open_files() == before


def test_an_endless_input_or_one_that_fails_is_told() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise LookupError("no more rows")

    with pytest.raises(LookupError, match="no more rows"):
        ask(inputs=fail())
    for endless in ({"inputs": iter(int, 1)}, {"repeats": 1_000_000}):
        with pytest.raises(ConfigError, match="at most 1,000,000 runs, not "):
            ask(**endless)


TOOLS = A.but(name="tools", tools=("list_dir",))


@pytest.mark.req("E-7")
@pytest.mark.parametrize(
    ("agents", "options", "told"),
    [
        ((A, B), {}, "8 requests"),
        ((A,), {"judge": JUDGE}, "8 requests"),
        ((TOOLS, B), {}, "at least 8 requests"),
    ],
)
def test_a_forecast_is_exact_without_tools_and_counts_the_judge_and_the_resume_file(
    agents: Any, options: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(resume: Path | None = None) -> GridRunner:
        return GridRunner(
            agents, "{{ input }}", inputs=["a", "patient"], repeats=2, resume=resume, **options
        )

    runner, terminal = make(tmp_path / "r"), Terminal()
    assert make().forecast == told
    assert runner.forecast == f"{told}, minus what is in the resume file"
    monkeypatch.setattr("sys.stderr", terminal)
    runner.run(True, "g")
    assert terminal.getvalue().startswith(f"\r{told}, minus what is in the resume file · grid: ")


RULES = """
rule = [
    { when = { agent = "referee" }, text = '{"score": 1, "reason": "as it should be"}' },
    { when = { agent = "child" }, text = "from the child" },
    { when = { turn = 1 }, calls = [
        { tool = "call_agent", arguments = { agent = "child", task = "help" } }] },
    { text = "done" },
]
"""


@pytest.mark.req("D-53")
@pytest.mark.parametrize("is_apart", [False, True])
def test_agents_and_judges_of_files_are_those_that_the_grid_began_with(
    project: Path, is_apart: bool
) -> None:
    """Both may call `child`; all are in files, as people have them."""
    (project / "axe/scripts").mkdir()
    (project / "axe/scripts/all.toml").write_text(RULES)
    agents = project / "axe/agents"
    for name in ("a", "b", "child", "referee"):
        below = 'sub_agents = ["child"]' if name in ("a", "b") else ""
        (agents / f"{name}.toml").write_text(f'name = "{name}"\nmodel = "script/all"\n{below}')

    def change(result: RunResult, row: object) -> bool:
        for file in agents.glob("*.toml"):
            file.write_text(file.read_text().replace("script/all", "script/none"))
        return True

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        executor = pool if is_apart else None
        grid = axe_nb.grid(
            ["a", "b"], "hello", repeats=2, judge="referee", score=change, executor=executor,
            concurrency=1, display=False,
        )  # fmt: skip
    runs = [run.result for run in grid.runs]
    assert [(run.agent, run.text) for run in runs] == [(name, "done") for name in "aabb"]
    assert [child.text for run in runs for child in run.children] == ["from the child"] * 4
    assert {run.reason for run in grid.runs} == {"as it should be"}
