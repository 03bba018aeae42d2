"""Streams of servers that do not keep to the protocol, and what still comes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent
from axe_nb.scripting.wire import Protocol
from tests.protocols import PROTOCOLS, address_of, provider_of
from tests.providers.raw_server import always, raw_server, reply
from tests.providers.streams import FORMS, Answer, chunk, read_stream, sse

END = chunk(finish_reason="stop")


@pytest.mark.parametrize("mark", ["[DONE] ", "[DONE]\r", "[DONE]."])
@pytest.mark.parametrize("events", [[], [END]])
def test_the_end_mark_may_have_something_behind_it(events: list[Any], mark: str) -> None:
    outcome = read_stream("openai", [sse(chunk({"content": "hi"}), *events, mark)])
    assert outcome.response, outcome.error
    assert outcome.response.content == "hi"


ANSWER = Answer(text=["hel", "lo"], calls=[("a", "f", ['{"x": 1}'])])


def interrupted(protocol: str, said: str, answer: Answer = ANSWER) -> bytes:
    """A stream with something before each of its events."""
    stream = FORMS[protocol][0](answer)
    end, start = (b"\n", "") if protocol == "ollama" else (b"\n\n", "data: ")
    alive = f"{start}{said}".encode() + end
    return alive + stream.rstrip(b"\n").replace(end, end + alive) + end


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("said", [": keepalive", "ping"])
def test_a_gateway_that_keeps_its_connections_busy_answers(
    protocol: Protocol, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = interrupted(protocol, said, Answer(text=["hel", "lo"]))
    kind = "application/x-ndjson" if protocol == "ollama" else "text/event-stream"
    with raw_server(always(reply(stream, f"content-type: {kind}"))) as server:
        for variable, value in address_of(protocol, server.url).items():
            monkeypatch.setenv(variable, value)
        params = {"max_tokens": 40_000}  # is streamed, though nobody watches
        agent = Agent("a", f"{provider_of(protocol)}/m", params=params)
        result = axe_nb.run(agent, "hi", display=False)
    assert (result.text, result.error) == ("hello", None)
    assert json.loads(server.requests[0].body)["stream"] is True


@pytest.mark.parametrize("protocol", FORMS)
def test_an_event_whose_json_is_damaged_is_never_left_out(protocol: str) -> None:
    end, start = (b"\n", b"") if protocol == "ollama" else (b"\n\n", b"data: ")
    stream = FORMS[protocol][0](Answer(text=["one", "two", "three"]))
    at = stream.index(b"two") - 5
    damaged = stream[:at] + stream[at : stream.index(end, at)][:4] + stream[stream.index(end, at) :]
    outcome = read_stream(protocol, [start + b"ping" + end + damaged])
    assert outcome.error
    assert "an event of the stream is not a JSON object" in outcome.error.detail
    assert outcome.error.partial_text == "one"


@pytest.mark.req("D-31")
def test_a_stop_reason_at_the_start_does_not_make_a_cut_answer_whole() -> None:
    start = {"type": "message_start", "message": {"content": [], "stop_reason": "end_turn"}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    delta = {"type": "text_delta", "text": "half"}
    events = [start, block, {"type": "content_block_delta", "index": 0, "delta": delta}]
    outcome = read_stream("anthropic", [sse(*events)])
    assert outcome.error
    assert outcome.error.partial_text == "half"
    whole = read_stream("anthropic", [sse(*events, {"type": "message_stop"})])
    assert whole.response
    assert (whole.response.content, whole.response.stop_reason) == ("half", "end_turn")


CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": 1'}}
REST = {"index": 0, "function": {"arguments": "}"}}


@pytest.mark.parametrize(
    "deltas",
    [
        [{"content": "hi"}],
        [{"content": [{"type": "text", "text": "hi"}]}],
        [{"tool_calls": [CALL]}, {"tool_calls": [REST]}],
        [{"content": "hi"}, {"tool_calls": [CALL]}, {"tool_calls": [REST]}],
    ],
)
@pytest.mark.req("D-31")
def test_the_end_mark_completes_an_answer_without_a_finish_reason(deltas: list[Any]) -> None:
    outcome = read_stream("openai", [sse(*map(chunk, deltas), "[DONE]")])
    assert outcome.response, outcome.error
    assert outcome.response.content == outcome.joined("text")
    assert [call.arguments for call in outcome.response.tool_calls] in ([], [{"x": 1}])
    assert outcome.response.stop_reason == ""


@pytest.mark.parametrize(
    "deltas",
    [
        [],
        [{"role": "assistant", "content": ""}],
        [{"reasoning_content": "hm"}],
        [{"tool_calls": [CALL]}],
        [{"content": "hi"}, {"tool_calls": [CALL]}],
        [{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]}],
    ],
)
@pytest.mark.req("D-31")
def test_the_end_mark_alone_completes_no_answer_that_may_be_cut(deltas: list[Any]) -> None:
    outcome = read_stream("openai", [sse(*map(chunk, deltas), "[DONE]")])
    assert outcome.error
    assert "before the answer was complete" in outcome.error.detail
    assert outcome.error.partial_text == outcome.joined("text")
