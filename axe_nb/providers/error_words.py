"""Phrases in servers' error messages, for what their codes and types do not tell. Pure.

Each table maps words, regular expressions in any case, to the servers that use them.
Source: B-5, D-23, D-45.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_SEARCHED = 2000
"""Characters of a message in which words are looked for."""

TOO_LONG: Mapping[str, str] = {
    r"context[ _](length|window|size|limit)": "OpenAI, Anthropic, Mistral, vLLM, llama.cpp, Ollama",
    r"prompt is too long": "Anthropic",
    r"too many (input |total )?tokens": "Cohere",
    r"input token count .{0,40}exceeds the maximum": "Gemini",
    r"exceeds? the maximum number of tokens": "Vertex AI",
    r"reduce (the length of the messages|your message size)": "Groq",
    r"maximum prompt length is": "xAI",
    r"\binput is too long(\.?$| for (the )?requested model)": "Bedrock",
    r"prompt token count of \d+ exceeds": "Copilot",
    r"(longer|greater) than (the )?maximum model length|max[_ ]model[_ ]len": "vLLM",
    r"exceeds? (the )?(max(imum)? )?(allowed )?(input |prompt )?length": "SGLang, Zhipu",
    r"exceeds the model'?s? (maximum )?(context|token)": "SGLang",
    r"exceeded model token limit": "Moonshot",
    r"context shift is disabled|exceed_context_size": "llama.cpp",
    r"tokens to keep from the initial prompt|context the overflows": "LM Studio",
    r"range of input length should be": "Alibaba",
    r"tokens.? \+ .max_new_tokens. must be": "TGI",
}
"""A conversation that exceeds the model's context."""

COUNTS_ANSWER: Mapping[str, str] = {
    r"max_tokens\W.{0,40}is too large": "vLLM",
    r"input length and .max_tokens. exceed": "Anthropic, Bedrock",
    r"(in|for) the (completion|output)\b": "OpenAI, OpenRouter, SGLang",
    r"length of the messages or completion": "Groq, vLLM",
    r"\+ .max_new_tokens. must be": "TGI",
}
"""One that does so together with the tokens asked for the answer."""

USED_UP: Mapping[str, str] = {
    r"exceeded your (current|monthly|daily) quota": "OpenAI, Gemini",
    r"insufficient (quota|balance|credit|fund)": "DeepSeek, Moonshot, OpenRouter, Zhipu",
    r"credit balance is too low": "Anthropic",
    r"(requires|add) more credits": "OpenRouter",
    r"(not enough|no|no remaining|out of) credits?\b": "gateways",
    r"spend(ing)? limit": "xAI, Groq",
    r"billing (hard )?limit|account (is )?(not active|in arrears|overdue)": "OpenAI, Alibaba",
}
"""An account that has used up its quota or credit."""

REFUSED_PARAMETER: Mapping[str, str] = {
    r"unknown name \W?(\w+)": "Gemini",
    r"property \W(\w+)\W is unsupported": "Groq",
    r"unrecognized request arguments? supplied: (\w+)": "OpenAI",
    r"un(?:supported|known) (?:parameter|argument|value): \W?(\w+)": "OpenAI",
    r"^(?:body\.)?(?-i:([a-z_]+)[a-z_.]*): (?:extra|input should|range|must|\d)": "Anthropic",
    r"`(\w+)` (?:and `\w+` cannot both be specified|is deprecated)": "Anthropic",
    r"'loc': \('body', '(\w+)'": "vLLM",
    r"does not support parameters: \W*(\w+)": "LiteLLM",
    r"argument not supported on this model: (\w+)": "xAI",
    r"invalid (\w+) value, the valid range": "DeepSeek",
}
"""A parameter that is refused, which the group names."""

REFUSED_PICTURES: Mapping[str, str] = {
    r"image_url is only supported by certain models": "OpenAI",
    r"(does not|doesn.?t|do not|cannot|can.?t) (support|accept|process|read|handle) "
    r"(\w+ ){0,3}(image|picture|vision|pdf|document|file|multimodal)": "Anthropic, LM Studio",
    r"(image|vision|pdf|document|file|multimodal)s?( \w+){0,4} (is|are) not (supported|enabled|"
    r"available)": "Gemini, llama.cpp, Mistral",
    r"no endpoints found that support (image|file)": "OpenRouter",
    r"at most 0 image": "vLLM",
    r"is not a (multimodal|vision) model": "vLLM, SGLang",
    r"unknown variant .?(image_url|file)": "DeepSeek",
    r"missing data required for image input": "Ollama",
    r"content must be a string": "Groq",
    r"unsupported (content|media|input) type\W+(image|file|pdf)": "gateways",
    r"(image|file|pdf) (input )?(content )?(type )?not supported": "Cerebras, Together",
}
"""A picture or document sent to a model, or a server, that reads text only."""


def _find(words: Mapping[str, str], message: str) -> re.Match[str] | None:
    # `re` keeps the pattern, which few processes need and which takes a while to be made
    return re.search("|".join(words), message[:MAX_SEARCHED], re.IGNORECASE)


def is_too_long(message: str) -> bool:
    """True if the message says that the conversation exceeds the model's context (D-45)."""
    return bool(_find(TOO_LONG, message))


def counts_answer(message: str) -> bool:
    """True if what exceeds the context includes the tokens asked for the answer."""
    return bool(_find(COUNTS_ANSWER, message))


def is_used_up(message: str) -> bool:
    """True if the message says that an account's quota or credit is used up."""
    return bool(_find(USED_UP, message))


def refuses_pictures(message: str) -> bool:
    """True if the message says that pictures or documents are not read."""
    return bool(_find(REFUSED_PICTURES, message))


def find_refused_parameter(message: str) -> str:
    """Returns the parameter that the message refuses; empty if it names none."""
    match = _find(REFUSED_PARAMETER, message)
    return next(filter(None, match.groups())) if match else ""
