"""Grids and maps that go on from the history: what it keeps, forgets, refuses; processes killed.

Source: product.md "Exploring" (`resume=`), "Runs are recordings" (History); D-60, D-61.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request
from axe_nb.maps.kept import KeptHistory
from axe_nb.run_history.map_results import MapResults, results_path
from tests.maps.server import counting_model
from tests.waiting import eventually

pytestmark = pytest.mark.req("E-3")

CITIES = [{"city": name} for name in ("Rome", "Oslo", "Bern")]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a history that is kept although this is a test."""
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    return results_path()


@pytest.fixture
def asked() -> list[str]:
    prompts: list[str] = []

    @axe_nb.script("atlas")
    def atlas(request: Request) -> str:
        prompts.append(request.last)
        if "stop" in request.last:
            raise KeyboardInterrupt
        if "Oslo" in request.last:
            raise axe_nb.ProviderError("bad_request", "out of order", status=400)
        return f"answer {len(prompts)}"

    return prompts


def run(prompt: str = "Of {{ city }}", inputs: Any = None, **options: Any) -> axe_nb.Grid:
    agent = Agent(name="a", model="script/atlas", system_prompt=options.pop("system", "x"))
    cities = CITIES if inputs is None else inputs
    return axe_nb.grid(agent, prompt, inputs=cities, concurrency=1, **options)


def count_kept(path: Path) -> int:
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path)) as file, contextlib.suppress(sqlite3.Error):
        return int(file.execute("SELECT count(*) FROM results").fetchone()[0])
    return 0


def test_a_grid_goes_on_from_the_history_also_past_failed_runs(
    kept: Path, asked: list[str]
) -> None:
    before = run(inputs=CITIES[:2])  # as far as an interrupted one got
    after = run(resume=True)
    assert asked == ["Of Rome", "Of Oslo", "Of Bern"]
    assert [r.result.to_dict(full=True) for r in after.runs[:2]] == [
        r.result.to_dict(full=True) for r in before.runs
    ]
    run(resume=True)
    assert len(asked) == 3, "what went on is kept too"


def test_a_grid_that_is_asked_anew_forgets_what_was_kept_of_it(
    kept: Path, asked: list[str]
) -> None:
    run()
    run("On {{ city }}")
    run(inputs=CITIES[:1])
    assert len(asked) == 7
    assert count_kept(kept) == 6
    assert run(resume=True).runs[0].result.text == "answer 7"
    assert len(asked) == 7


def test_a_changed_agent_prompt_or_option_is_a_new_run(kept: Path, asked: list[str]) -> None:
    run()
    run(resume=True, system="y")
    run("In {{ city }}", resume=True)
    run(resume=True, params={"top_k": 1})
    run(resume=True, timeout=100)
    assert len(asked) == 12


def test_a_timeout_is_asked_again(kept: Path) -> None:
    prompts: list[str] = []

    @axe_nb.script("slow")
    async def slow(request: Request) -> str:
        prompts.append(request.last)
        if len(prompts) == 1:
            import asyncio

            await asyncio.Event().wait()
        return "now"

    agent = Agent(name="slow", model="script/slow")
    assert axe_nb.grid(agent, "Go", timeout=0.2).runs[0].result.status == "timeout"
    assert axe_nb.grid(agent, "Go", timeout=0.2, resume=True).runs[0].result.text == "now"


def test_repeats_and_the_judge_go_on_too(kept: Path, asked: list[str]) -> None:
    judged: list[str] = []

    @axe_nb.script("judge")
    def judge(request: Request) -> dict[str, Any]:
        judged.append(request.last)
        return {"score": 1, "reason": "yes"}

    judge_agent = Agent(name="j", model="script/judge")
    for _ in range(2):
        grid = run(inputs=CITIES[:1], repeats=3, judge=judge_agent, resume=True)
        assert len({r.result.text for r in grid.runs}) == 3
        assert (len(asked), len(judged)) == (3, 3)


def test_a_map_keeps_and_takes_only_if_it_is_to_be_resumed(kept: Path, asked: list[str]) -> None:
    agent = Agent(name="a", model="script/atlas")
    list(axe_nb.map(agent, ["x", "y"]))
    assert not kept.exists()
    list(axe_nb.map(agent, ["x", "y"], resume=True))
    list(axe_nb.map(agent, ["y", "x", "z", "z"], resume=True))
    assert Counter(asked) == Counter(x=2, y=2, z=2)


