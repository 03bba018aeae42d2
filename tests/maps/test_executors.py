"""Maps on real executors: pools of threads and processes, a Dask cluster, engines of ipyparallel.

Source: product.md "Exploring"; issue 13; cluster-facts.md §2-4.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, RunResult
from axe_nb.exploring.grid import show_grid
from tests.maps.cluster_code import AGENT, dask, engines, make_pool, register
from tests.maps.conftest import counting_model
from tests.recording.runs import without_times

pytestmark = [
    pytest.mark.req("E-4"),
    pytest.mark.filterwarnings("ignore"),  # of the clusters' own threads
]

PROMPTS = [f"p{'x' * n}" for n in range(7)] + ["fail"]


Start = Callable[[str], Any]
"""Kind → its executor, started when a test first needs it."""


@pytest.fixture(autouse=True)
def known() -> None:
    register()


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    kinds: dict[str, Any] = {"processes": make_pool, "dask": dask, "ipyparallel": engines}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as ends, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("CLUSTER_KEY_API_KEY", "s3cret-of-workers")
        # distributed sets it whenever it starts a worker again, also in the middle of a later test
        patch.setenv("__DASK_PARENT_PID", str(os.getpid()))
        yield cache(lambda kind: ends.enter_context(kinds[kind]()))


@pytest.fixture
def pool(start: Start) -> Any:
    return start("processes")


@pytest.fixture(params=["processes", "dask", "ipyparallel"])
def executor(request: pytest.FixtureRequest, start: Start) -> Iterator[Any]:
    warnings.simplefilter("ignore")  # of the clusters' own threads
    before = dict(os.environ)
    yield start(request.param)
    os.environ.clear()  # distributed sets variables when it starts a worker
    os.environ.update(before)


def test_results_are_equal_to_those_of_this_process(executor: Any) -> None:
    here = list(axe_nb.map(AGENT, PROMPTS))
    there = axe_nb.map(AGENT, (p for p in PROMPTS), executor=executor, concurrency=4)
    assert [without_times(r) for r in there] == [without_times(r) for r in here]
    assert [r.messages for r in there] == [r.messages for r in here]
    assert [r.status for r in there] == ["completed"] * 7 + ["error"]
    assert isinstance(there.results[-1].cause, axe_nb.ProviderError)
    assert axe_nb.last() is None


def test_async_for_budget_and_resume_file_work_there_too(executor: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"

    async def ask() -> list[str]:
        options: Any = {"budget": {"max_requests": 4}, "concurrency": 2, "resume": path}
        found = axe_nb.map(AGENT, PROMPTS[:6], executor=executor, **options)
        texts = [r.text async for r in found]
        assert found.stopped == "the budget of this map was reached: max_requests = 4"
        return texts

    texts = asyncio.run(ask())
    assert 2 <= len(texts) < 6
    assert len(path.read_text().splitlines()) == 1 + len(texts)
    again = axe_nb.map(AGENT, PROMPTS[:6], resume=path)
    assert [r.text for r in again][:2] == ["p: 2", "px: 4"]


def test_agents_of_files_travel_as_they_were_read(executor: Any, project: Path) -> None:
    agents = project / "axe" / "agents"
    (project / "axe" / "scripts").mkdir()
    (project / "note.txt").write_text("the note")
    (project / "axe" / "scripts" / "lead.toml").write_text(
        '[[rule]]\nwhen.turn = 1\ncalls = [{tool = "call_agent", arguments = {agent = "child", '
        'task = "go"}}]\n[[rule]]\ntext = "all done"\n'
    )
    (project / "axe" / "scripts" / "child.toml").write_text('[[rule]]\ntext = "done"\n')
    (agents / "lead.toml").write_text(
        'name = "lead"\nmodel = "script/lead"\nsub_agents = ["child"]\nfiles = ["note.txt"]\n'
    )
    (agents / "child.toml").write_text('name = "child"\nmodel = "script/child"\n')
    here = list(axe_nb.map("lead", ["a", "b"]))
    found = axe_nb.map("lead", ["a", "b"], executor=executor)
    for file in (*agents.glob("*"), *(project / "axe" / "scripts").glob("*")):
        file.unlink()
    assert [without_times(r) for r in found] == [without_times(r) for r in here]
    assert here[0].ok
    assert "the note" in here[0].exchanges[0].system


@pytest.mark.req("D-60")
def test_a_key_that_workers_lack_is_told_before_the_first_job_and_none_travels(
    executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(name="one", model="openai/one")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-process-1234567890")
    with counting_model() as model:
        with pytest.raises(ConfigError, match="on a worker: no API key") as error:
            axe_nb.map(agent, ["a"], executor=executor)
        assert "OPENAI_API_KEY" in error.value.message
        leaky = agent.but(system_prompt="use sk-of-this-process-1234567890")
        with pytest.raises(ConfigError, match="OPENAI_API_KEY would be sent with the jobs"):
            axe_nb.map(leaky, ["a"], executor=executor)
        assert model.answered == Counter()


def test_a_worker_uses_the_keys_and_settings_of_its_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config" / "axe" / "config.toml"
    config.parent.mkdir(parents=True)
    with counting_model() as model:
        config.write_text(
            f'[providers.mine]\nprotocol = "openai"\napi_key_env = "CLUSTER_KEY_API_KEY"\n'
            f'base_url = "{os.environ["AXE_OPENAI_BASE_URL"]}"\n'
        )
        monkeypatch.setenv("CLUSTER_KEY_API_KEY", "s3cret-of-workers")
        agent = Agent(name="one", model="mine/one")
        with make_pool() as pool:
            found = axe_nb.map(agent, ["a", "b", "c"], executor=pool)
            assert [r.text for r in found] == ["done"] * 3
        assert model.answered == Counter("abc")


def test_a_large_common_part_travels_once_for_each_worker(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    submit = pool.submit
    monkeypatch.setattr(
        pool, "submit", lambda function, job: sizes.append(len(job)) or submit(function, job)
    )
    agent = AGENT.but(system_prompt="long " * 10_000)
    found = axe_nb.map(agent, [f"p{n}" for n in range(30)], executor=pool, concurrency=2)
    assert all(r.ok for r in found)
    assert sum(size > 50_000 for size in sizes) <= 4
    assert sum(size < 5_000 for size in sizes) == 30


def test_the_runs_of_a_worker_that_dies_can_be_asked_again(executor: Any, tmp_path: Path) -> None:
    is_pool = isinstance(executor, Executor)
    prompts = ["a", f"die {tmp_path / 'marker'}", *map(str, range(20))]
    resume = tmp_path / "runs.jsonl"
    own = make_pool() if is_pool else executor  # it will break
    found = axe_nb.map(AGENT, prompts, executor=own, concurrency=2, resume=resume)
    list(found)
    assert (tmp_path / "marker").exists()
    assert ("accepts no more jobs: BrokenProcessPool" in found.stopped) == is_pool
    again = list(axe_nb.map(AGENT, prompts, executor=executor, concurrency=2, resume=resume))
    assert [r.error for r in again] == [None] * 22


def connect_anew(executor: Any) -> tuple[Any, Any]:
    """An executor with the same workers, and what closes it."""
    if isinstance(executor, Executor):
        pool = make_pool()
        return pool, lambda: pool.shutdown(wait=False, cancel_futures=True)
    is_dask = hasattr(executor, "scheduler")
    client: Any = (
        type(executor)(executor.scheduler.address)
        if is_dask
        else executor.cluster.connect_client_sync()
    )
    return client, client.close


def test_an_executor_that_is_closed_in_mid_map_is_the_reason_and_the_rest_can_be_resumed(
    executor: Any, tmp_path: Path
) -> None:
    own, close = connect_anew(executor)
    prompts = [f"wait {n}" for n in range(40)]
    resume = tmp_path / "runs.jsonl"
    found = axe_nb.map(AGENT, prompts, executor=own, concurrency=4, resume=resume)
    for number, _ in enumerate(found):
        if number == 3:
            close()
    assert len(found.results) < 40
    assert "the executor" in found.stopped
    assert found.stopped in repr(found)
    assert {r.error for r in found.failures} == {found.stopped}
    assert {r.status for r in found.failures} == {"cancelled"}
    again = list(axe_nb.map(AGENT, prompts, resume=resume))
    assert [r.error for r in again] == [None] * 40
    with pytest.raises(ConfigError, match=r"closed|shut") as error:
        axe_nb.map(AGENT, ["a"], executor=own)
    assert "create a new" in error.value.hint


def test_an_interrupt_leaves_running_jobs_behind(pool: Any) -> None:
    found = axe_nb.map(AGENT, ["a", "b", "c"], executor=pool, concurrency=2)
    results = iter(found)
    assert next(results).text == "a: 2"
    began = time.monotonic()
    threading.Timer(0.0, found.cancel).start()
    list(results)
    assert time.monotonic() - began < 4.0


def test_with_a_cassette_the_runs_are_in_this_process(pool: Any, tmp_path: Path) -> None:
    prompts = ["a", "b", "a"]
    with axe_nb.cassette(tmp_path / "c", mode="record"):
        recorded = axe_nb.map(AGENT, prompts, executor=pool)
        texts = [r.text for r in recorded]
    assert "in this process" in repr(recorded)
    with axe_nb.cassette(tmp_path / "c", mode="replay"):
        assert [r.text for r in axe_nb.map(AGENT, prompts, executor=pool)] == texts
    with axe_nb.cassette(tmp_path / "c", mode="live"):
        assert "in this process" not in repr(axe_nb.map(AGENT, prompts, executor=pool))


@pytest.mark.req("E-4", "E-5")
def test_a_grid_with_a_judge_is_the_same_on_each_executor(executor: Any) -> None:
    agents = [AGENT, AGENT.but(name="other", system_prompt="x" * 20_000)]
    judge = Agent(name="judge", model="script/grader")
    options: Any = {"inputs": ["a", "fail", "bb"], "repeats": 2, "judge": judge, "concurrency": 4}

    def score(result: RunResult, row: Any) -> bool:
        return result.text == f"{row['input']}: {2 * len(row['input'])}"

    here = axe_nb.grid(agents, "{{ input }}", score=score, **options)
    there = axe_nb.grid(agents, "{{ input }}", score=score, executor=executor, **options)
    assert here.runs[0].judgement is not None
    assert show_grid(there) == show_grid(here)
    for one, other in zip(here.runs, there.runs, strict=True):
        judged = [run.judgement and run.judgement.text for run in (one, other)]
        assert (one.reason, judged[0]) == (other.reason, judged[1])


CODE = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
import axe_nb, helpers

@dataclass
class Town:
    name: str
    people: int

def run_all():
    @axe_nb.tool
    def people(town: str) -> int:
        return len(town)

    @axe_nb.script("lead")
    def lead(request):
        if request.turn == 1:
            return [axe_nb.call(name, town=request.last) for name in ("people", "shout")]
        people, name = request.results
        return {"name": name.content, "people": int(people.content)}

    axe_nb.tool(helpers.shout)
    axe_nb.define(axe_nb.Agent("lead", "script/lead", tools=["people", "shout"]))
    for method in ("spawn", "forkserver"):
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            runs = list(axe_nb.map("lead", ["Ulm", "Paris"], executor=pool, output=Town))
        print([run.error or run.data for run in runs], isinstance(runs[0].data, Town))

run_all()
"""


@pytest.mark.req("D-61")
@pytest.mark.skipif(sys.platform == "win32", reason="has no fork server")
def test_functions_and_types_travel_to_new_processes(tmp_path: Path) -> None:
    """Those of code that has no file to import, as that of cells, and of a module beside it."""
    beside = "def shout(town: str) -> str:\n    return town.upper()\n"
    (tmp_path / "helpers.py").write_text(beside)
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    told = "[Town(name='ULM', people=3), Town(name='PARIS', people=5)] True\n"
    assert done.stdout == told * 2, done.stderr
