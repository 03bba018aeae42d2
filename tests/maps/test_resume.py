"""Resume files: what is kept, what is asked again, and files that were damaged or are hostile.

Source: product.md "Exploring" (`resume=`); D-60, D-61; cluster-facts.md §5.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, call
from tests.maps.conftest import Echo, counting_model
from tests.waiting import eventually

pytestmark = pytest.mark.req("E-3", "D-75")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.jsonl"


def ask(echo: Echo, path: Path, *prompts: str, **options: Any) -> list[axe_nb.RunResult]:
    return list(axe_nb.map(options.pop("agent", echo.agent), prompts, resume=path, **options))


@pytest.mark.req("D-60", "D-61")
def test_finished_runs_are_not_asked_again_and_are_the_same(
    echo: Echo, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter2-hunter2-9")
    echo.faults = {"bad": axe_nb.ProviderError("bad_request", "no such parameter", status=400)}
    before = ask(echo, path, "a", "bad", "hunter2-hunter2-9")
    header, *lines = path.read_text().splitlines()
    assert header == "axe_nb runs 2.0"
    assert sorted(json.loads(line)["status"] for line in lines) == ["completed"] * 2 + ["error"]
    assert "hunter2" not in path.read_text()
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text().replace("runs 2.0", "runs 2.7", 1))  # a newer minor version
    again = ask(echo, path, "hunter2-hunter2-9", "bad", "a", "c")
    assert echo.counts == Counter({"a": 1, "hunter2-hunter2-9": 1, "c": 1, "bad": 1})
    assert again[2].to_dict(full=True) == before[0].to_dict(full=True), "exchanges included"
    assert isinstance(again[1].cause, axe_nb.ProviderError)


def test_timed_out_and_cancelled_runs_are_asked_again(echo: Echo, path: Path) -> None:
    echo.hangs = {"never"}
    first = axe_nb.map(echo.agent, ["a", "never", "b"], resume=path, timeout=0.2)
    assert [r.status for r in first] == ["completed", "timeout", "completed"]
    echo.hangs = {"c"}
    found = axe_nb.map(echo.agent, ["a", "c"], resume=path, concurrency=2)
    for _ in found:
        while not echo.counts["c"]:  # else it could be cancelled before it is asked
            time.sleep(0.01)
        found.cancel()
    echo.hangs.clear()
    assert [r.text for r in ask(echo, path, "a", "never", "b", "c")] == ["A", "NEVER", "B", "C"]
    assert echo.counts == Counter({"a": 1, "b": 1, "never": 2, "c": 2})


@pytest.mark.parametrize(
    ("category", "said", "status", "retryable", "passes"),
    [
        ("rate_limit", "slow down", 429, None, True),
        ("server", "unavailable", 503, None, True),
        ("server", "connection refused", None, None, True),
        ("timeout", "no data within 60s", None, None, True),
        ("bad_request", "locked", 409, True, True),
        ("auth", "invalid key", 401, None, True),
        ("bad_request", "Your credit balance is too low", 400, False, True),
        ("bad_request", "no such model", 404, None, True),
        ("bad_request", "max_tokens is too large", 400, None, False),
        ("refusal", "the model refused", None, None, False),
    ],
)
def test_what_may_succeed_later_is_asked_again_and_what_would_fail_again_is_kept(
    category: Any, said: str, status: Any, retryable: Any, passes: bool, echo: Echo, path: Path
) -> None:
    fault = axe_nb.ProviderError(category, said, status=status, retryable=retryable)
    echo.faults = {"a": fault}
    agent = echo.agent.but(retry={"max_retries": 0})
    found = [ask(echo, path, "a", "b", agent=agent, concurrency=1) for _ in range(3)]
    again = "A" if passes else ""
    assert [[r.text for r in results] for results in found] == [["", "B"], *[[again, "B"]] * 2]
    assert again or found[1][0].error == found[0][0].error
    assert echo.counts == Counter({"a": 2 if again else 1, "b": 1})


def test_a_run_that_reached_a_limit_is_kept(path: Path) -> None:
    asked: list[str] = []
    axe_nb.script("busy")(lambda request: asked.append(request.last) or call("list_dir", path="."))
    limits = {"max_requests": 2}
    agent = Agent(name="busy", model="script/busy", tools=("list_dir",), limits=limits)
    for _ in range(2):
        (found,) = axe_nb.map(agent, ["a"], resume=path)
        assert "max_requests" in str(found.error)
    assert len(asked) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"agent": Agent(name="echo", model="script/echo", system_prompt="Be brief.")},
        {"agent": Agent(name="other", model="script/echo")},
        {"params": {"temperature": 1}},
        {"mode": "plan"},
        {"tools": ["grep"]},
        {"output": {"type": "object"}},
        {"vars": {"x": "1"}, "agent": Agent(name="echo", model="script/echo", vars={"x": "0"})},
    ],
)
def test_a_changed_agent_or_option_is_a_new_run(change: Any, echo: Echo, path: Path) -> None:
    ask(echo, path, "a")
    ask(echo, path, "a", **change)
    assert echo.counts["a"] >= 2


def test_a_changed_agent_below_is_a_new_run(echo: Echo, path: Path, project: Path) -> None:
    def lead(request: axe_nb.Request) -> Any:
        return call("call_agent", agent="child", task="go") if request.turn == 1 else "done"

    axe_nb.script("lead")(lead)
    child = project / "axe" / "agents" / "child.toml"
    agent = Agent(name="lead", model="script/lead", sub_agents=("child",))
    for prompt in ("Be one.", "Be one.", "Be two."):
        child.write_text(f'name = "child"\nmodel = "script/echo"\nsystem_prompt = "{prompt}"\n')
        ask(echo, path, "a", agent=agent)
    assert len(echo.asked) == 2


def test_bounds_and_display_change_no_key_equal_prompts_are_runs(echo: Echo, path: Path) -> None:
    ask(echo, path, "a", "a")
    budget = {"max_requests": 5}
    ask(echo, path, "a", "a", timeout=5, stream=False, expect="turns == 1", budget=budget)
    assert echo.counts == Counter({"a": 2})
    ask(echo, path, "a", "a", "a")
    assert echo.counts == Counter({"a": 3})


def test_data_of_the_file_has_the_type_that_was_asked_for(path: Path) -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    answers = ['{"x": 3}']
    axe_nb.script("point")(lambda request: answers.pop())
    agent = Agent(name="point", model="script/point")
    for _ in range(2):
        (found,) = axe_nb.map(agent, ["a"], resume=path, output=Point)
        assert found.data == Point(3)


def test_a_line_that_was_cut_is_asked_again_and_costs_no_other(echo: Echo, path: Path) -> None:
    ask(echo, path, "a", "b", concurrency=1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    ask(echo, path, "a", "b", "c", concurrency=1)
    assert echo.counts == Counter({"a": 1, "b": 2, "c": 1})
    ask(echo, path, "a", "b", "c")
    assert echo.counts == Counter({"a": 1, "b": 2, "c": 1})
    for size in (0, 1, 9, 15):  # of a header that was cut, which is completed
        path.write_bytes(b"axe_nb runs 2.0\n"[:size])
        for _ in range(2):
            ask(echo, path, f"header {size}")
        assert echo.counts[f"header {size}"] == 1


def test_another_file_is_refused_and_not_changed(echo: Echo, path: Path, tmp_path: Path) -> None:
    others = (b"prompt,answer\n1,2\n", b"axe_nb run 2.0\n{}", b"axe_nb runs 3.0\n", b"\0" * 100)
    for content in (*others, b"x" * 5000):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"runs\.jsonl") as raised:
            axe_nb.map(echo.agent, ["a"], resume=path)
        assert ("update axe-nb" in raised.value.hint) == (b"3.0" in content)
        assert path.read_bytes() == content
    with pytest.raises(ConfigError, match="resume file"):
        axe_nb.map(echo.agent, ["a"], resume=tmp_path)
    if os.name == "posix":
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ConfigError, match="not a file"):
            axe_nb.map(echo.agent, ["a"], resume=tmp_path / "pipe")


def test_hostile_lines_are_passed_over(echo: Echo, path: Path) -> None:
    ask(echo, path, "a")
    key = json.loads(path.read_text().splitlines()[1])["key"]
    start = f'{{"key":"{key}","status":"completed","result":{{'
    hostile = [
        "", "null", "[" * 100_000, '{"key": 5}', start, start + "}}", start + '"status":5}}',
        start + '"text":' + "[" * 100_000 + "}}", '{"key":"zz","status":"completed","result":{}}',
        start + '"status":"completed","text":"","agent":"","model":"","children":"x"}}', "\x00",
    ]  # fmt: skip
    path.write_text("axe_nb runs 2.0\n" + "\n".join(hostile) + "\n")
    assert [r.text for r in ask(echo, path, "a")] == ["A"]
    assert echo.counts == Counter({"a": 2}), "none of them is an answer"


def test_processes_append_to_one_file(echo: Echo, path: Path) -> None:
    code = textwrap.dedent("""
        import sys, axe_nb
        axe_nb.script("echo")(lambda request: request.messages[-1].content.upper())
        agent = axe_nb.Agent(name="echo", model="script/echo")
        prompts = [f"{sys.argv[2]} {n}" for n in range(40)]
        assert all(r.ok for r in axe_nb.map(agent, prompts, resume=sys.argv[1]))
    """)
    words = [sys.executable, "-c", code, str(path)]
    processes = [subprocess.Popen([*words, str(n)]) for n in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()[1:]]
    assert len(set(keys)) == 120
    assert len(ask(echo, path, *(f"{m} {n}" for m in range(3) for n in range(40)))) == 120
    assert echo.asked == []


def test_a_file_that_cannot_be_written_is_told_and_stops_no_run(echo: Echo, path: Path) -> None:
    import resource

    ask(echo, path, "a")
    found = axe_nb.map(echo.agent, ["b", "c"], resume=path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        texts = [r.text for r in found]
        grid = axe_nb.grid(echo.agent, "d", resume=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert texts == ["B", "C"]
    assert "runs.jsonl is missing results" in repr(found)
    assert "runs.jsonl is missing results" in grid.note


AGENTS = """
import sys, axe_nb
agents = [axe_nb.Agent(name=name, model="openai/one") for name in ("one", "two")]
options = {"resume": sys.argv[1], "concurrency": 20}
"""

MAP = """
results = list(axe_nb.map(agents[0], (f"n{n}" for n in range(60)), **options))
print(len(results), sum(r.text == "done" for r in results))
"""

GRID = """
grid = axe_nb.grid(agents, "{{ input }}", inputs=[f"n{n}" for n in range(30)], **options)
print(len(grid), sum(run.passed for run in grid.runs))
"""


@pytest.mark.parametrize("code", [MAP, GRID], ids=["map", "grid"])
def test_a_killed_process_begun_again_asks_each_prompt_once(code: str, path: Path) -> None:
    """The server answers half of the prompts, and no more until the process was killed."""
    with counting_model(most=30) as model:
        words = [sys.executable, "-c", AGENTS + code, str(path)]
        with subprocess.Popen(words) as process:
            assert eventually(lambda: path.exists() and path.read_bytes().count(b"\n") > 30, 60)
            process.kill()
        time.sleep(1.0)  # requests that are on their way are held back, too
        assert model.answered.total() == 30
        model.most = 60
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["60", "60"], done.stderr
    times = 1 if code == MAP else 2  # once by each agent
    assert model.answered == Counter({f"n{n}": times for n in range(60 // times)})