def test_the_file_is_private_and_has_no_secrets(
    kept: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_API_KEY", "sk-very-secret-0123456789")
    run("Say sk-very-secret-0123456789 of {{ city }}")
    if os.name == "posix":
        assert kept.stat().st_mode & 0o777 == 0o600
    assert count_kept(kept) == 3
    assert all(b"very-secret" not in one.read_bytes() for one in kept.parent.glob("maps.*"))
    with contextlib.closing(sqlite3.connect(kept)) as file:
        for (text,) in file.execute("SELECT content FROM results"):
            assert text.startswith("axe_nb runs 1.0\n")


def test_without_the_history_the_error_says_what_to_do(
    kept: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "0")
    run()
    assert not kept.exists()
    with pytest.raises(ConfigError, match="needs the history, which is off: AXE_NB_HISTORY=0") as e:
        run(resume=True)
    assert e.value.hint == "resume=PATH keeps the results in a file"
    assert len(asked) == 3


def test_a_damaged_file_stops_no_grid_but_is_told_if_it_is_needed(
    kept: Path, asked: list[str]
) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(b"no database" * 1000)
    assert len(run()) == 3
    with pytest.raises(ConfigError, match="the history of maps cannot be used: file is not"):
        run(resume=True)


def test_results_that_cannot_be_read_are_asked_again(kept: Path, asked: list[str]) -> None:
    run()
    with contextlib.closing(sqlite3.connect(kept)) as file, file:
        file.execute("UPDATE results SET content = replace(content, 'completed', 'eval(1)')")
        file.execute("UPDATE results SET content = 'axe_nb runs 9.0' WHERE id = 2")
    run(resume=True)
    assert len(asked) == 6


@pytest.mark.timeout(60)
def test_a_file_that_another_process_has_locked_is_waited_for_once(
    kept: Path, asked: list[str]
) -> None:
    run()
    done = axe_nb.run(Agent(name="a", model="script/atlas"), "Rome", display=False)
    with contextlib.closing(KeptHistory(is_fresh=True)) as history:
        with contextlib.closing(sqlite3.connect(kept, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for number in range(200):
                history.append(f"{number:x}", done)
        assert "database is locked" in history.problem
        history.append("ff", done)
    assert count_kept(kept) == 4  # those of the grid, and the last one


def test_the_limits_remove_what_is_old_and_the_oldest_of_too_much(kept: Path) -> None:
    with contextlib.closing(MapResults(kept)) as store:
        for number in range(500):
            store.add(f"{number:x}", "x" * 5000)
        store.prune(max_size=500_000)
        assert store.find("0", 0) is None
        assert store.find(f"{499:x}", 0) is not None
        store.prune(max_age=-1)
        assert not store.has_any()


def test_several_grids_may_keep_results_at_once(kept: Path, asked: list[str]) -> None:
    def work(number: int) -> None:
        agent = Agent(name=f"a{number}", model="script/atlas")
        axe_nb.grid(agent, "{{ n }}", inputs=[{"n": n} for n in range(20)], display=False)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count_kept(kept) == 80


GRID = """
import sys, axe_nb
agents = [axe_nb.Agent(name=name, model="openai/one") for name in ("one", "two")]
grid = axe_nb.grid(agents, "{{ input }} of {{ agent }}", inputs=[f"n{n}" for n in range(15)],
                   resume="resume" in sys.argv, concurrency=8)
print(len(grid), sum(run.passed for run in grid.runs))
""".replace(" of {{ agent }}", "")


def test_a_grid_killed_in_the_middle_and_resumed_asks_each_square_exactly_once(
    kept: Path, project: Path
) -> None:
    """The server answers half of the squares, and no more until the process was killed."""
    with counting_model(most=15) as model:
        words = [sys.executable, "-c", GRID]
        environ = {**os.environ, **model.environ}
        environ["AXE_NB_HISTORY"] = "1"
        with subprocess.Popen(words, env=environ) as process:
            assert eventually(lambda: count_kept(kept) == 15, 60)
            process.kill()
        assert model.answered.total() == 15
        model.most = 100
        done = subprocess.run(
            [*words, "resume"], env=environ, capture_output=True, text=True, check=False
        )
        assert done.stdout.split() == ["30", "30"], done.stderr
    assert model.answered == Counter({f"n{n}": 2 for n in range(15)}), "once by each agent"
