"""The texts of servers' errors, and what is made of each; every row of the tables has its text."""

from __future__ import annotations

import pytest

from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.errors import ProviderError
from axe_nb.messages import dump
from axe_nb.providers.reply_errors import read_reply

TOO_LONG = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
    "context length",
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
    "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
    "The prompt exceeds the model's maximum context.",
    "Invalid request: Your request exceeded model token limit: 131072",
    "Prompt exceeds max length",
    "context shift is disabled",
    "Trying to keep the first 5000 tokens when context the overflows.",
    "Range of input length should be [1, 30720]",
    "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context "
    "length is 4096 tokens and your request has 10 input tokens (5000 > 4096 - 10).",
    "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease input "
    "length or `max_tokens` and try again",
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
    "(1000 in the messages, 4000 in the completion).",
    "This endpoint's maximum context length is 131072 tokens. However, you requested about "
    "200000 tokens (190000 of text input, 10000 in the output).",
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
    "requested a total of 5000 tokens: 1000 tokens from the input messages and 4000 tokens for "
    "the completion.",
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


def failure(message: str, status: int = 400) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        read_reply(PROVIDERS["openai"], status, {}, dump({"error": {"message": message}}))
    return raised.value


@pytest.mark.req("D-45")
@pytest.mark.parametrize("status", [200, 400, 413, 500])
@pytest.mark.parametrize("text", TOO_LONG)
def test_a_conversation_that_is_too_long_is_to_be_shortened(text: str, status: int) -> None:
    error = failure(text, status)
    assert error.hint == (
        "the conversation exceeds the model's context: start a new one, shorten it, or lower "
        "params.max_tokens of the agent"
    )
    assert not error.retryable
    assert error.category == ("server" if status == 500 else "bad_request")


@pytest.mark.parametrize("text", USED_UP)
def test_an_account_without_credit_is_told_to_look_there(text: str) -> None:
    error = failure(text, 429)
    assert "check the plan and billing" in error.hint
    assert not error.retryable


@pytest.mark.parametrize(
    "text", ["input is too long for a name", "the context is missing", "not the completion"]
)
def test_other_words_mean_nothing(text: str) -> None:
    assert failure(text).hint == ""
