"""Forks of runs that ended in any way, and of runs that were kept: files, pickles, the history."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ProviderError, Request, RunResult, call, script, tool
from axe_nb.session.portal import run_and_wait
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from tests.engine.in_process import agent, ask, lead
from tests.forks.trees import counted_tree, fork, list_sources, play


def make_note(ran: list[str]) -> Any:
    @tool(read_only=True)
    def note(what: str) -> str:
        ran.append(what)
        return f"noted {what}"

    return note


def say(name: str, *answers: Any) -> list[int]:
    """A script with an answer for each turn; returns the turns that it was asked, in order."""
    asked: list[int] = []

    @script(name)
    def model(request: Request) -> Any:
        asked.append(request.turn)
        answer = answers[request.turn - 1]
        answer = answer(request) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asked


@pytest.mark.req("D-66")
def test_a_failed_request_is_tried_again_where_it_failed() -> None:
    failures = [ProviderError("server", "down", status=500)]
    asked = say(
        "m", call("note", what="x"), lambda r: failures.pop() if failures else f"after {r.last}"
    )
    ran: list[str] = []
    run = play(Agent("a", "script/m", tools=(make_note(ran),)))
    assert run.status == "error"
    again = fork(run, "0/2")
    assert (again.status, again.text) == ("completed", "after noted x")
    assert (asked, ran) == ([1, 2, 2], ["x"])
    assert again.retries == 0


@pytest.mark.req("D-66")
def test_an_error_elsewhere_is_what_it_was() -> None:
    asked = say("w", ProviderError("server", "down", status=500))
    axe_nb.define(Agent("w", "script/w", retry={"max_retries": 1}))  # type: ignore[arg-type]
    run = play(lead(ask("w", "a")))
    assert asked == [1, 1]
    again = fork(run, "0/1")
    assert asked == [1, 1], "the child is asked the same: its error, and its retry, are recorded"
    assert again.children[0].error == run.children[0].error
    assert again.text == run.text
    fork(again, "0.1/1")
    assert asked == [1, 1, 1, 1], "a fork there asks it again"


@pytest.mark.req("D-66", "D-10")
def test_a_run_that_timed_out_goes_on_with_a_new_deadline() -> None:
    slow = [5.0]

    asked: list[int] = []

    async def model(request: Request) -> Any:
        asked.append(request.turn)
        if request.turn == 1:
            return call("note", what="x")
        await asyncio.sleep(slow.pop() if slow else 0)
        return f"after {request.last}"

    run = play(agent("a", model, tools=(make_note([]),)), timeout=0.4)
    assert run.status == "timeout"
    assert fork(run).text == "after noted x"
    assert asked == [1, 2, 2]


async def interrupt(agent: Agent, when: Callable[[], bool]) -> RunResult:
    handle = session.start(RunRequest(agent=agent, prompt="go"))
    task = asyncio.create_task(handle.execute(lambda _: None))
    while not when():  # noqa: ASYNC110 - a thread may set it
        await asyncio.sleep(0.01)
    handle.cancel()
    await asyncio.wait([task])
    assert handle.finished
    return handle.finished


@pytest.mark.req("D-66", "D-32")
def test_an_interrupted_run_goes_on_from_the_results_that_there_are() -> None:
    ran: list[str] = []
    asked = say(
        "m", [call("note", what="x"), call("wait")],
        lambda r: " | ".join(result.content for result in r.results),
    )  # fmt: skip

    @tool(read_only=True)
    async def wait() -> str:
        ran.append("wait")
        await asyncio.sleep(60 if ran.count("wait") == 1 else 0)
        return "waited"

    one = Agent("a", "script/m", tools=(make_note(ran), wait))
    run = run_and_wait(interrupt(one, lambda: "wait" in ran and "x" in ran))
    assert run.status == "cancelled"
    on = fork(run, "0/2")
    assert on.text == "noted x | Error: interrupted before this call had a result."
    assert sorted(ran) == ["wait", "x"], "nothing before the place runs again"
    given = fork(run, "0/1", results={2: "never mind"})
    assert given.text == "noted x | never mind"
    missing = fork(run, "0/1", results={})
    assert missing.text == "noted x | waited", "what has no result is run"
    assert sorted(ran) == ["wait", "wait", "x"]
    assert asked == [1, 2, 2, 2]
    anew = fork(run, "0/1")
    assert anew.ok
    assert sorted(ran) == ["wait", "wait", "wait", "x", "x"]


@pytest.mark.req("D-66")
@pytest.mark.parametrize(
    ("place", "changes"), [("0.1/2", {"reply": "short"}), ("0/1", {"results": {}}), ("0/1", {})]
)
def test_an_interrupted_child_goes_on_without_repeating(
    place: str, changes: dict[str, Any]
) -> None:
    asked: list[str] = []
    ran: list[str] = []
    slow: list[int] = []

    async def worker(request: Request) -> Any:
        who = request.messages[0].content[-1]
        asked.append(f"{who} {request.turn}")
        if request.turn == 1:
            return call("pay", what=who)
        if who == "b":
            slow.append(1)
            await asyncio.sleep(60 if len(slow) == 1 else 0)
        return f"did {who}"

    @tool(read_only=True)
    def pay(what: str) -> str:
        ran.append(what)
        return f"paid {what}"

    axe_nb.define(agent("w", worker, tools=(pay,)))
    run = run_and_wait(interrupt(lead(ask("w", "a"), ask("w", "b")), lambda: bool(slow)))
    asked.clear()
    ran.clear()
    again = fork(run, place, **changes)
    assert again.text.endswith("did b")
    assert (asked, ran) == (["b 2"], [])


KEEPERS: dict[str, Callable[[RunResult], RunResult]] = {
    "save": lambda run: run.save("run.axe") or axe_nb.load("./run.axe"),  # type: ignore[func-returns-value]
    "pickle": lambda run: pickle.loads(pickle.dumps(run)),
    "copy": deepcopy,
    "from_dict": lambda run: RunResult.from_dict(run.to_dict(full=True)),
    "history": lambda run: axe_nb.load(axe_nb.history()[0].id),
}


@pytest.mark.req("D-66", "D-61")
@pytest.mark.parametrize("keep", KEEPERS)
def test_a_run_that_was_kept_is_forked_as_any_other_and_its_fork_too(
    keep: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXE_NB_HISTORY", "1")
    with counted_tree("openai") as (run, counted):
        kept = KEEPERS[keep](run)
        assert kept.definitions == run.definitions
        again = fork(kept, "0.2/2", system_prompt="You are Rome.")
        assert counted.take() == (["lead 2", "lead 3", "town 2"], ["file_report"])
        assert "You are Rome." in again.text
        assert again.warnings == ()
        kept = KEEPERS[keep](again)
        assert (kept, kept.origin) == (again, "0.2/2")
        assert list_sources(kept) == list_sources(again)
        fork(kept, "0.2/2")
        assert counted.take()[0][-1:] == ["town 2"]


@pytest.mark.req("D-66", "D-61")
def test_a_run_whose_process_died_is_forked_with_the_agents_of_now() -> None:
    with counted_tree(None) as (run, counted):
        again = fork(replace(run, definitions=None), "0/3")
        assert counted.take() == (["lead 3"], [])
    assert again.warnings == (
        "the agents of the forked run were not kept; the fork uses the current ones",
    )


@pytest.mark.req("D-66")
def test_what_an_earlier_fork_replaced_stays_replaced() -> None:
    with counted_tree(None) as (run, counted):
        first = fork(run, "0.2/1", prompt="Task: Riga", system_prompt="You are Riga.")
        counted.clear()
        second = fork(first, "0.2/2")
        assert counted.take() == (["town 2"], []), "its system prompt is that of the first fork"
        assert second.text == first.text
        assert second.children[0].prompt == "Task: Riga"
        third = fork(second, "0/3", system_prompt="You end.")
        assert counted.take() == (["lead 3"], [])
        assert "You are Riga." in third.text
        fourth = fork(third, "0.3/2", reply="Oslo?")
        assert "You are Riga." in fourth.text
        assert "You end." in fourth.text
        assert counted.take()[0] == ["lead 2", "lead 3"]


@pytest.mark.req("D-66")
def test_a_conversation_that_was_continued_keeps_its_beginning() -> None:
    say("m", "one", lambda r: f"two of {len(r.messages)}")
    one = Agent("a", "script/m")
    second = axe_nb.run(one, "second", continue_from=play(one), display=False)
    again = fork(second, "0/1", prompt="instead")
    assert [message.content for message in again.messages] == [
        "go", "one", "instead", "two of 3",
    ]  # fmt: skip
