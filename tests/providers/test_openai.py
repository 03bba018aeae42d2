"""What is OpenAI's alone, and that of the servers that speak its protocol."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from axe_nb.errors import ProviderError
from axe_nb.messages import Message, ToolCall, ToolResult, Usage
from axe_nb.providers.openai import body, parse
from tests.pictures.samples import FIRST
from tests.providers.dialects import BY_NAME, ask

OPENAI = BY_NAME["openai"]


def reply(end: str = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": end}]}


def call(**more: Any) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}


def messages(*said: Message, **more: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = json.loads(body(ask(*said, **more)))["messages"]
    return sent


@pytest.mark.req("B-4")
@pytest.mark.parametrize("choices", [[], None, {}, ""])
def test_no_choices_is_an_error_in_these_words(choices: Any) -> None:
    with pytest.raises(ProviderError) as raised:
        parse({"choices": choices})
    assert str(raised.value) == "server: response contains no choices"


@pytest.mark.req("A-3.5", "A-3.7")
@pytest.mark.parametrize("content", [None, "", " \n"])
def test_calls_without_text_go_back_with_null(content: str | None) -> None:
    response = parse(reply(content=content, tool_calls=[call()]))
    assert response.content.strip() == ""
    (sent,) = messages(response.message())
    assert sent == {"role": "assistant", "content": None, "tool_calls": [call()]}


@pytest.mark.req("D-11")
@pytest.mark.parametrize(
    "arguments",
    ['{"n": NaN}', "[" * 500, '{"n": ' + "9" * 5000 + "}", '{"n":' * 150 + "1" + "}" * 150],
)
def test_arguments_that_could_not_go_back_are_kept_for_display_only(arguments: str) -> None:
    function = {"name": "f", "arguments": arguments}
    response = parse(reply(tool_calls=[call(function=function)]))
    assert response.tool_calls == (ToolCall("c", "f", {}, arguments),)


def test_a_refusal_without_text_is_an_error_of_its_own() -> None:
    with pytest.raises(ProviderError) as raised:
        parse(reply(content=None, refusal="I cannot."))
    assert (str(raised.value), raised.value.retryable) == ("refusal: I cannot.", False)
    assert parse(reply(content="Part.", refusal="I cannot.")).content == "Part."


@pytest.mark.parametrize("reason", ["content_filter", "content_filter: SAFETY"])
def test_an_answer_that_a_filter_removed_is_a_refusal(reason: str) -> None:
    for content, calls in ((None, []), ("", [call()]), (" ", None)):
        with pytest.raises(ProviderError) as raised:
            parse(reply(reason, content=content, tool_calls=calls))
        assert raised.value.category == "refusal"
        assert reason in str(raised.value)
    cut = parse(reply(reason, content="So far", tool_calls=[call()]))
    assert (cut.content, cut.tool_calls) == ("So far", ())


def test_an_answer_that_ends_in_a_failure_is_an_error_that_keeps_the_text() -> None:
    told = r"server: response contains only part of an answer \(finish_reason error\)"
    with pytest.raises(ProviderError, match=told) as raised:
        parse(reply("error", content="The answer is", tool_calls=[call()]))
    assert raised.value.retryable
    assert raised.value.partial_text == "The answer is"


@pytest.mark.req("D-32")
@pytest.mark.parametrize(
    "reasoning",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "b64", "index": 0}]},
        {"reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text"}]},
    ],
)
def test_reasoning_goes_back_unchanged(reasoning: dict[str, Any]) -> None:
    response = parse(reply(content="x", tool_calls=[call()], **reasoning))
    (whole,), (without_calls,) = (messages(response.message(calls=c)) for c in (True, False))
    assert whole == {"role": "assistant", "content": "x", **reasoning, "tool_calls": [call()]}
    assert without_calls == {"role": "assistant", "content": "x", **reasoning}


@pytest.mark.req("D-32")
def test_a_signed_call_goes_back_signed() -> None:
    """Gemini's server takes no call back without its signature."""
    signed = call(id="b", extra_content={"google": {"thought_signature": "sig"}})
    response = parse(reply(tool_calls=[call(id="a"), signed]))
    (sent,) = messages(response.message())
    assert sent["tool_calls"] == [call(id="a"), signed]


