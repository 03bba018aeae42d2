"""Grids with odd inputs, scores and judges, or stopped at odd moments; forecasts; agent files."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, RunResult
from axe_nb.commands.console import TerminalLine
from axe_nb.exploring.map_batch import write_case
from axe_nb.exploring.run_grid import GridRunner
from axe_nb.session.drive import NoLine
from tests.maps.test_map import Terminal
from tests.waiting import open_files

VERDICT = '{"score": 0.5, "reason": "so"}'


@pytest.fixture(autouse=True)
def models() -> None:
    @axe_nb.script("echo")
    async def echo(request: Request) -> str:
        await asyncio.sleep(0.3 * ("patient" in request.last))
        return request.last.upper()

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


@pytest.mark.req("E-5")
def test_a_frame_keeps_columns_of_the_inputs_that_have_the_names_of_its_own() -> None:
    rows = [{"text": "one", "score": 3, "q": 1}]
    frame = ask(agents=A, prompt="{{ text }}", inputs=rows).to_frame()
    assert frame.columns.is_unique
    assert list(frame.columns[:3]) == ["input_text", "input_score", "q"]
    assert (frame["input_text"].item(), frame["text"].item()) == ("one", "ONE")


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
    runner.check()
    with pytest.raises(KeyboardInterrupt, match="the grid was stopped"):
        runner.run(NoLine())
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
    agents: Any, options: Any, told: str, tmp_path: Path
) -> None:
    def make() -> GridRunner:
        runner = GridRunner(
            agents, "{{ input }}", inputs=["a", "patient"], repeats=2,
            resume=tmp_path / "r", **options,
        )  # fmt: skip
        runner.check()
        return runner

    runner, terminal = make(), Terminal()
    assert runner.forecast == told
    runner.run(TerminalLine(terminal))
    assert terminal.getvalue().startswith(f"\r{told} · grid: ")
    assert make().forecast == f"{told}, minus what is in the resume file"


RULES = """
[[rule]]
when = { agent = "judge" }
text = '{"score": 1, "reason": "as it should be"}'

[[rule]]
when = { agent = "child" }
text = "from the child"

[[rule]]
when = { turn = 1 }
calls = [{ tool = "call_agent", arguments = { agent = "child", task = "help" } }]

[[rule]]
text = "done"
"""


@pytest.fixture
def agents(project: Path) -> Path:
    """`a`, `b` and `judge` as people have them: in files; the first two may call `child`."""
    (project / "axe/scripts").mkdir()
    (project / "axe/scripts/all.toml").write_text(RULES)
    for name in ("a", "b", "child", "judge"):
        below = 'sub_agents = ["child"]\n' if name in ("a", "b") else ""
        text = f'name = "{name}"\nmodel = "script/all"\n{below}'
        (project / f"axe/agents/{name}.toml").write_text(text)
    return project / "axe/agents"


@pytest.mark.req("D-53")
@pytest.mark.parametrize("is_apart", [False, True])
def test_agents_and_judges_of_files_are_those_that_the_grid_began_with(
    agents: Path, is_apart: bool
) -> None:
    def change(result: RunResult, row: object) -> bool:
        for file in agents.glob("*.toml"):
            file.write_text(file.read_text().replace("script/all", "script/none"))
        return True

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        executor = pool if is_apart else None
        grid = axe_nb.grid(
            ["a", "b"], "hello", repeats=2, judge="judge", score=change, executor=executor,
            concurrency=1, display=False,
        )  # fmt: skip
    runs = [run.result for variant in (0, 1) for run in grid[0, variant]]
    assert [run.agent for run in runs] == ["a", "a", "b", "b"]
    assert [run.text for run in runs] == ["done"] * 4
    assert [child.text for run in runs for child in run.children] == ["from the child"] * 4
    assert {run.reason for run in grid.runs} == {"as it should be"}
