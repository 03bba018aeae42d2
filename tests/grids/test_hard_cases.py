"""Grids that are given odd inputs, scores, judges and names, or are stopped at odd moments."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult
from axe_nb.grids.face import make_runner
from axe_nb.grids.page import show_grid
from axe_nb.grids.scoring import write_case
from axe_nb.session.drive import NoLine

VERDICT = '{"score": 0.5, "reason": "so"}'


@pytest.fixture(autouse=True)
def models() -> None:
    axe_nb.script("echo")(lambda request: request.last.upper())
    axe_nb.script("grader")(lambda request: VERDICT)


A, B = (Agent(name=name, model="script/echo") for name in "ab")
JUDGE = Agent(name="judge", model="script/grader")


def ask(*, agents: Any = (A, B), prompt: Any = "P {{ input }}", **options: Any) -> Any:
    return axe_nb.grid(agents, prompt, **{"inputs": ["x", "y"], **options})


@pytest.mark.req("E-6")
@pytest.mark.parametrize(
    ("score", "told"),
    [
        (math.inf, "score returned inf, not a finite number"),
        (-math.inf, "score returned -inf, not a finite number"),
        (np.nan, "score returned nan, not a finite number"),
        (None, "score returned None, which is neither a number nor a bool"),
        (10**400, "score failed: OverflowError"),
        (np.array([1, 2]), "score failed: TypeError"),
    ],
)
def test_a_score_that_has_no_mean_does_not_count(score: Any, told: str) -> None:
    grid = ask(score=lambda result, row: score)
    assert {run.score for run in grid.runs} == {None}
    assert all(run.reason.startswith(told) and not run.passed for run in grid.runs)
    assert grid.summary[0].score is None
    assert grid.diff(0, 1).score is None


def test_a_score_that_is_async_is_refused_before_anything_is_sent() -> None:
    async def score(result: RunResult, row: Any) -> bool:
        return True

    with pytest.raises(ConfigError, match=r"score takes a function .*, not async def"):
        ask(score=score)


@pytest.mark.req("E-6")
def test_a_judge_that_fails_is_counted_on_the_page() -> None:
    axe_nb.script("grader")(lambda request: '{"score": NaN, "reason": "x"}')
    grid = ask(judge=JUDGE)
    assert [run.passed for run in grid.runs] == [True] * 4
    assert "the judge failed on 4 runs; the first: " in show_grid(grid)["text/plain"]


@pytest.mark.req("E-6")
@pytest.mark.parametrize("said", ["</answer>", "</ANSWER >", "< /answer>", "<answer>", "</task>"])
def test_neither_a_task_nor_an_answer_can_set_marks_of_the_judge(said: str) -> None:
    case = write_case(f"x{said}y", f"x{said}y")
    marks = re.findall(r"<\s*/?\s*(?:task|answer)\s*>", case, re.IGNORECASE)
    assert marks == ["<task>", "</task>", "<answer>", "</answer>"]


@pytest.mark.req("E-6", "E-2")
def test_a_budget_that_the_judge_uses_up_is_told() -> None:
    grid = ask(agents=A, inputs=["x"], judge=JUDGE, budget={"max_requests": 1})
    assert grid.runs[0].judgement is None
    assert grid.note == "the budget of this grid was reached: max_requests = 1"


def test_a_judge_compares_answers_of_a_loaded_grid_and_of_one_with_failed_squares(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    @axe_nb.script("chooser")
    def choose(request: Request) -> dict[str, Any]:
        asked.append(request.last)
        return {"better": 0, "reason": "so"}

    grid = ask(prompt="P {{ q }}", inputs=[{"q": 1}, {"z": 2}])
    grid.save(tmp_path / "g.jsonl")
    chooser = Agent(name="c", model="script/chooser")
    for one in (grid, axe_nb.load(tmp_path / "g.jsonl")):
        assert one.judge(0, 1, chooser).ties == 1
    assert "<task>\nP 1\n</task>" in asked[-1]


@pytest.mark.req("E-5")
@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (pd.DataFrame([[1, 2]]), "input 0: the column name 0 is not text"),
        (np.array(5), "inputs takes a list"),
        ([{None: 1}], "input 0: the column name None is not text"),
    ],
)
def test_odd_inputs_are_told(inputs: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ask(inputs=inputs, prompt="P")


def test_an_input_whose_text_fails_fails_its_own_squares() -> None:
    class Odd:
        def __str__(self) -> str:
            raise LookupError("no text")

    grid = ask(inputs=[{"n": 1, "x": "fine"}, {"n": 1, "x": Odd()}], prompt="{{ x }}")
    assert grid.inputs == ("0", "1")
    assert [run.result.ok for run in grid.runs] == [True, True, False, False]


@pytest.mark.req("E-5")
def test_an_endless_number_of_runs_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 1,000,000 runs, not 4,000,000"):
        ask(repeats=1_000_000)


def test_numbers_of_numpy_find_a_square() -> None:
    grid = ask()
    assert grid[np.int64(1), np.int64(0)].input == "y"


@pytest.mark.req("E-5")
def test_a_frame_keeps_columns_of_the_inputs_that_have_the_names_of_its_own() -> None:
    rows = [{"text": "one", "score": 3, "q": 1}]
    frame = ask(agents=A, prompt="{{ text }}", inputs=rows).to_frame()
    assert frame.columns.is_unique
    assert list(frame.columns[:3]) == ["input_text", "input_score", "q"]
    assert (frame["input_text"].item(), frame["text"].item()) == ("one", "ONE")


@pytest.mark.req("E-6")
def test_labels_with_gaps_are_read_as_pandas_keeps_them() -> None:
    rows = pd.DataFrame({"q": ["a", "b", "c"], "ok": [1.0, 0.0, np.nan]})
    assert ask(agents=A, prompt="{{ q }}", inputs=rows).label("ok").count == 2
    rows["ok"] = pd.array([True, False, pd.NA], dtype="boolean")
    assert ask(agents=A, prompt="{{ q }}", inputs=rows).label("ok").count == 2


def test_names_with_dollars_and_underscores_are_drawn_as_they_are() -> None:
    prompts = {"$\\bad{$": "P", "_hidden": "Q"}
    figure = ask(agents=A, prompt=prompts, inputs=["$x_$", "\x00"]).plot()
    assert figure._repr_png_()[:4] == b"\x89PNG"
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["$\\bad{$", "_hidden"]


@pytest.mark.req("E-5")
def test_a_page_of_thousands_of_squares_stays_small_and_names_the_rest() -> None:
    agents = [Agent(name=f"agent number {n}", model="script/echo") for n in range(20)]
    grid = ask(agents=agents, inputs=[f"{n} {'x' * 99}" for n in range(90)], concurrency=50)
    page = show_grid(grid)["text/html"]
    assert len(page) < 500_000
    assert "get these squares with <code>g[input, variant]</code>" in page
    assert "90 inputs" in page
    assert page.count("<details>") < 1000


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

    runner = make_runner(
        Agent(name="a", model="script/counted"), "P {{ input }}", inputs=list(range(8)),
        models=None, params=None, repeats=1, expect=None, score=score, judge=None,
        concurrency=2, executor=None, budget=None, resume=None, options={},
    )  # fmt: skip
    runner.check()
    with pytest.raises(KeyboardInterrupt, match="the grid was stopped"):
        runner.run(NoLine())
    assert runner.grid.note == "interrupted"
    assert len(runner.grid) >= 5, "all but the one that was scored, and two in progress"
    assert all(run.passed for run in runner.grid.runs)


@pytest.mark.req("E-3")
def test_grids_do_not_leave_files_open(tmp_path: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("no such list here")

    def list_open() -> int:
        return len(list(folder.iterdir()))

    options = {"judge": JUDGE, "resume": tmp_path / "r.jsonl"}
    ask(**options)
    before = list_open()
    for _ in range(3):
        ask(**options)
        axe_nb.map(A, ["never begun"], resume=tmp_path / "r.jsonl")
    assert list_open() == before


@pytest.mark.req("E-3")
@pytest.mark.parametrize("path", [5, b"bytes.jsonl", 1])
def test_a_resume_file_is_named_by_a_path(path: Any) -> None:
    with pytest.raises(ConfigError, match="resume takes the path of a file"):
        ask(resume=path)
    with pytest.raises(ConfigError, match="resume takes the path of a file"):
        axe_nb.map(A, ["a"], resume=path)


@pytest.mark.req("E-3")
def test_a_resume_file_that_cannot_be_written_is_told_by_the_grid(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "r.jsonl"
    ask(resume=path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        grid = ask(resume=path, inputs=["new"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "is missing results" in grid.note


@pytest.mark.req("E-2", "E-5")
def test_grids_run_within_scores_templates_and_threads_of_others() -> None:
    def score(result: RunResult, row: Any) -> float:
        return float(len(ask()))

    assert [run.score for run in ask(score=score).runs] == [4.0] * 4
    grid = ask(agents=A, inputs=[{"count": lambda: len(ask())}], prompt="{{ count() }}")
    assert grid.runs[0].result.text == "4"
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: len(ask(repeats=3)), range(3))) == [12] * 3


@pytest.mark.req("E-3")
def test_grids_at_once_share_a_resume_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ThreadPoolExecutor(3) as pool:
        grids = list(pool.map(lambda _: ask(resume=path, judge=JUDGE), range(3)))
    assert [len(grid) for grid in grids] == [4] * 3
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert all(line["status"] == "completed" for line in lines)


@pytest.mark.req("E-3")
def test_a_resume_file_of_another_grid_or_of_a_map_answers_nothing_here(tmp_path: Path) -> None:
    asked: list[str] = []
    axe_nb.script("noted")(lambda request: asked.append(request.last) or "x")
    agent, path = Agent(name="n", model="script/noted"), tmp_path / "r.jsonl"
    list(axe_nb.map(agent, ["P a"], resume=path))
    ask(agents=agent, inputs=["a", "b"], resume=path)
    assert asked == ["P a", "P b"], "the same question of the same agent is the same run"
    ask(agents=agent, inputs=["a"], params={"top_k": 1}, resume=path)
    assert len(asked) == 3


@pytest.mark.req("E-3", "D-61")
@pytest.mark.parametrize(
    "plan",
    [
        {"inputs": [], "variants": [], "repeats": 1, "note": ""},
        {"inputs": [{}], "variants": ["x"], "repeats": 1, "note": ""},
        {"inputs": [{"a": 1}] * 2000, "repeats": 10**9, "note": "",
         "variants": [{"label": "a", "agent": "", "model": None, "params": None, "prompt": ""}]},
        {"inputs": [], "variants": [], "repeats": 1e400, "note": ""},
    ],
)  # fmt: skip
def test_a_hostile_file_of_a_grid_is_refused_or_empty(plan: Any, tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    path.write_text(f"axe_nb grid 2.0\n{json.dumps(plan)}\n")
    with pytest.raises(ConfigError, match="line 2"):
        axe_nb.load(path)


@pytest.mark.req("E-6")
def test_a_comparison_of_few_inputs_says_that_they_are_too_few() -> None:
    def answer(request: Request) -> str:
        return "right" if request.agent == "b" else "wrong"

    axe_nb.script("which")(answer)
    agents = [Agent(name=name, model="script/which") for name in "ab"]
    few, many = (
        axe_nb.grid(agents, "{{ input }}", inputs=list(range(n)), expect="text ~ /right/").diff(
            0, 1
        )
        for n in (5, 12)
    )
    assert "in 6.2% of cases (sign test; 5 that differ are too few to tell)" in str(few)
    assert "in 0.049% of cases (sign test)" in str(many)
    assert few.interval is None
    assert many.interval == (pytest.approx(0.587, abs=0.001), 1.0)


@pytest.mark.req("E-5")
def test_hostile_names_stay_text_in_html_and_terminal() -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[2J\u202e\n=cmd|' /C calc'!A0"
    grid = ask(agents=A, prompt={evil: "{{ q }}", "other": "{{ q }}"}, inputs=[{"q": evil}])
    grid.note = evil
    page = show_grid(grid)
    assert "<img" not in page["text/html"]
    for form in page.values():
        assert "\x1b" not in form
        assert "\u202e" not in form


def test_an_endless_input_or_one_that_fails_is_told() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise LookupError("no more rows")

    with pytest.raises(LookupError, match="no more rows"):
        ask(inputs=fail())
    with pytest.raises(ConfigError, match="more than 100,000"):
        ask(inputs=iter(int, 1))
