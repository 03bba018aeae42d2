"""Requests for streams over loopback: what is asked, refusals, broken and cancelled streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import Delta, Response
from tests.providers.dialects import BY_NAME, CALL_AGENT, DIALECTS, KEY, Dialect, ask
from tests.providers.streams import FORMS, Answer
from tests.wire.replay import Replay

each = pytest.mark.parametrize("dialect", DIALECTS, ids=str)

ANSWER = Answer(text=["one ", "two"])


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay({}) as replay:
        yield replay


def streamed(dialect: Dialect, answer: Answer = ANSWER, **more: Any) -> dict[str, Any]:
    parts = FORMS[dialect.name][0](answer).decode().splitlines(keepends=True)
    return {"status": 200, "stream": parts, **more}


def refusing(message: object, status: int = 400) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message}}}


def send(
    server: Replay, dialect: Dialect, replies: Any, times: int = 1, **more: Any
) -> tuple[Response, list[Delta]]:
    """Sends requests for streams to a server of these replies; returns the last answer."""
    server.replies = {"x": {"sequence": replies} if isinstance(replies, list) else replies}
    deltas: list[Delta] = []
    provider = dialect.make(server.url("x"), KEY)

    async def turns() -> Response:
        for _ in range(times):
            deltas.clear()
            response = await provider.send(ask(**more), deltas.append)
        return response

    return asyncio.run(turns()), deltas


def forms(server: Replay) -> list[tuple[object, object]]:
    bodies = [asked.body for asked in server.log("x")]
    return [(body.get("stream"), body.get("stream_options")) for body in bodies]


USAGE = {"include_usage": True}


@each
@pytest.mark.req("D-24")
def test_a_stream_is_asked_for_as_the_sdk_does(server: Replay, dialect: Dialect) -> None:
    response, deltas = send(server, dialect, streamed(dialect), tools=(CALL_AGENT,))
    assert response.content == "one two"
    assert "".join(delta.text for delta in deltas) == "one two"
    (asked,) = server.log("x")
    assert asked.path == dialect.path
    assert forms(server) == [(True, USAGE if dialect.name == "openai" else None)]


@each
def test_a_stream_that_was_not_asked_for_and_breaks_off_keeps_its_text(
    server: Replay, dialect: Dialect
) -> None:
    reply = streamed(dialect, Answer(text=["one ", "two ", "three"]))
    half = next(n for n, part in enumerate(reply["stream"], 1) if "two " in part)
    server.replies = {"x": reply | {"stream": [*reply["stream"][:half], "\n"]}}
    with pytest.raises(ProviderError) as raised:
        dialect.send(server.url("x"))
    assert raised.value.partial_text == "one two "


@each
@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Streaming is not supported for this model.", 400),
        ("stream: must be false", 422),
        ("no streams here", 404),
        ("`stream` is not implemented", 501),
        ("Unsupported value: 'stream' does not support true with this model.", 400),
        ("Not acceptable: text/event-stream", 406),
        ("the stream parameter is of no known type", 415),
        ("Your organization must be verified to stream this model.", 403),
        ("streaming not implemented", 500),
        ("Streaming is not yet supported", 503),
    ],
)
@pytest.mark.req("D-24")
def test_a_server_that_does_not_stream_is_asked_for_a_whole_reply(
    server: Replay, dialect: Dialect, message: str, status: int
) -> None:
    replies = [refusing(message, status), {"body": FORMS[dialect.name][1](ANSWER)}]
    response, deltas = send(server, dialect, replies)
    assert (response.content, deltas) == ("one two", [])
    whole_form = False if dialect.name == "ollama" else None
    assert [stream for stream, _ in forms(server)] == [True, whole_form]


def test_a_server_may_refuse_one_after_the_other(server: Replay) -> None:
    dialect = BY_NAME["openai"]
    replies = [
        refusing("stream_options?"),
        refusing("no streaming"),
        {"body": FORMS[dialect.name][1](ANSWER)},
    ]
    assert send(server, dialect, replies)[0].content == "one two"
    assert forms(server) == [(True, USAGE), (True, None), (None, None)]


@each
@pytest.mark.parametrize(
    "reply",
    [
        ("the upstream is down", 400), ("streaming is overloaded", 503),
        ("no such key for streams", 401), ("model my-stream-model not found", 404),
        ("model org/stream not found", 404), ("model stream.v1 not found", 404),
    ],
)  # fmt: skip
def test_other_refusals_are_not_asked_again(
    server: Replay, dialect: Dialect, reply: tuple[str, int]
) -> None:
    with pytest.raises(ProviderError):
        send(server, dialect, refusing(*reply))
    assert len(server.log("x")) == 1


@each
@pytest.mark.req("D-31")
def test_a_broken_connection_keeps_the_text(server: Replay, dialect: Dialect) -> None:
    reply = streamed(dialect, network="cut_chunked")
    at = next(i for i, part in enumerate(reply["stream"]) if "two" in part)
    reply["stream"] = reply["stream"][:at]
    with pytest.raises(ProviderError) as raised:
        send(server, dialect, reply)
    assert raised.value.partial_text == "one "
    assert raised.value.retryable
    assert "failed" in raised.value.message


@each
def test_a_connection_that_breaks_after_the_answer_does_not_matter(
    server: Replay, dialect: Dialect
) -> None:
    response, _ = send(server, dialect, streamed(dialect, network="cut_chunked"))
    assert response.content == "one two"


def test_a_server_that_never_ends_its_reply_does_not_hold_up_the_answer(server: Replay) -> None:
    dialect = BY_NAME["anthropic"]
    reply = streamed(dialect)
    reply["stream"] += [": still here\n\n"] * 5000
    started = time.monotonic()
    assert send(server, dialect, reply)[0].content == "one two"
    assert time.monotonic() - started < 25  # sent whole, it takes 50 s at least
