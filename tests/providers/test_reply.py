"""What a status, headers and a body mean; the same for every provider."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.errors import ProviderError
from axe_nb.messages import dump
from axe_nb.providers.reply_errors import read_reply
from tests.providers.dialects import CALL_AGENT, ask, secrets_of

SECRETS = secrets_of("openai")
JSON = {"content-type": "application/json"}


def failure(
    status: int, body: Any = b"", headers: dict[str, str] | None = None, provider: str = "openai"
) -> ProviderError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ProviderError) as raised:
        read_reply(PROVIDERS[provider], status, JSON if headers is None else headers, raw, SECRETS)
    return raised.value


@pytest.mark.req("B-5", "D-37", "A-X1", "A-X3")
@pytest.mark.parametrize(
    ("status", "expected", "exit_code", "retryable"),
    [
        (400, "bad_request", 1, False), (402, "bad_request", 1, False),
        (404, "bad_request", 1, False), (413, "bad_request", 1, False),
        (422, "bad_request", 1, False), (409, "bad_request", 1, True),
        (425, "bad_request", 1, True), (401, "auth", 3, False), (403, "auth", 3, False),
        (408, "timeout", 3, True), (429, "rate_limit", 3, True), (498, "rate_limit", 3, True),
        (500, "server", 3, True), (502, "server", 3, True), (503, "server", 3, True),
        (504, "server", 3, True), (599, "server", 3, True), (501, "server", 3, False),
        (302, "server", 3, False), (529, "overloaded", 3, True),
    ],
)  # fmt: skip
def test_a_status_has_its_category_and_exit_code(
    status: int, expected: str, exit_code: int, retryable: bool
) -> None:
    error = failure(status, {"error": {"message": "no"}})
    assert error.category == expected
    assert (error.status, error.exit_code, error.retryable) == (status, exit_code, retryable)
    assert str(error).startswith(f"{expected}: ")


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    "body",
    [
        {"type": "error", "error": {"type": "invalid_request_error", "message": "no such model"}},
        {"error": {"message": "no such model", "type": "x", "param": None, "code": None}},
        {"error": "no such model"},
        {"message": "no such model"},
        {"object": "error", "message": "no such model", "code": 400},
        {"detail": "no such model"},
        {"Message": "no such model"},
        [{"error": {"code": 400, "message": "no such model", "status": "INVALID_ARGUMENT"}}],
        {"error": {"message": {"text": 1, "message": " no such\n\tmodel "}}},
        {"error": True, "message": "no such model"},
        {"error": None, "message": "no such model"},
    ],
)
def test_the_message_is_the_servers_own_in_whatever_shape(body: Any) -> None:
    assert str(failure(400, body)) == "bad_request: no such model"


@pytest.mark.req("B-5")
@pytest.mark.parametrize("raw", ['{"error": {"message": "slow down"}}', "slow down"])
@pytest.mark.parametrize("status", [200, 429])
def test_the_error_of_the_server_behind_a_router_is_told(raw: str, status: int) -> None:
    upstream = {"raw": raw, "provider_name": "Groq"}
    error = {"message": "Provider returned error", "code": 429, "metadata": upstream}
    told = failure(status, {"error": error, "choices": None, "user_id": "u"})
    assert str(told) == "rate_limit: Provider returned error: Groq: slow down"
    assert told.retryable


GEMINI_QUOTA = {
    "error": {
        "code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        ],
    }
}  # fmt: skip
"""What Gemini answers where a quota of a minute is used up."""


@pytest.mark.req("D-23")
@pytest.mark.parametrize(
    ("status", "body", "is_rate"),
    [
        (429, {"error": {"message": "no", "type": "rate_limit_error"}}, True),
        (429, {"error": {"message": "no", "code": "rate_limit_exceeded"}}, True),
        (429, {"error": {"message": "no", "code": "insufficient_quota"}}, False),
        (429, {"error": {"message": "no", "type": "insufficient_quota", "code": None}}, False),
        (429, {"error": {"message": "no", "type": "exceeded_current_quota_error"}}, False),
        (429, {"error": "You exceeded your current quota, please check your plan."}, False),
        (429, {"error": "Insufficient balance or no resource package."}, False),
        (429, [GEMINI_QUOTA], True),
        (200, {"error": {"message": "no", "code": "insufficient_quota"}}, False),
    ],
)
def test_a_used_up_quota_is_no_passing_rate_limit(status: int, body: Any, is_rate: bool) -> None:
    error = failure(status, body)
    assert (error.category, error.retryable) == ("rate_limit", is_rate)
    assert ("check the plan and billing" in error.hint) != is_rate


@pytest.mark.req("D-23")
def test_the_wait_may_stand_in_the_body() -> None:
    assert failure(429, GEMINI_QUOTA).retry_after == 34.5
    assert failure(429, GEMINI_QUOTA, {"retry-after": "7"}).retry_after == 7


@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter", "param": "prompt"},
        {"innererror": {"code": "ResponsibleAIPolicyViolation"}},
        {"type": "content_policy_violation"},
        {"code": 403, "metadata": {"reasons": [], "flagged_input": "x"}},
    ],
)
@pytest.mark.parametrize("status", [200, 400, 403])
def test_a_prompt_that_the_provider_rejects_is_a_refusal(error: Any, status: int) -> None:
    told = failure(status, {"error": {"message": "filtered", **error}})
    assert (str(told).partition(" (")[0], told.retryable) == ("refusal: filtered", False)
    assert told.exit_code == 3
    assert told.hint == "rephrase the prompt in a new conversation, or use another model"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"},
         "overloaded: the server is too busy (Overloaded)"),
        ({"type": "rate_limit_error", "message": "slow"}, "rate_limit: slow"),
        ({"type": "authentication_error", "message": "key"}, "auth: key"),
        ({"type": "invalid_request_error", "message": "bad"}, "bad_request: bad"),
        ({"type": ["?"], "message": "odd"}, "server: odd"),
        ({"code": 429, "message": "upstream"}, "rate_limit: upstream"),
        ({"code": "500"}, "server: the reply reports an error"),
        ("model runner has stopped", "server: model runner has stopped"),
    ],
)  # fmt: skip
@pytest.mark.req("B-5")
def test_an_error_in_a_reply_of_success_has_its_category(error: Any, expected: str) -> None:
    assert str(failure(200, {"error": error})) == expected


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"type": "invalid_request_error", "code": "unsupported_value"}, "unsupported_value"),
        (429, {"code": "insufficient_quota"}, "insufficient_quota"),  # OpenAI
        (400, {"code": "content_filter", "innererror": {"code": "x"}}, "content_filter"),  # Azure
        (404, {"code": "DeploymentNotFound"}, "DeploymentNotFound"),
        (400, {"type": "invalid_model", "code": "1500"}, "1500"),  # Mistral
        (200, {"code": 1113}, "1113"),  # Zhipu
        (400, {"message": "no: model_not_found", "code": "model_not_found"}, ""),  # it is said
        (400, {"message": "Model not found.", "code": "model_not_found"}, ""),
        (429, {"type": "tokens", "code": "rate_limit_exceeded"}, ""),  # the category says it
        (401, {"code": "invalid_api_key"}, ""),
        (402, {"code": "402"}, ""),
        (400, {"code": ["a_code"], "type": {"a_code": 1}}, ""),
        (400, {"code": "a\nb_code", "type": "a" * 61}, ""),  # hostile
        (400, {"code": "sk-ant-api03-" + "a1B2" * 8}, "***"),
    ],
)
def test_an_error_ends_in_the_servers_code_if_that_says_more(
    status: int, error: Any, expected: str
) -> None:
    told = str(failure(status, {"error": {"message": "no", **error}}))
    assert (re.search(r" \(([^)]*)\)$", told) or ["", ""])[1] == expected


def test_a_call_that_the_server_cannot_read_may_be_tried_again() -> None:
    said = {"message": "Failed to call a function.", "code": "tool_use_failed"}
    error = failure(400, {"error": said})
    assert str(error) == "bad_request: Failed to call a function. (tool_use_failed)"
    assert error.retryable
    assert error.hint.startswith("try again, allow more retries with --retries (retries=)")


@pytest.mark.req("D-23")
@pytest.mark.parametrize(
    ("status", "said", "retryable"),
    [(400, "true", True), (429, "false", False), (500, "FALSE", False), (500, "maybe", True)],
)
def test_a_server_that_says_if_to_retry_is_believed(
    status: int, said: str, retryable: bool
) -> None:
    assert failure(status, {"error": "no"}, {"x-should-retry": said}).retryable == retryable


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (500, b"", {}, "server: 500 Internal Server Error"),
        (500, {}, None, "server: 500 Internal Server Error"),
        (500, {"error": {"code": 7}}, None, "server: 500 Internal Server Error"),
        (529, b"", {}, "overloaded: 529"),
        (404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"},
         "bad_request: 404 Not Found: 404 page not found"),
        (502, b"<html><h1>502 Bad Gateway</h1><hr>nginx</html>", {"content-type": "text/html"},
         "server: 502 Bad Gateway"),
        (502, b"\n <!doctype html><h1>Oops</h1>", {}, "server: 502 Bad Gateway"),
    ],
)  # fmt: skip
def test_without_a_message_it_is_the_status_text(
    status: int, body: Any, headers: dict[str, str] | None, expected: str
) -> None:
    assert str(failure(status, body, headers)) == expected


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b"", "application/json", "server: the reply is empty"),
        (b" \r\n ", "text/plain", "server: the reply is empty"),
        (b"<html><head><title>Welcome to nginx!</title></head>", "text/html; charset=utf-8",
         "server: the reply is not a JSON object but text/html: Welcome to nginx!"),
        (b'data: {"id": 1}\n\n', "text/event-stream",
         'server: the reply is not a JSON object but text/event-stream: data: {"id": 1}'),
        (b"[1]", "text/json", "server: the reply is not a JSON object but text/json: [1]"),
        (b"null", "", "server: the reply is not a JSON object but text: null"),
        (b'{"a": ', "application/json", None),
        (b'{"a": 1} {"b": 2}', "application/json", None),
        (b"\xff\xfe\x00", "application/octet-stream", None),
        (b"[" * 100_000, "application/json", None),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "application/json", None),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "application/json", None),
        (b'{"a": ' + b"9" * 5000 + b"}", "application/json", None),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_a_server_error_that_says_what_came(
    body: bytes, kind: str, expected: str | None
) -> None:
    error = failure(200, body, {"content-type": kind})
    assert error.category == "server"
    is_page = kind.startswith("text/html")
    assert error.retryable != is_page
    assert ("check base_url under [providers.openai]" in error.hint) == is_page
    assert len(str(error)) < 160
    assert "\n" not in str(error)
    if expected:
        assert str(error) == expected


def test_odd_json_is_read_all_the_same() -> None:
    body = (
        b'\xef\xbb\xbf\n{"a": NaN, "b": [-Infinity, 1e999], '
        b'"c": "\\ud83d x \\ud83d\\ude00", "d": 1.5}'
    )
    data = read_reply(PROVIDERS["openai"], 200, JSON, body)
    assert data == {"a": None, "b": [None, None], "c": "\ufffd x 😀", "d": 1.5}
    assert read_reply(PROVIDERS["openai"], 200, {}, b'{"\\udc00": "\xff"}') == {"\ufffd": "\ufffd"}
    deep = b'{"a":' * 100 + b"1" + b"}" * 100
    assert dump(read_reply(PROVIDERS["openai"], 200, {}, deep)) == deep


@pytest.mark.req("B-4", "B-5")
@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://api.example.com/v1/messages?token=secret", "https://api.example.com/v1/messages"),
        ("https://me:secret@api.example.com/", "https://api.example.com/"),
        ("/login", "/login"),
        ("", "another URL"),
    ],
)
def test_a_redirect_says_where_to_and_keeps_secrets(location: str, shown: str) -> None:
    error = failure(301, b"", {"location": location})
    assert str(error) == (
        f"server: the server redirects to {shown}, but redirects are not followed "
        "(301 Moved Permanently)"
    )
    assert "secret" not in str(error)
    assert "base_url under [providers.openai] in config.toml" in error.hint


@pytest.mark.req("D-23")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0), ("0.5", 0.5), ("-3", 0.0), ("1e9", 86400.0), ("inf", 86400.0),
        ("nan", None), ("soon", None), ("", None), ("Wed, 99 Foo 2026", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("Fri, 31 Dec 9999 23:59:59 GMT", 86400.0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_in_every_notation(value: str, seconds: float | None) -> None:
    assert failure(429, b"", {"retry-after": value}).retry_after == seconds


@pytest.mark.req("D-23")
@pytest.mark.parametrize(
    "form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"]
)
def test_retry_after_may_be_a_date_in_any_form(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = time.strftime(form, time.gmtime(time.time() + 30))
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        wait = failure(503, b"", {"retry-after": soon}).retry_after
    time.tzset()
    assert wait is not None
    assert 25 < wait <= 30


@pytest.mark.parametrize(
    ("status", "provider", "expected"),
    [
        (401, "anthropic", "ANTHROPIC_API_KEY"),
        (401, "openai", "api_key under [providers.openai] in config.toml"),
        (404, "ollama", "check the model name, and base_url under [providers.ollama]"),
        (405, "openai", "check base_url"),
        (413, "openai", "shorten the prompt"),
        (429, "openai", "wait a moment, or allow more retries with --retries (retries=)"),
        (529, "anthropic", "try again later, or allow more retries with --retries (retries=)"),
    ],
)
def test_an_error_has_a_next_step(status: int, provider: str, expected: str) -> None:
    assert expected in failure(status, {"error": "no"}, provider=provider).hint
    error = failure(400, [{"error": {"message": "API key not valid.", "code": 400}}])  # Gemini's
    assert (error.category, error.retryable) == ("auth", False)
    assert "OPENAI_API_KEY" in error.hint


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens"),
        ("top_k: Extra inputs are not permitted", "top_k"),
        ("top_kk: Extra inputs are not permitted", ""),
        ("min_p, which the agent does not set, is unknown", ""),
    ],
)
def test_a_refused_parameter_of_the_agent_is_named(message: str, key: str) -> None:
    body = dump({"error": {"message": message}})
    asked = replace(ask(), params={"max_tokens": 9, "top_k": 2})
    with pytest.raises(ProviderError) as raised:
        read_reply(PROVIDERS["openai"], 400, {}, body, request=asked)
    assert raised.value.hint == (key and f"change or remove params.{key} of the agent")


TOO_LONG = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "too many tokens: total number of tokens in the prompt cannot exceed 128000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "The request exceeds the maximum number of tokens.",
    "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, "
    "please reduce your message size and try again.",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Input is too long for requested model.",
    "ValidationException: Input is too long.",
    "prompt token count of 135000 exceeds the limit of 128000",
    "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
    "Input length (9000 tokens) exceeds the maximum allowed length (4096 tokens). Use a shorter "
    "input or enable --allow-auto-truncate.",
    "The prompt exceeds the model's maximum context.",
    "Invalid request: Your request exceeded model token limit: 131072",
    "Prompt exceeds max length",
    "context shift is disabled",
    "Trying to keep the first 5000 tokens when context the overflows.",
    "Range of input length should be [1, 30720]",
    "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease input "
    "length or `max_tokens` and try again",
    "Please reduce the length of the messages or completion.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3000 "
    "`inputs` tokens and 2000 `max_new_tokens`",
)
USED_UP = (
    "You exceeded your current quota, please check your plan and billing details.",
    "Insufficient Balance",
    "Your credit balance is too low to access the Anthropic API.",
    "This request requires more credits, or fewer max_tokens.",
    "There are no remaining credits.",
    "Your team has either used all available credits or reached its monthly spending limit.",
    "Your account is not active, please check your billing details on our website.",
)


@pytest.mark.req("D-45")
@pytest.mark.parametrize("status", [200, 400, 413, 500])
@pytest.mark.parametrize("text", TOO_LONG)
def test_a_conversation_that_is_too_long_is_to_be_shortened(text: str, status: int) -> None:
    error = failure(status, {"error": {"message": text}})
    assert error.hint == (
        "the conversation exceeds the model's context: start a new one, shorten it, or lower "
        "params.max_tokens of the agent"
    )
    assert not error.retryable
    assert error.category == ("server" if status == 500 else "bad_request")


def test_an_account_without_credit_is_told_to_look_there_and_other_words_mean_nothing() -> None:
    for text in USED_UP:
        error = failure(429, {"error": {"message": text}})
        assert "check the plan and billing" in error.hint, text
        assert not error.retryable
    for text in ("input is too long for a name", "the context is missing", "not the completion"):
        assert failure(400, {"error": {"message": text}}).hint == ""


TOOLS = ask(tools=(CALL_AGENT,))


@pytest.mark.req("D-30")
@pytest.mark.parametrize(
    ("message", "parameter", "is_about_tools"),
    [
        ("m does not support tools", None, True),
        ("m does not support function calling", None, True),
        ("tools are not supported by this model", None, True),
        ("Tool use is not supported", None, True),
        ("there is no support for tools", None, True),
        ("function_call is not supported", None, True),
        ("tool_calls are not supported", None, True),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
         None, True),
        ("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
         "parallel_tool_calls", False),
        ("tool_choice 'required' is not supported", "tool_choice", False),
        ("Function tools with reasoning_effort are not supported for m", "reasoning_effort", False),
        ("tool_choice 'required' is not supported", None, False),
        ("m does not support parallel tool calls", None, False),
        ("a toolbox is not supported", None, False),
    ],
)  # fmt: skip
def test_a_model_that_cannot_use_tools_is_named_but_not_for_a_refused_parameter(
    message: str, parameter: str | None, is_about_tools: bool
) -> None:
    body = json.dumps({"error": {"message": message, "param": parameter}}).encode()
    for request in (TOOLS, ask()):
        with pytest.raises(ProviderError) as raised:
            read_reply(PROVIDERS["openai"], 400, {}, body, request=request)
        if request is TOOLS and is_about_tools:
            assert raised.value.detail == f'model "m" cannot use tools: {message}'
            assert raised.value.hint.startswith("choose another model")
        else:
            assert raised.value.detail == message
