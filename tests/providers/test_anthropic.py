"""What is Anthropic's alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Response, ToolCall, ToolResult, Usage
from axe_nb.providers.anthropic import Anthropic, parse
from tests.providers.dialects import BY_NAME, CALL_AGENT, KEY, ask
from tests.wire.replay import Replay

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig-1"}
AFTERTHOUGHT = {"type": "thinking", "thinking": "so", "signature": "sig-2"}
HIDDEN = {"type": "redacted_thinking", "data": "b64"}


def use(id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "f", "input": {"n": 1}, **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def reply(*content: Any, stop: str | None = "tool_use") -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 7}
    return {"content": list(content), "stop_reason": stop, "usage": usage}


def messages(*said: Message) -> list[dict[str, Any]]:
    """The messages of a request, which is held against the types of the SDK."""
    sent: list[dict[str, Any]] = json.loads(Anthropic.body(ask(*said)))["messages"]
    return sent


def results(response: Response) -> Message:
    return Message("tool", tool_results=tuple(ToolResult(c.id, "1") for c in response.tool_calls))


@pytest.mark.req("B-4")
def test_the_headers_are_anthropics() -> None:
    done = {"status": 200, "body": reply(text("hi"), stop="end_turn")}
    with Replay({"x": done}) as server:
        BY_NAME["anthropic"].send(server.url("x"))
        (asked,) = server.log("x")
    assert asked.path == "/v1/messages"
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in asked.headers


@pytest.mark.req("A-2.5")
def test_the_content_is_all_text_blocks_together() -> None:
    response = parse(reply(text("one "), use("a"), text("two"), {"type": "unknown", "text": "x"}))
    assert response.content == "one two"
    assert [call.id for call in response.tool_calls] == ["a"]


@pytest.mark.req("D-16")
def test_an_empty_content_is_an_answer_only_at_the_end_of_a_turn() -> None:
    assert parse(reply(stop="end_turn")) == Response("", (), "end_turn", Usage(5, 7))
    for stop in ("tool_use", "pause_turn", "max_tokens", "", None, 7):
        with pytest.raises(ProviderError, match="server: response contains no content"):
            parse(reply(stop=stop))
    with pytest.raises(ProviderError, match=r"no content \(stop_reason tool_use\)"):
        parse(reply(stop="tool_use"))
    with pytest.raises(ProviderError, match="no content"):
        parse({"stop_reason": "end_turn"})


@pytest.mark.req("A-8.8", "D-18")
def test_tokens_from_the_cache_are_input_too() -> None:
    data = reply(text("hi"))
    data["usage"] |= {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 10}
    assert parse(data).usage == Usage(115, 7, cached_tokens=100, cache_write_tokens=10)
    data["usage"] |= {"output_tokens_details": {"thinking_tokens": 3}}
    assert parse(data).usage.reasoning_tokens == 3


@pytest.mark.req("D-32")
@pytest.mark.parametrize(
    "content",
    [
        (THOUGHT, text("On it."), use("a"), use("b")),
        (HIDDEN, THOUGHT, use("a")),
        (THOUGHT, use("a"), AFTERTHOUGHT, text("and"), use("b")),
    ],
)
def test_thinking_goes_back_unchanged_and_in_its_place(content: Sequence[dict[str, Any]]) -> None:
    response = parse(reply(*content))
    sent = messages(Message("user", "hi"), response.message(), results(response))
    assert sent[1] == {"role": "assistant", "content": list(content)}


@pytest.mark.req("D-32", "D-31", "D-17")
def test_thinking_goes_back_also_when_the_calls_are_dropped() -> None:
    response = parse(reply(THOUGHT, text("So far."), AFTERTHOUGHT, use("a")))
    sent = messages(Message("user", "hi"), response.message(calls=False), Message("user", "more"))
    # the API refuses a turn that ends in thinking
    assert sent[1] == {"role": "assistant", "content": [THOUGHT, text("So far.")]}


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (None, "refusal: the model gave no reason"),
        ({"type": "refusal", "category": None, "explanation": None},
         "refusal: the model gave no reason"),
        ({"type": "refusal", "category": "cyber", "explanation": "It may\ncause harm."},
         "refusal: cyber: It may cause harm."),
    ],
)  # fmt: skip
def test_a_refusal_without_text_is_an_error_of_its_own(details: Any, told: str) -> None:
    for content in ((), (text(" "),), (THOUGHT, use("a"))):
        with pytest.raises(ProviderError) as raised:
            parse({**reply(*content, stop="refusal"), "stop_details": details})
        assert (str(raised.value), raised.value.retryable) == (told, False)
        assert "another model" in raised.value.hint


@pytest.mark.req("D-31")
def test_a_refusal_after_some_text_keeps_the_text_and_drops_the_calls() -> None:
    response = parse(reply(THOUGHT, text("First, "), use("a"), stop="refusal"))
    assert (response.content, response.tool_calls) == ("First, ", ())
    assert response.stop_reason == "refusal"


@pytest.mark.req("D-32")
@pytest.mark.any_body
def test_a_block_that_is_unknown_here_goes_back_unchanged() -> None:
    content = [{"type": "new_block", "of": ["2027"]}, text("hi")]
    response = parse(reply(*content))
    assert messages(response.message()) == [{"role": "assistant", "content": content}]


@pytest.mark.req("D-32", "A-2.6")
def test_messages_of_one_role_in_a_row_become_one() -> None:
    sent = messages(
        Message("user", "one"), Message("user", "two"), Message("assistant", "x"),
        Message("assistant", "y", (ToolCall("a", "f", {"n": 1}),)),
        Message("tool", tool_results=(ToolResult("a", "1"),)), Message("user", "three"),
    )  # fmt: skip
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": False}
    assert [(one["role"], one["content"]) for one in sent] == [
        ("user", [text("one"), text("two")]), ("assistant", [text("x"), text("y"), use("a")]),
        ("user", [result, text("three")]),
    ]  # fmt: skip


@pytest.mark.req("D-28", "D-32")
@pytest.mark.parametrize("id", ["call:1", "ünï", "x" * 65, "functions.f:0", "a b", "\ud800"])
def test_an_id_that_the_api_refuses_is_sent_as_another_both_times(id: str) -> None:
    call, other = ToolCall(id, "f"), ToolCall(f"{id}.", "f")
    answers = tuple(ToolResult(c.id, "1") for c in (call, other))
    said = (Message("assistant", "", (call, other)), Message("tool", tool_results=answers))
    uses, back = messages(*said)
    ids = [block["id"] for block in uses["content"]]
    assert [block["tool_use_id"] for block in back["content"]] == ids
    assert len(set(ids)) == 2
    assert all(i.isascii() and i.replace("_", "").isalnum() and len(i) <= 64 for i in ids)
    assert messages(*said) == [uses, back], "the same in every request"


LONG = "You lead. " * 500


def turns(count: int) -> list[Message]:
    """A conversation after so many calls."""
    said = [Message("user", "hi")]
    for n in range(count):
        call = ToolCall(f"c{n}", "call_agent", {"n": n})
        results = (ToolResult(f"c{n}", f"found {n}", name="call_agent"),)
        said += [Message("assistant", "", (call,)), Message("tool", tool_results=results)]
    return said


PAUSED = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}


@pytest.mark.parametrize(
    ("said", "more", "places"),
    [
        (turns(0), {}, [("system", 0), ("tools", 1), ("messages", 0)]),
        (turns(3), {}, [("system", 0), ("tools", 1), ("messages", 4), ("messages", 6)]),
        # what would not pay, or is marked by the user
        (turns(0), {"tools": ()}, []),
        (turns(0), {"system": "short"}, []),
        (turns(0), {"params": {"cache_control": {"type": "ephemeral"}}}, []),
        # without tools
        ([Message("user", LONG), Message("assistant", "yes"), Message("user", "and?")],
         {"tools": (), "system": ""}, [("messages", 0), ("messages", 2)]),
        # after a reply that was paused, which may end in blocks that take no mark
        ([*turns(1), Message("assistant", echo={"anthropic": [PAUSED]})], {},
         [("system", 0), ("tools", 1), ("messages", 2)]),
    ],
)  # fmt: skip
def test_tools_system_prompt_and_history_are_marked_for_the_cache(
    said: list[Message], more: dict[str, Any], places: list[tuple[str, int]]
) -> None:
    tools = (CALL_AGENT, CALL_AGENT)
    data = json.loads(Anthropic.body(ask(*said, **{"tools": tools, "system": LONG, **more})))
    parts = [
        (key, n, part) for key in ("system", "tools") for n, part in enumerate(data.get(key, ()))
    ]
    for number, message in enumerate(data["messages"]):
        parts += [("messages", number, block) for block in message["content"]]
    assert [(key, n) for key, n, part in parts if "cache_control" in part] == places
