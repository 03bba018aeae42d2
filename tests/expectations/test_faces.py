"""Expectations as an option of a run: in Python, in tools and on the command line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import axe_nb
from axe_nb import ConfigError, ExpectationError, Request, cli
from axe_nb.events import Event, RunFinished
from tests.engine.in_process import agent, ask, lead

MET = "child == 2, parallel; no write_file; text contains did"
MISSED = "child <= 1"


@pytest.fixture(autouse=True)
def tree() -> None:
    """A lead that asks its child twice."""
    axe_nb.define(agent("child", lambda r: f"did {r.last}"))
    axe_nb.define(lead(ask("child", "a"), ask("child", "b")))


@pytest.mark.req("D-67")
def test_run_arun_and_stream_return_the_result_or_raise() -> None:
    assert axe_nb.run("lead", "go", expect=MET).ok
    with pytest.raises(ExpectationError) as failure:
        axe_nb.run("lead", "go", expect=MISSED)
    assert failure.value.hint == "look at axe_nb.last().children[1]"
    assert asyncio.run(axe_nb.arun("lead", "go", expect=MET)).ok
    with pytest.raises(ExpectationError):
        asyncio.run(axe_nb.arun("lead", "go", expect=MISSED))
    events: list[Event] = []

    async def collect() -> None:
        async for event in axe_nb.stream("lead", "go", expect=MISSED):
            events.append(event)  # noqa: PERF401

    with pytest.raises(ExpectationError):
        asyncio.run(collect())
    assert isinstance(events[-1], RunFinished)


def test_a_run_in_a_tool_is_checked_too() -> None:
    @axe_nb.tool
    def look() -> str:
        """Runs the child."""
        return axe_nb.run("child", "x", expect="child == 1; depth == 1").text

    def model(request: Request) -> object:
        return axe_nb.call("look") if request.turn == 1 else request.last

    told = axe_nb.run(agent("boss", model, tools=("look",), mode="auto"), "go").text
    told = told.removeprefix("Error: ExpectationError: ")
    assert told == "expectation not met: depth == 1 (found 0); look at the result"


@pytest.mark.parametrize(
    ("expect", "name", "told"),
    [
        ("chidl == 2", "chidl", 'did you mean "child"?'),
        ("no writ_file", "writ_file", 'did you mean "write_file"?'),
        ("child; no cont", "cont", 'did you mean "count"?'),
    ],
)
def test_a_mistake_or_misspelt_name_is_an_error_before_anything_is_sent(
    expect: str, name: str, told: str
) -> None:
    def count() -> str:
        """Counts."""
        return "2"

    asked: list[Request] = []
    below = agent("child", lambda r: asked.append(r) or "x", tools=(count,))
    axe_nb.define(below)
    axe_nb.define(agent("lead", lambda r: asked.append(r) or "x", sub_agents=("child",)))
    for run in (
        lambda: axe_nb.run("lead", "go", expect=expect),
        lambda: list(axe_nb.map("lead", ["a", "b"], expect=expect, display=False)),
        lambda: axe_nb.grid("lead", "{{ input }}", inputs=["a"], expect=expect, display=False),
    ):
        with pytest.raises(ConfigError) as error:
            run()
        assert error.value.hint == f"{told} If not, write agent:{name} or tool:{name}"
    wrong: Any
    for wrong in ("turns <= six", "", 3):
        with pytest.raises(ConfigError):
            axe_nb.run("lead", "go", expect=wrong)
    assert asked == []


def test_an_agent_that_only_a_tool_knows_may_be_named_like_another() -> None:
    @axe_nb.tool
    def look() -> str:
        """Runs an agent of its own."""
        return axe_nb.run(agent("children", "fine"), "x").text

    boss = agent("boss", lambda r: axe_nb.call("look") if r.turn == 1 else "x", tools=("look",))
    assert axe_nb.run(boss, "go", expect="agent:children == 1; no agent:someone_else").ok
    assert axe_nb.run(boss, "go", expect="boss == 1; look == 1").ok


@pytest.mark.req("D-67")
def test_the_command_ends_with_the_error_and_its_code(
    capsys: pytest.CaptureFixture[str], project: object, piped: object
) -> None:
    assert cli.main(["run", "lead", "go", "-q", "--expect", MET]) == 0
    capsys.readouterr()
    assert cli.main(["run", "lead", "go", "-q", "--expect", MISSED]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("did Task: a\n")
    assert said.err.splitlines() == [
        "error: expectation not met: child <= 1 (found 2 runs)", "in agent lead › child (0.2)",
        "run it with -v to see every turn",
    ]  # fmt: skip
    assert cli.main(["run", "lead", "go", "--expect", "turns ~ /x/"]) == 2
