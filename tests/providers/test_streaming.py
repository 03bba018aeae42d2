"""A streamed reply gives the same answer as a whole one, and its pieces on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest

from axe_nb.messages import Delta, ToolCall, Usage
from tests.providers.dialects import DIALECTS, MODULES, Dialect
from tests.providers.fuzz import KINDS, run
from tests.providers.streams import (
    FORMS,
    Answer,
    Outcome,
    chunk,
    cut,
    read_stream,
    read_whole,
    single_bytes,
    sse,
)
from tests.wire.replay import FIXTURES, bytes_of

each = pytest.mark.parametrize("dialect", DIALECTS, ids=str)

ANSWER = Answer(
    text=("Grüße ", "😀", "\u2028", " and so on."),
    reasoning=("Let me ", "think."),
    calls=(("call_1", "look", ('{"pa', 'th": "a b', '"}')), ("call_2", "stop", ())),
)


@pytest.mark.parametrize("name", [n for n, fixture in FIXTURES.items() if "stream" in fixture])
def test_the_cuts_between_pieces_do_not_matter(name: str) -> None:
    stream, protocol = bytes_of(FIXTURES[name]), FIXTURES[name]["protocol"]
    ways = [single_bytes(stream), *(cut(stream, seed) for seed in range(20))]
    ways += ([stream[:at], stream[at:]] for at in find_cuts(stream))
    expected = whole(read_stream(protocol, [stream]))
    for pieces in ways:
        assert whole(read_stream(protocol, pieces)) == expected


def find_cuts(stream: bytes) -> Iterator[int]:
    """Places beside the end of a line, in and beside a character of more bytes; each 7th besides.

    Inside a line of ASCII one cut is as another.
    """
    for at in range(len(stream)):
        near = stream[max(at - 3, 0) : at + 3]
        if at % 7 == 0 or at < 8 or not near.isascii() or b"\n" in near or b"\r" in near:
            yield at


def whole(outcome: Outcome) -> tuple[object, ...]:
    """All that came, with deltas of the same kind one after the other as one."""
    groups = groupby(outcome.deltas, lambda d: (d.kind, d.call, d.name))
    merged = [(*of, "".join(delta.text for delta in deltas)) for of, deltas in groups]
    error = outcome.error
    failed = error and (error.category, error.message, error.partial_text)
    return outcome.response, failed, merged


@each
@pytest.mark.req("D-24")
def test_a_stream_gives_the_answer_of_a_whole_reply(dialect: Dialect) -> None:
    stream, whole = FORMS[dialect.name]
    outcome = read_stream(dialect.name, [stream(ANSWER)])
    assert outcome.response
    assert outcome == read_whole(dialect.name, json.dumps(whole(ANSWER)).encode())
    assert outcome.response.content == outcome.joined("text") == "Grüße 😀\u2028 and so on."
    assert outcome.joined("reasoning") == "Let me think."
    assert json.loads(outcome.joined("arguments", 0)) == {"path": "a b"}
    assert outcome.joined("arguments", 1) == ""
    assert outcome.response.usage == Usage(5, 7)
    names = [(d.call, d.name) for d in outcome.deltas if d.name]
    assert names == [(0, "look"), (1, "stop")]


@each
def test_the_pieces_arrive_with_the_bytes(dialect: Dialect) -> None:
    """Not held back until the end: each is there once its event is."""
    shown: list[Delta] = []
    at_piece: list[int] = []
    stream = FORMS[dialect.name][0](Answer(text=["one ", "two ", "three "], reasoning=["hm"]))

    def pieces() -> Any:
        for line in stream.splitlines(keepends=True):
            yield line
            at_piece.append(len(shown))

    read_stream(dialect.name, pieces(), shown.append)
    assert [delta.text for delta in shown] == ["hm", "one ", "two ", "three "]
    assert {1, 2, 3, 4} <= set(at_piece)


@each
def test_surrogates_are_joined_before_they_are_repaired(dialect: Dialect) -> None:
    halves = Answer(
        text=["a\ud83d", "\ude00b", "\ud83d", "c\ude00"],
        calls=[("1", "f", ['{"a": "\ud83d', '\ude00"}'])],
    )
    outcome = read_stream(dialect.name, [FORMS[dialect.name][0](halves)])
    assert outcome.response
    assert outcome.response.content == "a😀b\ufffdc\ufffd"
    assert outcome.response.tool_calls == (ToolCall("1", "f", {"a": "😀"}),)
    for delta in outcome.deltas:
        delta.text.encode()


@each
@pytest.mark.req("D-31")
def test_a_stream_that_is_cut_is_an_error_with_its_text(dialect: Dialect) -> None:
    stream = FORMS[dialect.name][0](Answer(text=["one ", "two "] * 5, stop="stop"))
    ends = {
        "anthropic": b"event: message_delta", "openai": b'"stop"', "ollama": b'"done": true',
        "responses": b"event: response.completed",
    }  # fmt: skip
    last = stream.index(ends[dialect.name])
    seen = set()
    for at in range(len(stream)):
        outcome = read_stream(dialect.name, [stream[:at]])
        if outcome.response:
            assert at > last
            assert outcome.response.content == "one two " * 5
            continue
        assert outcome.error
        assert outcome.error.category == "server"
        assert outcome.error.retryable
        assert outcome.error.partial_text == outcome.joined("text")
        seen.add(outcome.error.partial_text)
    assert seen == {"one two " * n for n in range(6)} | {"one two " * n + "one " for n in range(5)}


@each
@pytest.mark.req("D-31")
def test_an_error_in_a_stream_keeps_the_text_before_it(dialect: Dialect) -> None:
    stream = FORMS[dialect.name][0](Answer(text=["one ", "two "]))
    end = b"\n" if dialect.name == "ollama" else b"\n\n"
    head = stream[: stream.index(b"two")].rpartition(end)[0] + end
    failures: Mapping[str, list[tuple[bytes, str, str]]] = {
        "anthropic": [
            (b'event: error\ndata: {"type": "error", "error": {"type": "rate_limit_error", '
             b'"message": "slow down"}}\n\n', "rate_limit", "slow down"),
            (b'event: error\ndata: {"message": "broken"}\n\n', "server", "broken"),
            (b"event: error\ndata: upstream died\n\n", "server", "upstream died"),
            (b'{"type": "error", "error": {"type": "api_error", "message": "died"}}',
             "server", "died"),
        ],
        "openai": [
            (b'data: {"error": {"message": "broken", "code": 429}}\n\n', "rate_limit", "broken"),
            (b'data: {"object": "error", "message": "broken"}\n\n', "server", "broken"),
            (b'{"error": {"message": "broken", "code": 429}}', "rate_limit", "broken"),
            (b'{\n  "error": {\n    "message": "broken"\n  }\n}\n', "server", "broken"),
            (b'data: {"choices": [{"error": {"message": "gone", "code": 502}}]}\n\n',
             "server", "gone"),
            (b"data: nonsense\n\n", "server", "nonsense"),
            (b"data: [1]\n\n", "server", "not a JSON object"),
            (b'data: {"choices": 1}\n\n', "server", "choices"),
        ],
        "responses": [
            (b'event: error\ndata: {"type": "error", "code": "rate_limit_exceeded", '
             b'"message": "slow down", "param": null}\n\n', "rate_limit", "slow down"),
            (b'data: {"type": "response.failed", "response": {"status": "failed", "error": '
             b'{"code": "server_error", "message": "broken"}}}\n\n', "server", "broken"),
            (b'data: {"type": "response.failed", "response": {"error": {"code": "bio_policy", '
             b'"message": "no"}}}\n\n', "refusal", "no"),
            (b'data: {"type": "response.failed", "response": 1}\n\n', "server", "status failed"),
            (b'{"error": {"message": "broken", "code": 429}}', "rate_limit", "broken"),
            (b"data: nonsense\n\n", "server", "nonsense"),
            (b"data: [DONE]\n\n", "server", "before the answer was complete"),
        ],
        "ollama": [
            (b'{"error": "out of memory"}', "server", "out of memory"),
            (b"<html>\n", "server", "complete: <html>"),
            (b"{nonsense}\n", "server", "not a JSON object"),
        ],
    }  # fmt: skip
    for event, category, words in failures[dialect.name]:
        outcome = read_stream(dialect.name, single_bytes(head + event))
        assert outcome.error, event
        assert (outcome.error.category, outcome.error.partial_text) == (category, "one "), event
        assert words in outcome.error.message, event


@each
def test_a_whole_reply_to_a_request_for_a_stream_is_an_answer(dialect: Dialect) -> None:
    body = FORMS[dialect.name][1](ANSWER)
    for indent in (None, 2):
        for end in ("", "\n"):
            reply = f"{end}{json.dumps(body, indent=indent)}{end}".encode()
            outcome = read_stream(dialect.name, cut(reply, 1))
            assert outcome.response, reply
            assert outcome == read_whole(dialect.name, reply)


def piece(name: str | None, arguments: Any, **more: Any) -> dict[str, Any]:
    """A piece of a call over Chat Completions."""
    function = {"name": name, "arguments": arguments}
    return {**more, "function": {key: one for key, one in function.items() if one is not None}}


ONE, TWO, HALF, REST = '{"x": 1}', '{"x": 2}', '{"x": ', "1}"


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        # whole, all in one chunk
        ([[piece("f", ONE, index=0, id="a"), piece("f", TWO, index=1, id="b")]], "a f 1, b f 2"),
        # every call is number 0, told apart by the id
        ([[piece("f", ONE, index=0, id="a")], [piece("g", TWO, index=0, id="b")]], "a f 1, b g 2"),
        # every call is number 0 and has no id
        ([[piece("f", ONE, index=0, id="")], [piece("f", TWO, index=0, id="")]],
         "openai_0 f 1, openai_1 f 2"),
        # no index at all, with ids
        ([[piece("f", HALF, id="a")], [piece(None, REST)], [piece("g", TWO, id="b")]],
         "a f 1, b g 2"),
        # neither index nor ids
        ([[piece("f", ONE), piece("f", TWO)]], "openai_0 f 1, openai_1 f 2"),
        # id and name repeated with every piece
        ([[piece("f", HALF, index=0, id="a")], [piece("f", REST, index=0, id="a")]], "a f 1"),
        # another id with every piece
        ([[piece("f", HALF, index=0, id="a")],
          [{"index": 0, "id": "q", "function": {"name": None, "arguments": REST}}]], "a f 1"),
        # the name in pieces, the id late
        ([[piece("f", None, index=0)], [piece("oo", None, index=0)],
          [piece(None, ONE, index=0, id="a")]], "a foo 1"),
        # arguments as an object
        ([[piece("f", {"x": 1}, index=0, id="a")]], "a f 1"),
        # indices from 1, out of order
        ([[piece("f", HALF, index=2, id="a")], [piece("g", TWO, index=1, id="b")],
          [piece(None, REST, index=2)]], "a f 1, b g 2"),
        # the index is text
        ([[piece("f", HALF, index="0", id="a")], [piece("g", TWO, index="1", id="b")],
          [piece(None, REST, index="0")]], "a f 1, b g 2"),
        # there is none, and the pieces of two calls take turns
        ([[piece("f", HALF, id="a")], [piece("g", HALF, id="b")], [piece(None, REST, id="a")],
          [piece(None, "2}", id="b")]], "a f 1, b g 2"),
        # the name comes again, with what was missing
        ([[piece("get_", None, index=0, id="a")], [piece("get_time", ONE, index=0, id="a")]],
         "a get_time 1"),
    ],
)  # fmt: skip
def test_openai_calls_are_told_apart(deltas: list[list[dict[str, Any]]], calls: str) -> None:
    """`calls` are those that come of it: id, name, value of the argument."""
    chunks = [chunk({"tool_calls": one}) for one in deltas]
    outcome = read_stream("openai", [sse(*chunks, chunk(finish_reason="tool_calls"), "[DONE]")])
    assert outcome.response
    found = outcome.response.tool_calls
    assert ", ".join(f"{c.id} {c.name} {c.arguments['x']}" for c in found) == calls
    for number, call in enumerate(found):
        assert json.loads(outcome.joined("arguments", number)) == call.arguments
        assert [d.name for d in outcome.deltas if d.name and d.call == number][-1] == call.name


@pytest.mark.parametrize(
    ("deltas", "shown", "echoed"),
    [
        ([{"reasoning_content": "a"}, {"reasoning_content": "b"}], "ab",
         {"reasoning_content": "ab"}),
        ([{"reasoning_content": "a", "reasoning": "a"},
          {"reasoning_content": "b", "reasoning": "b"}], "ab", {"reasoning_content": "ab"}),
        ([{"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]},
          {"reasoning": "b", "reasoning_details": [{"type": "reasoning.text", "text": "b"}]},
          {"reasoning_details": [{"type": "reasoning.text", "signature": "s"}]},
          {"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]}],
         "ab",
         {"reasoning_details": [{"type": "reasoning.text", "text": "ab", "signature": "s"},
                                {"type": "reasoning.encrypted", "data": "d"}]}),
        ([{"reasoning_details": [{"type": "reasoning.summary", "summary": "a"}]},
          {"reasoning_details": [{"type": "reasoning.summary", "summary": "b"}]}],
         "ab", {"reasoning_details": [{"type": "reasoning.summary", "summary": "ab"}]}),
        # a server that changes its mind about the form
        ([{"reasoning_details": "x", "annotations": "x"},
          {"reasoning_details": [{"type": "reasoning.text", "text": "a"}], "annotations": [{}]}],
         "a", {"reasoning_details": [{"type": "reasoning.text", "text": "a"}]}),
        ([{"reasoning_details": [{"type": "text", "more": ["x"]}]},
          {"reasoning_details": [{"type": "text", "more": [{"type": "text", "text": "a"}]}]}],
         "",
         {"reasoning_details": [{"type": "text", "more": ["x", {"type": "text", "text": "a"}]}]}),
    ],
)  # fmt: skip
def test_openai_reasoning_is_shown_once_and_echoed(
    deltas: list[Any], shown: str, echoed: dict[str, Any]
) -> None:
    chunks = [*map(chunk, deltas), chunk({"content": "hi"}), chunk(finish_reason="stop")]
    outcome = read_stream("openai", [sse(*chunks, "[DONE]")])
    assert outcome.response
    assert outcome.joined("reasoning") == shown
    assert outcome.response.echo["openai"].items() >= echoed.items()


@pytest.mark.parametrize("protocol", FORMS)
@pytest.mark.parametrize("said", [": keepalive", "ping"])
def test_a_gateway_that_keeps_its_connections_busy_answers(protocol: str, said: str) -> None:
    stream = FORMS[protocol][0](Answer(text=["hel", "lo"]))
    end, start = (b"\n", "") if protocol == "ollama" else (b"\n\n", "data: ")
    alive = f"{start}{said}".encode() + end  # before each of the events
    busy = alive + stream.rstrip(b"\n").replace(end, end + alive) + end
    outcome = read_stream(protocol, [busy])
    assert outcome.response
    assert outcome.response.content == "hello"


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
    response = read_stream("anthropic", [sse(*events, {"type": "message_stop"})]).response
    assert response
    assert (response.content, response.stop_reason) == ("half", "end_turn")


CALL, END = piece("f", HALF, index=0, id="a"), piece(None, REST, index=0)


@pytest.mark.parametrize(
    ("deltas", "is_whole"),
    [
        ([{"content": "hi"}], True),
        ([{"content": [{"type": "text", "text": "hi"}]}], True),
        ([{"tool_calls": [CALL]}, {"tool_calls": [END]}], True),
        ([{"content": "hi"}, {"tool_calls": [CALL]}, {"tool_calls": [END]}], True),
        ([], False),
        ([{"role": "assistant", "content": ""}], False),
        ([{"reasoning_content": "hm"}], False),
        ([{"tool_calls": [CALL]}], False),
        ([{"content": "hi"}, {"tool_calls": [CALL]}], False),
        ([{"tool_calls": [piece("f", "", id="a")]}], False),
    ],
)
@pytest.mark.req("D-31")
def test_the_end_mark_alone_completes_an_answer_unless_it_may_be_cut(
    deltas: list[Any], is_whole: bool
) -> None:
    marks = ("[DONE]", "[DONE] ", "[DONE]\r")
    outcome, *others = (read_stream("openai", [sse(*map(chunk, deltas), end)]) for end in marks)
    assert [*map(whole, others)] == [whole(outcome)] * 2
    if not is_whole:
        assert outcome.error
        assert "before the answer was complete" in outcome.error.detail
        assert outcome.error.partial_text == outcome.joined("text")
        return
    assert outcome.response, outcome.error
    assert outcome.response.content == outcome.joined("text")
    assert [call.arguments for call in outcome.response.tool_calls] in ([], [{"x": 1}])
    assert outcome.response.stop_reason == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", MODULES)
@pytest.mark.req("B-5", "D-31", "D-32")
@pytest.mark.any_body
def test_a_mutated_reply_is_an_answer_or_a_provider_error(protocol: str, kind: str) -> None:
    answers, _ = run(protocol, kind, 400)
    assert 40 < answers < 360