@pytest.mark.req("B-5")
def test_a_choice_that_reports_an_error_is_one() -> None:
    error = {"code": 502, "message": "upstream went away"}
    with pytest.raises(ProviderError, match="server: upstream went away"):
        parse({"choices": [{"error": error, "message": {"content": "par"}}]})


@pytest.mark.req("A-8.8")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
          "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 5},
          "completion_tokens_details": {"reasoning_tokens": 12}},
         Usage(100, 20, cached_tokens=80, cache_write_tokens=5, reasoning_tokens=12)),
        # DeepSeek
        ({"prompt_tokens": 100, "completion_tokens": 20, "prompt_cache_hit_tokens": 64},
         Usage(100, 20, cached_tokens=64)),
        # xAI: reasoning beside the completion
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150,
          "completion_tokens_details": {"reasoning_tokens": 30}},
         Usage(100, 50, reasoning_tokens=30)),
        ({"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": None,
          "completion_tokens_details": "?"}, Usage(1, 2)),
    ],
)  # fmt: skip
def test_cached_and_reasoning_tokens_are_counted_apart(usage: Any, expected: Usage) -> None:
    assert parse({**reply(content="hi"), "usage": usage}).usage == expected


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("gpt-5", "max_completion_tokens"), ("gpt-5-mini", "max_completion_tokens"),
        ("gpt-5.1", "max_completion_tokens"), ("o1", "max_completion_tokens"),
        ("o3-mini-2025-01-31", "max_completion_tokens"),
        ("openai/o4-mini", "max_completion_tokens"),
        ("ft:o4-mini-2025-04-16:org::id", "max_completion_tokens"),
        ("ft:gpt-5-mini:org", "max_completion_tokens"), ("ft:gpt-4o:org", "max_tokens"),
        ("gpt-4o", "max_tokens"), ("gpt-4.1", "max_tokens"), ("o1x", "max_tokens"),
        ("llama-3", "max_tokens"), ("olmo-2", "max_tokens"), ("my-gpt-5x", "max_tokens"),
    ],
)  # fmt: skip
def test_the_limit_of_tokens_has_the_name_that_the_model_takes(model: str, key: str) -> None:
    sent = json.loads(body(replace(ask(params={"max_tokens": 9}), model=model)))
    assert sent.keys() - {"model", "messages"} == {key}
    assert sent[key] == 9
    both = ask(params={"max_tokens": 9, "max_completion_tokens": 7})
    assert json.loads(body(replace(both, model=model)))["max_completion_tokens"] == 7


@pytest.mark.req("D-32")
def test_two_messages_of_the_user_in_a_row_are_sent_as_one() -> None:
    """Templates of many models refuse them, so vLLM answers 400 "roles must alternate"."""
    empty, text = Message("assistant", ""), Message("user", "and then?")
    assert messages(Message("user", "hi"), empty, text) == [
        {"role": "user", "content": "hi\n\nand then?"}
    ]
    seen = Message("user", f"see {FIRST.mark(1)}", pictures=(FIRST,))
    (one,) = messages(Message("user", "hi"), empty, seen, empty, text)
    assert [part["type"] for part in one["content"]] == ["text", "text", "image_url", "text"]
    assert one["content"][-1] == {"type": "text", "text": "and then?"}


@pytest.mark.req("D-32")
def test_a_message_after_the_pictures_of_a_result_is_sent_with_them() -> None:
    call = Message("assistant", "", (ToolCall("c1", "chart"),))
    shown = ToolResult("c1", f"a {FIRST.mark(1)}", name="chart", pictures=(FIRST,))
    told = Message("tool", tool_results=(shown,))
    *_, result, user = messages(Message("user", "go"), call, told, Message("user", "Summarise."))
    assert result["role"] == "tool"
    assert user["content"][-1] == {"type": "text", "text": "Summarise."}
    plain = Message("tool", tool_results=(ToolResult("c1", '{"role":"user"}', name="chart"),))
    roles = [one["role"] for one in messages(call, plain, Message("user", "Summarise."))]
    assert roles == ["assistant", "tool", "user"]
    details = {"reasoning_details": [{"role": "user", "content": "?"}]}
    hostile = Message("assistant", "hm", echo={"openai": details})
    roles = [one["role"] for one in messages(hostile, Message("user", "so?"))]
    assert roles == ["assistant", "user"]
