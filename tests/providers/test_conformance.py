"""What the four protocols have in common: one table, run for each over loopback."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import CallIds, Message, Request, Response, ToolCall, ToolResult, Usage
from tests.providers.dialects import (
    CALL_AGENT,
    DIALECTS,
    MODULES,
    Dialect,
    ask,
    make_message,
    make_reasoning,
)
from tests.wire.replay import Replay

GOLDEN = Path(__file__).parent / "golden"
CALLS = (
    ("call_1", "call_agent", {"agent": "a", "task": "one"}),
    ("call_2", "call_agent", {"agent": "b", "task": "two", "context": "more"}),
)

each = pytest.mark.parametrize("dialect", DIALECTS, ids=str)


def answer(dialect: Dialect, body: Any, request: Request | None = None) -> Response:
    with Replay({"x": {"status": 200, "body": body}}) as server:
        return dialect.send(server.url("x"), request)


def sent(dialect: Dialect, request: Request) -> dict[str, Any]:
    """The body that a server gets, which is held against the types of the SDK."""
    body: dict[str, Any] = json.loads(MODULES[dialect.name].PROVIDER.body(request))
    return body


def conversation() -> Request:
    """Two calls in one turn, one of which failed, and a question after them."""
    calls = tuple(ToolCall(*one) for one in CALLS)
    results = (
        ToolResult("call_1", "All passed.", name="call_agent"),
        ToolResult("call_2", "Error: timeout", is_error=True, name="call_agent"),
    )
    return ask(
        Message("user", 'Say "grüße" 😀\nand run the tests.'),
        Message("assistant", "On it.", calls),
        Message("tool", "ignored", tool_results=results),
        Message("user", "And now?"),
        system="You lead.",
        tools=(CALL_AGENT,),
        params={"temperature": 0.2, "max_tokens": 64, "top_p": 0.5},
    )


@each
@pytest.mark.req(
    "A-2.1", "A-2.2", "A-2.6", "A-2.7", "A-3.1", "A-3.6", "A-3.7", "A-4.1", "A-4.4", "A-4.5",
    "A-1.1", "A-1.2", "A-1.4", "A-1.7", "A-D2", "B-4", "D-29",
)  # fmt: skip
def test_a_conversation_is_sent_as_written_down(dialect: Dialect) -> None:
    """The bodies of `golden/`, as a server got them."""
    reply = {"status": 200, "body": dialect.reply("done", (), dialect.done)}
    with Replay({"x": reply}) as server:
        dialect.send(server.url("x"), conversation())
        (asked,) = server.log("x")
    assert asked.path == dialect.path
    assert asked.headers["content-type"] == "application/json"
    assert asked.body == json.loads((GOLDEN / f"{dialect.name}.json").read_text("utf-8"))


@each
@pytest.mark.req("A-2.3", "A-3.2", "A-4.2", "A-E1.1", "A-E1.2", "A-1.5", "A-1.8", "B-4")
def test_no_tools_and_a_blank_system_prompt_are_not_sent(dialect: Dialect) -> None:
    body = sent(dialect, ask(tools=(), system=" \n"))
    assert "tools" not in body
    assert "system" not in json.dumps(body)


@each
@pytest.mark.req("D-11", "A-1.3")
def test_arguments_go_back_json_equal(dialect: Dialect) -> None:
    arguments = {
        "text": 'grüße "😀"\n\t\\ \u2028', "number": 1.0, "big": 2**63, "none": None, "yes": True,
        "list": [1, {"a": []}], "": {}, "1": "1",
    }  # fmt: skip
    response = answer(dialect, dialect.reply("", [("c", "f", arguments)], dialect.calling))
    assert response.tool_calls[0].arguments == arguments
    body = sent(dialect, ask(Message("user", "hi"), response.message()))
    assert arguments_in(body) == [arguments]


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body["input"] if "input" in body else body["messages"]
    return found


def arguments_in(body: dict[str, Any]) -> list[Any]:
    found = []
    for message in messages_of(body):
        content = message.get("content")
        blocks = content if isinstance(content, list) else ()
        found += [block["input"] for block in blocks if block["type"] == "tool_use"]
        if message.get("type") == "function_call":
            found.append(json.loads(message["arguments"]))
        for call in message.get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            found.append(json.loads(arguments) if isinstance(arguments, str) else arguments)
    return found


@each
@pytest.mark.req("D-11", "A-3.4")
@pytest.mark.parametrize(
    ("came", "raw"),
    [("[1]", "[1]"), ('{"a": ', '{"a": '), ("7", "7"), ('"{}"', '"{}"'), ("", ""), (None, "")],
)
def test_arguments_that_are_no_object_are_an_empty_one(
    dialect: Dialect, came: str | None, raw: str
) -> None:
    body = dialect.reply("", [("c", "call_agent", {"PLACE": 1})], dialect.calling)
    place = r'"\{\\"PLACE\\":1\}"|\{"PLACE": 1\}'
    text = re.sub(place, lambda _: json.dumps(came), json.dumps(body))
    response = answer(dialect, text)
    assert response.tool_calls == (ToolCall("c", "call_agent", {}, raw),)
    assert arguments_in(sent(dialect, ask(Message("user", "hi"), response.message()))) == [{}]


@each
@pytest.mark.req("D-28", "A-4.3")
def test_missing_ids_are_made_up_and_stay_unique(dialect: Dialect) -> None:
    without = [(None, "f", {}), (" ", "f", {}), ("own", "f", {})]
    body = dialect.reply("", without, dialect.calling)
    ids = [call.id for call in answer(dialect, body).tool_calls]
    assert ids == [f"{dialect.name}_0", f"{dialect.name}_1", "own"]
    settle, calls = CallIds().settle, answer(dialect, body).tool_calls
    settled = [call.id for _ in range(2) for call in settle(dialect.name, calls)]
    assert len(set(settled)) == 6
    assert all(id.strip() for id in settled)


@each
@pytest.mark.req("D-49", "A-1.8")
def test_params_are_passed_on_also_when_they_are_zero(dialect: Dialect) -> None:
    body = sent(dialect, ask(params={"temperature": 0, "max_tokens": 0, "top_k": 3, "unset": None}))
    where = body.get("options", body)
    limits = {"ollama": "num_predict", "responses": "max_output_tokens"}
    limit = limits.get(dialect.name, "max_tokens")
    assert (where["temperature"], where[limit], where["top_k"]) == (0, 0, 3)
    assert "unset" not in where
    assert "temperature" not in json.dumps(sent(dialect, ask()))


@each
@pytest.mark.req("A-X1")
def test_a_param_that_json_cannot_say_is_a_bad_request(dialect: Dialect) -> None:
    with pytest.raises(ProviderError, match="bad_request: params cannot be sent as JSON"):
        sent(dialect, ask(params={"when": object()}))


@each
@pytest.mark.req("D-32", "D-12")
def test_blank_texts_and_empty_turns_are_not_sent(dialect: Dialect) -> None:
    said = messages_of(sent(dialect, ask(
        Message("user", "hi"), Message("assistant", " \n", (ToolCall("c", "f"),)),
        Message("tool", tool_results=(ToolResult("c", "", name="f"),)),
        Message("assistant", " "), Message("user", "go on"),
    )))  # fmt: skip
    calls = [one for one in said if one.get("type") == "function_call"]
    assert len(calls) + [one.get("role") for one in said].count("assistant") == 1
    contents = [message["content"] for message in said if "content" in message]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    assert all(block["text"].strip() for block in blocks if block["type"] == "text")


@each
@pytest.mark.req("D-32")
def test_reasoning_is_for_its_own_protocol_alone(dialect: Dialect) -> None:
    echoes = {
        "anthropic": [{"type": "thinking", "thinking": "secret", "signature": "s"},
                      {"type": "text", "text": "hello"}],
        "openai": {"reasoning_content": "secret"},
        "responses": [make_reasoning("secret"), make_message("hello")],
        "ollama": "secret",
    }  # fmt: skip
    for name in echoes:
        message = Message("assistant", "hello", echo={name: echoes[name]})
        body = sent(dialect, ask(Message("user", "hi"), message, Message("user", "more")))
        assert ("secret" in json.dumps(body)) == (name == dialect.name)


@each
@pytest.mark.req("B-5")
def test_a_reply_without_an_answer_is_a_server_error(dialect: Dialect) -> None:
    for body in ({}, {"choices": None, "content": None, "message": None}, {"choices": [{}]}):
        with pytest.raises(ProviderError, match=r"(?m)server: response contains no \w+$"):
            answer(dialect, body)


@each
@pytest.mark.req("A-8.8")
def test_usage_that_is_missing_or_nonsense_is_zero(dialect: Dialect) -> None:
    body = dialect.reply("hi", (), dialect.done)
    for nonsense in (None, "many", [1], {}, -1, True, float("nan"), 1e300, {"input_tokens": "5"}):
        broken = {**body, "usage": nonsense, "eval_count": nonsense, "prompt_eval_count": nonsense}
        assert answer(dialect, broken).usage == Usage(0, 0)


@pytest.mark.req("D-32")
@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_a_conversation_is_the_same_whether_it_grew_or_not(dialect: Dialect) -> None:
    """The requests of a conversation share what is encoded, which none of them may change."""
    body, encoded = MODULES[dialect.name].body, dict[object, Any]()
    call = ToolCall("c", "f", {"n": 1})
    turn = (
        Message("user", "hi " * 2000), Message("user", "more"), Message("assistant", "x", (call,)),
        Message("tool", tool_results=(ToolResult("c", "1", name="f"),)),
    )  # fmt: skip
    for count in range(1, 9):
        grown = ask(*(turn * 2)[:count], tools=(CALL_AGENT,), encoded=encoded)
        assert body(grown) == body(replace(grown, encoded={}))


@each
@pytest.mark.req("D-17")
def test_the_choice_of_a_tool_is_not_sent_without_tools(dialect: Dialect) -> None:
    choice = {"tool_choice": "auto", "parallel_tool_calls": True}
    assert not choice.keys() & sent(dialect, ask(past_tools=(CALL_AGENT,), params=choice)).keys()
    closing = sent(dialect, ask(*conversation().messages, params=choice))
    assert "parallel_tool_calls" not in closing
    assert ("No longer available" in json.dumps(closing)) == (dialect.name != "ollama")
    assert "tool_choice" not in sent(dialect, conversation())
