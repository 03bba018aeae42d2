"""What is Ollama's alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, ToolCall, ToolResult
from axe_nb.providers.ollama import Ollama, body, parse
from tests.providers.dialects import BY_NAME, ask
from tests.wire.replay import Replay

OLLAMA = BY_NAME["ollama"]


def reply(done: str = "stop", **message: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", **message}, "done": True, "done_reason": done}


def messages(*said: Message, **more: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = json.loads(body(ask(*said, **more)))["messages"]
    return sent


def sent(**params: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(body(ask(params=params)))
    return {key: value for key, value in whole.items() if key not in ("model", "messages")}


@pytest.mark.req("B-4")
def test_a_server_without_key_is_sent_none() -> None:
    with Replay({"x": {"status": 200, "body": OLLAMA.reply("hi", (), "stop")}}) as server:
        OLLAMA.send(server.url("x"), key="")
        OLLAMA.send(server.url("x"), key="k")
        without, with_key = server.log("x")
    assert without.path == "/api/chat"
    assert "authorization" not in without.headers
    assert with_key.headers["authorization"] == "Bearer k"
    assert repr(Ollama("http://x", "k")) == "Ollama(base_url='http://x')"


@pytest.mark.req("B-4", "D-49", "A-C2")
def test_params_are_options_but_for_those_beside_the_model() -> None:
    assert sent() == {"stream": False}
    assert sent(
        temperature=0, max_tokens=5, num_ctx=4096, keep_alive="5m", think=False,
        format={"type": "object"}, logprobs=True, options={"seed": 1},
    ) == {
        "stream": False,
        "keep_alive": "5m",
        "think": False,
        "format": {"type": "object"},
        "logprobs": True,
        "options": {"seed": 1, "temperature": 0, "num_ctx": 4096, "num_predict": 5},
    }  # fmt: skip
    assert sent(max_tokens=5, num_predict=6)["options"] == {"num_predict": 6}


@pytest.mark.req("A-4.4", "A-4.5", "D-29")
def test_ids_go_back_only_where_they_are_the_servers_own() -> None:
    calls = (ToolCall("ollama_0", "f", {"n": 1}), ToolCall("call_x", "g"))
    results = (ToolResult("ollama_0", "1", name="f"), ToolResult("call_x", "2", name="g"))
    asked, *told = messages(Message("assistant", "", calls), Message("tool", tool_results=results))
    assert asked["tool_calls"] == [
        {"function": {"name": "f", "arguments": {"n": 1}}},
        {"id": "call_x", "function": {"name": "g", "arguments": {}}},
    ]
    assert told == [
        {"role": "tool", "content": "1", "tool_name": "f"},
        {"role": "tool", "content": "2", "tool_name": "g", "tool_call_id": "call_x"},
    ]


@pytest.mark.req("A-1.9", "D-31")
@pytest.mark.parametrize(
    ("done", "with_calls", "expected"),
    [("stop", True, "tool_calls"), ("stop", False, "stop"), ("length", True, "length"),
     ("", True, ""), (None, False, "")],
)  # fmt: skip
def test_the_stop_reason(done: Any, with_calls: bool, expected: str) -> None:
    calls = [{"function": {"name": "f", "arguments": {}}}] if with_calls else []
    assert parse(reply(done, content="x", tool_calls=calls)).stop_reason == expected


@pytest.mark.req("B-4", "D-16", "D-37", "D-12", "A-E6.7", "D-17")
def test_an_empty_message_is_an_error_on_the_first_turn_only() -> None:
    call = Message("assistant", "", (ToolCall("ollama_0", "f"),))
    result = Message("tool", tool_results=(ToolResult("ollama_0", "1", name="f"),))
    for content in ("", " \n", None):
        with Replay({"x": {"status": 200, "body": reply(content=content)}}) as server:
            with pytest.raises(ProviderError) as raised:
                OLLAMA.send(server.url("x"))
            assert str(raised.value) == "server: response contains no content"
            for said in (call, Message("assistant", "x")):
                request = ask(Message("user", "hi"), said, result)
                assert not OLLAMA.send(server.url("x"), request).content.strip()


@pytest.mark.req("D-31")
def test_a_reply_that_is_not_done_is_an_error() -> None:
    with pytest.raises(ProviderError) as raised:
        parse({**reply(content="Half an"), "done": False})
    assert str(raised.value) == "server: the reply is not complete (done is false)"
    assert raised.value.retryable
    assert parse({"message": {"content": "hi"}}).content == "hi"
