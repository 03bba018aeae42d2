"""What is special to the Responses API: its items, their order, and what goes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Response, Usage
from tests.providers.dialects import (
    BY_NAME,
    MODULES,
    ask,
    make_call,
    make_message,
    make_reasoning,
    make_response,
)
from tests.providers.streams import read_stream, read_whole, sse
from tests.wire.replay import Replay

RESPONSES = BY_NAME["responses"]

SEARCH = {
    "type": "web_search_call", "id": "ws_1", "status": "completed",
    "action": {"type": "search", "query": "Ulm", "sources": []},
}  # fmt: skip

CITED = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "phase": "commentary",
    "content": [{
        "type": "output_text", "text": "Ulm, it says.", "logprobs": [],
        "annotations": [{"type": "url_citation", "url": "https://a.example", "title": "A",
                         "start_index": 0, "end_index": 3}],
    }],
}  # fmt: skip

TURN = [
    make_reasoning("First."), SEARCH, CITED, {**make_reasoning("Then."), "id": "rs_2"},
    make_call(0, "call_1", "look", '{"at": "a"}'), make_call(1, "call_2", "look", '{"at":"b"}'),
]  # fmt: skip


def parse(*items: dict[str, Any], stop: str = "stop", **more: Any) -> Response:
    outcome = read_whole("responses", json.dumps({**make_response(items, stop), **more}).encode())
    if outcome.error:
        raise outcome.error
    assert outcome.response
    return outcome.response


def sent(request: Any) -> dict[str, Any]:
    """The body of a request, which is held against the types of the SDK."""
    body: dict[str, Any] = json.loads(MODULES["responses"].PROVIDER.body(request))
    return body


def failure(*items: dict[str, Any], **more: Any) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        parse(*items, **more)
    return raised.value


@pytest.mark.req("D-17", "D-32")
def test_reasoning_stays_out_with_the_call_that_it_led_to() -> None:
    response = parse(*TURN)
    without = sent(ask(Message("user", "Where?"), response.message(calls=False)))["input"]
    assert without[1:] == TURN[:3]
    alone = parse(make_reasoning("hm"), make_call(0, "c", "look", "{}"))
    assert sent(ask(Message("user", "?"), alone.message(calls=False)))["input"][1:] == []


@pytest.mark.req("D-24")
@pytest.mark.parametrize("has_pieces", [False, True])
def test_a_stream_whose_last_event_lacks_the_output_has_that_of_its_items(has_pieces: bool) -> None:
    events: list[dict[str, Any]] = []
    for index, item in enumerate(TURN):
        at = {"output_index": index}
        events.append({"type": "response.output_item.added", **at, "item": {**item, "content": []}})
        if has_pieces and item is CITED:
            events.append({"type": "response.output_text.delta", **at, "delta": "Ulm, it says."})
        events.append({"type": "response.output_item.done", **at, "item": item})
    end = {"type": "response.completed", "response": make_response([], "stop")}
    outcome = read_stream("responses", [sse(*events, end)])
    assert outcome.response == parse(*TURN)
    assert outcome.joined("text") == "Ulm, it says."
    assert outcome.joined("reasoning") == outcome.response.reasoning == "First.\n\nThen."
    assert outcome.joined("arguments", 1) == '{"at":"b"}'
    assert [(d.call, d.name) for d in outcome.deltas if d.name] == [(0, "look"), (1, "look")]


@pytest.mark.req("D-31")
def test_a_call_whose_end_never_came_is_not_run_without_its_arguments() -> None:
    at, call = {"output_index": 0}, make_call(0, "c1", "look", '{"at":"b"}')
    events = [
        {"type": "response.output_item.added", **at, "item": {**call, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", **at, "delta": call["arguments"]},
    ]
    whole = {"type": "response.completed", "response": make_response([call], "stop")}
    bare = {"type": "response.completed", "response": make_response([], "stop")}
    assert read_stream("responses", [sse(*events, whole)]).response == parse(
        call, stop="tool_calls"
    )
    outcome = read_stream("responses", [sse(*events, bare)])
    assert str(outcome.error) == "server: response contains no whole answer"


@pytest.mark.req("B-5")
def test_a_refusal_is_an_error_with_the_models_reason() -> None:
    declined = {**make_message(""), "content": [{"type": "refusal", "refusal": "I will not."}]}
    error = failure(declined)
    assert (error.category, error.detail) == ("refusal", "I will not.")
    both = {**declined, "content": [*make_message("Well. ")["content"], *declined["content"]]}
    response = parse(both, make_call(0, "c", "look", "{}"))
    assert (response.content, response.stop_reason) == ("Well. ", "refusal")
    assert response.tool_calls == ()
    filtered = failure(status="incomplete", incomplete_details={"reason": "content_filter"})
    assert filtered.category == "refusal"
    assert "content filter" in filtered.detail


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("server_error", "server"), ("rate_limit_exceeded", "rate_limit"),
        ("invalid_prompt", "refusal"), ("bio_policy", "refusal"),
        ("image_too_large", "bad_request"), ("something_new", "server"),
    ],
)  # fmt: skip
def test_a_reply_that_has_failed_is_an_error_of_its_code(code: str, category: str) -> None:
    error = failure(status="failed", error={"code": code, "message": "it broke"})
    assert (error.category, error.detail.partition(" (")[0]) == (category, "it broke")


@pytest.mark.req("A-8.8")
def test_usage_has_the_kinds_of_tokens() -> None:
    usage = {
        "input_tokens": 100, "output_tokens": 50, "total_tokens": 150,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20},
        "output_tokens_details": {"reasoning_tokens": 40},
    }  # fmt: skip
    assert parse(make_message("x"), usage=usage).usage == Usage(
        100, 50, cached_tokens=60, cache_write_tokens=20, reasoning_tokens=40
    )


@pytest.mark.req("D-49", "D-73")
def test_params_of_chat_completions_mean_the_same_over_this_api() -> None:
    params = {"reasoning_effort": "low", "verbosity": "low", "max_completion_tokens": 9}
    body = sent(ask(params=params))
    assert (body["reasoning"], body["text"]) == ({"effort": "low"}, {"verbosity": "low"})
    assert body["max_output_tokens"] == 9
    assert not params.keys() & body.keys()
    both = sent(ask(params={"thinking": "low", "reasoning_effort": "high"}))
    assert both["reasoning"]["effort"] == "high", "the key in the vendor's own form is as it is"
    own = {"reasoning": {"effort": "high"}, "text": {"verbosity": "high"}, "max_output_tokens": 5}
    assert sent(ask(params={**params, **own})).items() >= own.items()


def test_a_server_that_refuses_encrypted_reasoning_is_asked_without_it() -> None:
    refused = {"error": {"message": "Encrypted content is not supported with this model.",
                         "type": "invalid_request_error", "param": "include"}}  # fmt: skip
    good = {"status": 200, "body": RESPONSES.reply("hello", (), "stop")}
    with Replay({"x": {"sequence": [{"status": 400, "body": refused}, good]}}) as server:
        assert RESPONSES.send(server.url("x")).content == "hello"
        assert ["include" in asked.body for asked in server.log("x")] == [True, False]
