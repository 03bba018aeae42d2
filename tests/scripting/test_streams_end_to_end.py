"""Runs whose models stream over a real socket, through the providers, to the events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import ProviderError, Request, RunResult, call
from axe_nb.events import Event, RunFinished, RunStarted, TextDelta
from axe_nb.messages import Delta
from axe_nb.scripting.lookup import functions
from axe_nb.scripting.rules import Fault
from axe_nb.scripting.server import script_server
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, provider_of
from tests.waiting import eventually

TEXT = "Twenty-seven “keys”,\u2028\U0001f600 no less."


@pytest.fixture(autouse=True)
def scripts(project: Path) -> Iterator[None]:
    """Only the functions of the test."""
    functions.clear()
    yield
    functions.clear()


@axe_nb.tool
def look(at: str) -> str:
    """Looks."""
    return f"saw {at}"


def agent(protocol: str, **fields: Any) -> axe_nb.Agent:
    return axe_nb.Agent(
        name="lead", model=f"{provider_of(protocol)}/talks", tools=(look,), **fields
    )


def watch(one: axe_nb.Agent, **options: Any) -> tuple[RunResult, list[Event]]:
    """The result of a run that is watched, and its events."""

    async def collect() -> list[Event]:
        return [event async for event in axe_nb.stream(one, "go", **options)]

    seen = asyncio.run(collect())
    end = seen[-1]
    assert isinstance(end, RunFinished)
    return end.result, seen


def joined(seen: list[Event], kind: str, **of: Any) -> str:
    """The pieces of one kind."""
    return "".join(
        event.text
        for event in seen
        if isinstance(event, TextDelta)
        and event.kind == kind
        and all(getattr(event, key) == value for key, value in of.items())
    )


def record(result: RunResult) -> Any:
    """What a run comes to, but for its time and what only the wire says."""
    full = result.to_dict()
    del full["duration_ms"]
    return full, [(m.role, m.content, m.tool_calls, m.tool_results) for m in result.messages]


def talking(request: Request) -> Any:
    """A model that thinks, writes, calls, and answers."""
    if request.results:
        yield TEXT
        return
    yield Delta("Let me ", "reasoning")
    yield Delta("see. ", "reasoning")
    yield "I "
    yield "look."
    yield call("look", at="here")
    yield call("look", at="there")


@pytest.mark.req("D-24")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_parts_of_a_reply_arrive_and_the_record_is_that_of_whole_replies(
    protocol: Protocol,
) -> None:
    axe_nb.script("talks")(talking)
    with script_server(protocol) as server:
        result, seen = watch(agent(protocol))
        whole, unseen = watch(agent(protocol), stream=False)
    asked = [body.get("stream", False) for body in server.requests]
    assert asked == [True, True, False, False]
    assert joined(unseen, "text") == ""
    assert (result.status, result.text) == ("completed", TEXT)
    assert joined(seen, "reasoning") == "Let me see. "
    assert joined(seen, "text", turn=1) == "I look."
    assert joined(seen, "text", turn=2) == TEXT
    assert joined(seen, "arguments", call=0).replace(" ", "") == '{"at":"here"}'
    assert joined(seen, "arguments", call=1).replace(" ", "") == '{"at":"there"}'
    named = [e.name for e in seen if isinstance(e, TextDelta) and e.kind == "arguments" and e.name]
    assert set(named) == {"look"}
    assert record(result) == record(whole)


@pytest.mark.req("D-8", "D-24")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("how", ["timeout", "interrupt"])
def test_text_that_arrived_before_a_timeout_or_an_interrupt_is_kept(
    protocol: Protocol, how: str
) -> None:
    @axe_nb.script("talks")
    async def talks(request: Request) -> Any:
        yield "Half of "
        yield "it"
        yield Fault("timeout")

    async def work() -> RunResult:
        handle = start_run(agent(protocol), timeout=1.5 if how == "timeout" else None)
        seen = []

        def emit(event: Event) -> None:
            seen.append(event)
            if joined(seen, "text") == "Half of it" and how == "interrupt":
                handle.cancel()

        try:
            return await handle.execute(emit, streams=True)
        except asyncio.CancelledError:
            assert handle.finished
            return handle.finished

    with script_server(protocol) as server:
        result = asyncio.run(work())
        assert result.text == "Half of it"
        assert result.status == {"timeout": "timeout", "interrupt": "cancelled"}[how]
        assert eventually(lambda: (server.open_requests, server.aborted) == (0, 1))


def start_run(one: axe_nb.Agent, timeout: float | None) -> Any:
    from axe_nb.session.overrides import Overrides
    from axe_nb.session.runs import RunRequest
    from axe_nb.session.session import Session

    request = RunRequest(agent=one, prompt="go", overrides=Overrides(timeout=timeout))
    return Session().start(request)


@pytest.mark.req("D-24", "D-31")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("fault", "category"),
    [
        (Fault("busy", 529), "overloaded"), (Fault("cut"), "server"), (Fault("refused"), "server"),
    ],
    ids=["event", "cut", "chunk"],
)  # fmt: skip
def test_text_that_arrived_before_an_error_is_kept(
    protocol: Protocol, fault: Fault, category: str
) -> None:
    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        yield "Half of "
        yield "it"
        yield fault

    with script_server(protocol):
        result, seen = watch(agent(protocol))
    assert (result.status, result.text) == ("error", "Half of it")
    assert joined(seen, "text") == "Half of it"
    assert isinstance(result.cause, ProviderError)
    if protocol == "anthropic" or category == "server":  # the others name no kind of error
        assert result.cause.category == category


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cut_stream_is_the_same_error_in_process_and_over_the_wire(protocol: Protocol) -> None:
    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        yield "Half"
        yield Fault("cut")

    with script_server(protocol):
        over_the_wire, _ = watch(agent(protocol))
    in_process, _ = watch(agent("script"))
    assert isinstance(over_the_wire.cause, ProviderError)
    assert isinstance(in_process.cause, ProviderError)
    assert in_process.error == over_the_wire.error
    assert in_process.cause.hint == over_the_wire.cause.hint


@pytest.mark.req("D-23")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_retry_after_half_a_stream_begins_the_text_anew(protocol: Protocol) -> None:
    attempts = 0

    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        nonlocal attempts
        attempts += 1
        yield "One "
        if attempts == 1:
            yield Fault("busy", 503)
        yield "two."

    with script_server(protocol):
        result, seen = watch(agent(protocol, retry=axe_nb.Retry(max_retries=1)))
    assert (result.text, attempts) == ("One two.", 2)
    assert joined(seen, "text", attempt=1) == "One "
    assert joined(seen, "text", attempt=2) == "One two."


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_children_stream_too(protocol: Protocol) -> None:
    @axe_nb.script("talks")
    def talks(request: Request) -> Any:
        if request.turn == 1:
            yield call("call_agent", agent="child", task="look")
        else:
            yield f"It said: {request.results[0].content}"

    @axe_nb.script("child")
    def child(request: Request) -> Any:
        yield "A bird, "
        yield "two."

    axe_nb.define(axe_nb.Agent("child", f"{provider_of(protocol)}/child"))
    with script_server(protocol):
        one = axe_nb.Agent("lead", f"{provider_of(protocol)}/talks", sub_agents=("child",))
        result, seen = watch(one)
    assert result.text == "It said: A bird, two."
    assert joined(seen, "text", run="0.1") == "A bird, two."
    assert sum(isinstance(event, RunStarted) for event in seen) == 2
