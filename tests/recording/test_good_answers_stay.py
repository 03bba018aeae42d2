"""Good recorded answers that a failed or interrupted run leaves as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ProviderError, Request, Retry, RunResult, call, script, script_server

pytestmark = pytest.mark.usefixtures("project")


class Town:
    """A lead that asks two towns; `state` says how the model of the towns is."""

    state = "good"

    def __init__(self) -> None:
        @script("lead")
        def lead(request: Request) -> Any:
            if request.turn == 1:
                return [call("call_agent", agent=name, task="go") for name in ("a", "b")]
            return f"lead heard: {request.last}"

        @script("town")
        async def town(request: Request) -> str:
            if self.state == "broken" and "A" in request.system:
                raise ProviderError("server", "out of order", status=500)
            if self.state == "slow" and "A" in request.system:
                await asyncio.sleep(20)
            return f"fine, {request.system}"

    def run(self, mode: Any, system: str = "A", **options: Any) -> RunResult:
        for name, text in (("a", system), ("b", "B")):
            axe_nb.define(Agent(name=name, model="openai/town", system_prompt=text, retry=Retry(0)))
        axe_nb.define(Agent(name="lead", model="openai/lead", sub_agents=("a", "b")))
        with script_server("openai"), axe_nb.cassette("a.axe", mode):
            return axe_nb.run("lead", "go", **options)


@pytest.mark.parametrize("mode", ["auto", "record"])
@pytest.mark.parametrize("state", ["broken", "slow"])
def test_a_child_that_fails_or_is_cut_leaves_the_recorded_run_as_it_was(
    mode: str, state: str
) -> None:
    town = Town()
    first = town.run("record")
    assert first.ok
    town.state = state
    bad = town.run(mode, "A, changed", timeout=None if state == "broken" else 1)
    assert not all(run.ok for run in bad.walk())
    assert any("a.axe keeps" in warning for warning in bad.warnings) == (mode == "record")
    again = town.run("replay")
    assert (again.text, again.status) == (first.text, "completed")


def test_what_was_answered_before_a_run_failed_is_not_asked_again() -> None:
    town = Town()
    assert town.run("record").ok
    town.state = "broken"
    town.run("auto", "A, changed")
    town.state = "good"
    result = town.run("auto", "A, changed")
    assert result.ok
    assert town.run("replay", "A, changed").text == result.text


@pytest.mark.parametrize("mode", ["auto", "record"])
@pytest.mark.parametrize("changed", ["model", "nothing"])
def test_a_run_that_fails_leaves_its_recording_as_it_was(mode: str, changed: str) -> None:
    broken = False

    @script("one")
    def one(_: Request) -> str:
        if broken:
            raise ProviderError("server", "out of order", status=500)
        return "fine"

    script("two")(one)

    def run(mode: Any, model: str = "one") -> RunResult:
        agent = Agent(name="one", model=f"openai/{model}", retry=Retry(0))
        with script_server("openai"), axe_nb.cassette("a.axe", mode):
            return axe_nb.run(agent, "go")

    assert run("record").ok
    broken = True
    other = "two" if changed == "model" else "one"
    if (mode, changed) != ("auto", "nothing"):  # which is played
        assert run(mode, other).status == "error"
    assert run("replay").text == "fine"
    broken = False
    assert run("auto", other).text == "fine"
    assert run("replay", other).text == "fine"


def test_a_second_attempt_that_succeeds_replaces_what_was_recorded() -> None:
    tries: list[int] = []

    @script("one")
    def one(request: Request) -> str:
        tries.append(1)
        if len(tries) == 2:
            raise ProviderError("rate_limit", "slow down", status=429, retry_after=0.01)
        return f"answer {len(tries)}"

    agent = Agent(name="one", model="openai/one", retry=Retry(1))
    for text in ("answer 1", "answer 3"):
        with script_server("openai"), axe_nb.cassette("a.axe", "record"):
            assert axe_nb.run(agent, "go").text == text
    with axe_nb.cassette("a.axe", "replay") as cassette:
        assert axe_nb.run(agent, "go").text == "answer 3"
        assert cassette.status().unused == 0
