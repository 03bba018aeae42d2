"""Grids over agents as people have them: as files, with judges and sub-agents in files too."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import axe_nb
from axe_nb.errors import ConfigError

pytestmark = pytest.mark.req("E-5", "D-53")

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

JUDGE = """
[output]
type = "object"
required = ["score", "reason"]
properties = {score = {type = "number"}, reason = {type = "string"}}
"""


@pytest.fixture
def agents(project: Path) -> Path:
    """`a`, `b` and `judge`, of which the first two may call `child`."""
    (project / "axe/scripts").mkdir()
    (project / "axe/scripts/all.toml").write_text(RULES)
    for name in ("a", "b", "child", "judge"):
        below = 'sub_agents = ["child"]\n' if name in ("a", "b") else ""
        output = JUDGE if name == "judge" else ""
        text = f'name = "{name}"\nmodel = "script/all"\n{below}{output}'
        (project / f"axe/agents/{name}.toml").write_text(text)
    return project


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_grid_over_two_agents_runs(agents: Path, is_apart: bool) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        executor = pool if is_apart else None
        grid = axe_nb.grid(["a", "b"], "hello", repeats=2, executor=executor, display=False)
    runs = [run.result for variant in (0, 1) for run in grid[0, variant]]
    assert [run.agent for run in runs] == ["a", "a", "b", "b"]
    assert [run.text for run in runs] == ["done"] * 4
    assert [child.text for run in runs for child in run.children] == ["from the child"] * 4


def test_a_judge_may_be_a_file_too(agents: Path) -> None:
    grid = axe_nb.grid(["a", "b"], "hello", judge="judge", display=False)
    assert [grid[0, variant][0].score for variant in (0, 1)] == [1, 1]
    assert grid[0, 1][0].reason == "as it should be"


def test_an_agent_that_is_not_there_is_named(agents: Path) -> None:
    with pytest.raises(ConfigError, match="c"):
        axe_nb.grid(["a", "c"], "hello", display=False)


def test_the_runs_of_a_grid_keep_the_agents_that_they_began_with(agents: Path) -> None:
    file = agents / "axe/agents/b.toml"

    def change(result: axe_nb.RunResult, row: object) -> bool:
        file.write_text(file.read_text().replace("script/all", "script/none"))
        return True

    grid = axe_nb.grid(["b"], "hello", repeats=3, score=change, concurrency=1, display=False)
    assert [run.result.text for run in grid[0, 0]] == ["done"] * 3
