"""Forks counted at the server: exactly what depends on the change is asked and run again."""

from __future__ import annotations

from typing import Any

import pytest

from axe_nb import Response, RunResult, call, script_server
from axe_nb.recording.fork import make_point
from axe_nb.scripting.wire import Protocol
from axe_nb.session.portal import run_and_wait
from axe_nb.session.runs import RunRequest
from axe_nb.session.session import session
from tests.forks.trees import counted_tree, list_sources
from tests.protocols import PROTOCOLS

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)

CASES: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    "root, first turn": (
        "0/1", {"prompt": "Compare well"},
        ["lead 1", "lead 2", "lead 3"], ["file_report", "note start"],
    ),
    "root, middle turn": (
        "0/2", {"prompt": "Be quick"}, ["lead 2", "lead 3"], ["file_report"],
    ),
    "root, last turn": ("0/3", {"system_prompt": "You end."}, ["lead 3"], []),
    "child, first turn": (
        "0.2/1", {"prompt": "Task: Riga"},
        ["lead 2", "lead 3", "town 1", "town 2"], ["file_report", "note Riga"],
    ),
    "child, last turn": (
        "0.2/2", {"system_prompt": "You are Rome."},
        ["lead 2", "lead 3", "town 2"], ["file_report"],
    ),
    "child, last turn, the same answer": ("0.3/2", {}, ["town 2"], []),
    "child, a given reply": (
        "0.2/2", {"reply": "Rome is fine"}, ["lead 2", "lead 3"], ["file_report"],
    ),
}  # fmt: skip


@every_protocol
@pytest.mark.parametrize("case", CASES)
@pytest.mark.req("D-66", "D-59")
def test_a_fork_asks_only_what_depends_on_its_change(protocol: Protocol, case: str) -> None:
    place, changes, asked, ran = CASES[case]
    with counted_tree(protocol) as (run, counted):
        fork = run.fork(place, display=False, **changes)
        assert counted.take() == (asked, ran)
    assert fork.ok
    assert fork.warnings == ()
    assert fork.origin == place
    live = [at for at, source in list_sources(fork).items() if not source]
    assert len(live) == len(asked)
    assert list_sources(fork).keys() == list_sources(run).keys()
    assert (fork.text != run.text) is bool(changes)
    if "reply" in changes:
        assert list_sources(fork)[place] == "given"
        assert (fork.children[0].text, fork.children[0].log[1].usage.total) == ("Rome is fine", 0)


@every_protocol
@pytest.mark.parametrize("place", ["0/1", "0/2", "0/3", "0.2/1", "0.3/2"])
@pytest.mark.req("D-66", "D-32")
def test_a_turn_asked_anew_has_the_body_that_it_had(protocol: Protocol, place: str) -> None:
    with counted_tree(protocol) as (run, counted):
        run.fork(place, display=False)
        assert counted.server
        assert counted.server.requests[0] == run.request(place).body


@every_protocol
@pytest.mark.req("D-66")
def test_results_are_exchanged_and_the_turn_that_asked_for_them_stays(protocol: Protocol) -> None:
    with counted_tree(protocol) as (run, counted):
        rome = run.log[0].calls[1].id
        fork = run.fork("0/1", results={rome: "Rome is closed", 3: "Oslo too"}, display=False)
        assert counted.take() == (["lead 2", "lead 3"], ["file_report"])
    assert [result.content for result in fork.log[0].results] == [
        "noted start", "Rome is closed", "Oslo too",
    ]  # fmt: skip
    assert [result.note for result in fork.log[0].results] == ["", "given", "given"]
    assert fork.children == ()
    assert "Rome is closed" in fork.text
    assert list_sources(fork) == {"0/1": "recorded", "0/2": "", "0/3": ""}


@every_protocol
@pytest.mark.req("D-66")
def test_the_calls_of_a_given_reply_are_made(protocol: Protocol) -> None:
    with counted_tree(protocol) as (run, counted):
        calls = (call("note", what="this"), call("call_agent", agent="town", task="Oslo"))
        fork = run.fork("0/1", reply=Response("Only this.", calls), display=False)
        assert counted.take() == (["lead 2", "lead 3"], ["file_report", "note this"])
    assert [child.id for child in fork.children] == ["0.2"]
    assert fork.children[0].text == run.children[1].text, "it was asked the same, elsewhere"
    assert fork.log[0].text == "Only this."


@every_protocol
@pytest.mark.req("D-66")
def test_another_provider_takes_over_at_the_place(protocol: Protocol) -> None:
    other: Protocol = "openai" if protocol != "openai" else "anthropic"
    with counted_tree(protocol) as (run, counted), script_server(other) as second:
        fork = run.fork("0/2", model=f"{other}/lead", display=False)
        assert (len(second.requests), len(counted.server.requests)) == (2, 0)  # type: ignore[union-attr]
    assert (fork.ok, fork.model, fork.text) == (True, f"{other}/lead", run.text)


@every_protocol
@pytest.mark.req("D-66", "D-32", "D-24")
def test_a_run_that_streamed_is_forked_with_its_reasoning(protocol: Protocol) -> None:
    with counted_tree(protocol) as (_, counted):
        run = run_and_wait(watch(RunRequest(agent="lead", prompt="Compare")))
        counted.clear()
        for place in ("0/2", "0/3", "0.2/2"):
            point = make_point(run, place)
            fork = run_and_wait(watch(RunRequest(agent=None, fork=point)))
            assert counted.server
            assert counted.server.requests[0] == run.request(place).body
            assert counted.server.requests[0]["stream"]
            assert fork.text == run.text
            counted.clear()


async def watch(request: RunRequest) -> RunResult:
    """The result of a run whose replies are shown as they arrive."""
    handle = session.start(request)
    async for _ in handle.events():
        pass
    return handle.result()
