"""Conversations with a model server by others, over each protocol, whole and streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TypedDict

import pytest

from axe_nb import Agent, Request
from axe_nb.events import Event, TextDelta
from axe_nb.messages import Delta, Message, Response
from axe_nb.session.overrides import Overrides
from axe_nb.session.session import session
from tests.engine.in_process import ask_session
from tests.protocols import address_of, provider_of
from tests.providers.aimock import Aimock, aimock
from tests.providers.dialects import CALL_AGENT, DIALECTS, Dialect

MODEL = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-4o-mini",
    "responses": "gpt-6.1-terra",
    "ollama": "llama3.2",
}
TEXTS = ("plan the trip", "look north", "look süd", "think first", "tool before text")

each_protocol = pytest.mark.parametrize("dialect", DIALECTS, ids=str)


@pytest.fixture(scope="module")
def server() -> Iterator[Aimock]:
    with aimock("--chunk-size", "7") as running:
        yield running


@pytest.fixture
def addressed(server: Aimock, dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> Aimock:
    """The server, as the address of a protocol."""
    for variable, value in address_of(dialect.name, server.url).items():
        monkeypatch.setenv(variable, value)
    return server


def send(server: Aimock, dialect: Dialect, text: str) -> tuple[Response, Response, list[Delta]]:
    """The whole reply, the streamed one, and its pieces."""
    pieces: list[Delta] = []
    request = Request(MODEL[dialect.name], (Message("user", text),), tools=(CALL_AGENT,))

    async def both() -> tuple[Response, Response]:
        provider = dialect.make(server.url, "sk-none")
        return await provider.send(request), await provider.send(request, pieces.append)

    return *asyncio.run(both()), pieces


@pytest.mark.req("D-24")
@each_protocol
@pytest.mark.parametrize("text", TEXTS)
def test_a_streamed_reply_says_the_same_as_a_whole_one(
    server: Aimock, dialect: Dialect, text: str
) -> None:
    whole, streamed, pieces = send(server, dialect, text)
    assert (whole.content, whole.stop_reason) == (streamed.content, streamed.stop_reason)
    calls = [[(c.name, c.arguments) for c in one.tool_calls] for one in (whole, streamed)]
    assert calls[0] == calls[1], "the ids are made anew for each reply"
    assert (whole.usage, whole.content != "") == (streamed.usage, True)
    said = "".join(piece.text for piece in pieces if piece.kind == "text")
    assert said == streamed.content


@pytest.mark.req("D-8")
@each_protocol
def test_an_agent_delegates_in_parallel_and_goes_on(addressed: Aimock, dialect: Dialect) -> None:
    model = f"{provider_of(dialect.name)}/{MODEL[dialect.name]}"
    session.define(Agent("guide", model))
    events: list[Event] = []
    lead = Agent("lead", model, sub_agents=("guide",))
    result = asyncio.run(ask_session(session, lead, "plan the trip", emit=events.append))
    assert result.ok, result.error
    assert result.text == "North has fjords, the south has vineyards: take the train."
    assert [child.text for child in result.children] == [
        "Fjords, and rain 🌧 all week.",
        "Vineyards; a view «like a painting».",
    ]
    assert {event.run for event in events if isinstance(event, TextDelta)} == {"0", "0.1", "0.2"}
    statuses = [
        entry["response"]["status"]
        for entry in addressed.journal()
        if entry["body"].get("model") == MODEL[dialect.name]
    ]
    assert statuses
    assert set(statuses) <= {200, 429}


class Town(TypedDict):
    name: str
    people: int


@each_protocol
@pytest.mark.parametrize("prompt", ["name a town", "an old server", "a hasty town"])
def test_an_answer_is_data_by_the_form_a_tool_or_a_repair(
    addressed: Aimock, dialect: Dialect, prompt: str
) -> None:
    agent = Agent("one", f"{provider_of(dialect.name)}/{MODEL[dialect.name]}")
    events: list[Event] = []
    overrides = Overrides(output=Town)
    result = asyncio.run(ask_session(session, agent, prompt, overrides, events.append))
    knows_form = dialect.name == "openai"  # of all, the only form that aimock looks at
    other = {"name": "Bonn", "people": 4}
    is_other = prompt == "name a town" and not knows_form
    assert result.data == (other if is_other else {"name": "Ulm", "people": 3}), result.error
    assert result.turns == (2 if prompt == "a hasty town" else 1)
    assert [e for e in events if isinstance(e, TextDelta)] or prompt == "an old server"
