"""Facts in the error bodies of servers: the message, the kind of error, the time to wait. Pure.

Where codes and types do not tell, words of the message do: each table of words maps regular
expressions, in any case, to the servers that use them.
Source: B-5, D-23, D-45.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from axe_nb.errors import Category
from axe_nb.providers.wire import loads, table

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

_KINDS: Mapping[str, Category] = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "resource_exhausted": "rate_limit",
    "insufficient_quota": "rate_limit",
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "unauthenticated": "auth",
    "billing_error": "bad_request",
    "invalid_request_error": "bad_request",
    "invalid_argument": "bad_request",
    "not_found_error": "bad_request",
    "request_too_large": "bad_request",
    "data_residency_mismatch": "bad_request",
    "timeout_error": "timeout",
    "deadline_exceeded": "timeout",
}
"""Type, code or status in an error body → category, if there is no HTTP status."""

_QUOTA_CODES = frozenset(
    {
        "insufficient_quota", "insufficient_user_quota", "exceeded_current_quota_error",
        "insufficient_balance", "billing_error", "billing_hard_limit_reached",
        "billing_not_active", "credit_balance_too_low", "spend_limit_reached",
    }
)  # fmt: skip
"""Codes of an account that has used up its quota or credit."""

_WRONG_KEY = re.compile(
    r"(invalid api key|api key (is )?(not valid|not found|invalid|expired))", re.I
)
"""Beginning of a message about a wrong key."""

_PER_DAY = re.compile(r"per[_ ]?day", re.IGNORECASE)

_CODE = re.compile(r"[A-Za-z0-9][\w.-]{3,59}", re.ASCII)
"""A code that can be looked up; an HTTP status is shorter."""

_MISSING = ("model_not_found", "not_found")
"""Codes that say no more than the status 404."""

_REFUSAL_CODES = frozenset(
    {
        "content_filter", "content_policy_violation", "responsibleaipolicyviolation",
        "data_inspection_failed", "moderation_blocked", "invalid_prompt", "bio_policy",
        "misalignment_policy_violation", "image_content_policy_violation",
    }
)  # fmt: skip
"""Codes of requests whose content the provider rejects."""

_FAILED_CALLS = frozenset({"tool_use_failed", "json_validate_failed"})
"""Groq's codes of a model that wrote an invalid call or invalid JSON; another try may succeed."""

RETRYABLE_STATUSES = frozenset({409, 425})
"""Statuses of bad requests that may succeed later: a lock, a repeated early request."""

FINAL_STATUSES = frozenset({501, 505, 510, 511})
"""Statuses of server errors that do not pass."""

MAX_PROBLEMS = 3
"""Problems of a list that a message names."""


def category(status: int) -> Category:
    """Returns the category of an HTTP error status (B-5, D-37)."""
    match status:
        case 401 | 403:
            return "auth"
        case 408:
            return "timeout"
        case 429 | 498:  # 498: no capacity left in Groq's flex tier
            return "rate_limit"
        case 529:
            return "overloaded"
        case _ if 400 <= status < 500:
            return "bad_request"
        case _:
            return "server"


def classify(status: int | None, data: Any) -> tuple[Category, bool | None]:
    """Returns the category of an error, and whether a retry may help; None = by its category.

    Args:
        status: HTTP status of the reply; None if it reports success.
        data: the body, if it is JSON.
    """
    codes = set(find_codes(data))
    status = status or next((int(c) for c in codes if re.fullmatch("[45][0-9]{2}", c)), None)
    kinds = [_KINDS[code] for code in sorted(codes) if code in _KINDS]
    if any("image" in code for code in codes):
        kinds.append("bad_request")
    found: Category = category(status) if status else next(iter(kinds), "server")
    if found == "bad_request" and is_wrong_key(data):
        return "auth", False
    moderated = (table(error.get("metadata")) for error in _list_errors(data))  # by OpenRouter
    if codes & _REFUSAL_CODES or any("flagged_input" in entry for entry in moderated):
        return "refusal", False
    if codes & _FAILED_CALLS:
        return found, True
    if found in ("server", "bad_request") and is_too_long(find_message(data)):
        return found if status else "bad_request", False
    if found in ("rate_limit", "bad_request") and is_quota(data):
        return found, False
    if status in RETRYABLE_STATUSES:
        return found, True
    if status in FINAL_STATUSES or (status and 300 <= status < 400):
        return found, False
    return found, None


def is_wrong_key(data: Any) -> bool:
    """True if the server says that the key is wrong, as Gemini does with status 400."""
    return bool(_WRONG_KEY.match(find_message(data)[:MAX_SEARCHED]))


def is_quota(data: Any) -> bool:
    """True if an account's quota or credit is used up, so that waiting does not help."""
    if _QUOTA_CODES.intersection(find_codes(data)):
        return True
    if quotas := [str(entry.get("quotaId", "")) for entry in _list_details(data, "violations")]:
        return any(map(_PER_DAY.search, quotas))
    return find_wait(data) is None and is_used_up(find_message(data))


def is_failed_call(data: Any) -> bool:
    """True if the server rejects what the model itself has written."""
    return bool(_FAILED_CALLS.intersection(find_codes(data)))


def find_codes(data: Any) -> Iterator[str]:
    """Yields the types and codes of an error body, in lower case, outermost first."""
    for error in _list_errors(data):
        for part in (error, table(error.get("innererror"))):
            values = (part.get(key) for key in ("type", "code", "status"))
            yield from (str(v).lower() for v in values if isinstance(v, (str, int)))


def find_wait(data: Any) -> float | None:
    """Returns the seconds to wait that Google's servers write into the body; None if absent."""
    for detail in _list_details(data, "retryDelay"):
        if found := re.fullmatch(r"(\d{1,9}(\.\d+)?)s", str(detail["retryDelay"])):
            return float(found[1])
    return None


def find_message(data: Any) -> str:
    """Finds the API's own message, in any of the known formats; empty if there is none."""
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, list):
        return "; ".join(filter(None, map(find_message, data[:MAX_PROBLEMS])))
    if not isinstance(data, dict):
        return ""
    keys = ("error", "message", "Message", "detail", "msg")
    message = next(filter(None, (find_message(data.get(key)) for key in keys)), "")
    if where := _format_location(data.get("loc")):
        message = f"{where}: {message}"
    if inner := _find_upstream(table(data.get("metadata"))):
        return f"{message}: {inner}" if message else inner
    return message


def find_written(data: Any) -> str:
    """Finds the call or answer of the model that the server could not parse; empty if none."""
    texts = (error.get("failed_generation") for error in _list_errors(data))
    return next((text.strip() for text in texts if isinstance(text, str)), "")


def find_code(data: Any, message: str) -> str:
    """Finds the server's own name of the error; empty if the message or the category has it."""
    errors = [*_list_errors(data)][::-1]
    parts = [*errors, *(table(error.get("innererror")) for error in errors)]
    values = (part.get(key) for key in ("code", "type") for part in parts)
    named = (str(value) for value in values if type(value) in (str, int))
    code = next(filter(_CODE.fullmatch, named), "")
    kind = code.lower()
    is_category = _KINDS.get(kind, "bad_request") != "bad_request" and kind not in _QUOTA_CODES
    is_said = f" {_split(code)} " in f" {_split(message)} " or kind in _MISSING
    return "" if is_said or is_category or kind.endswith("error") else code


def _split(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def _format_location(location: Any) -> str:
    """Formats the place that FastAPI names, such as body.messages.0.role."""
    if not isinstance(location, list):
        return ""
    return ".".join(str(part) for part in location[:10] if isinstance(part, (str, int)))


def _find_upstream(metadata: Mapping[str, Any]) -> str:
    """Finds the message of the server behind OpenRouter, with the server's name."""
    raw = metadata.get("raw")
    if isinstance(raw, str):
        with suppress(ValueError):
            raw = find_message(loads(raw)) or raw
    message = find_message(raw)
    name = metadata.get("provider_name")
    return f"{name}: {message}" if message and isinstance(name, str) and name else message


def _list_errors(data: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects of an error body that may have a type or code, outermost first."""
    if isinstance(data, list):
        data = data[0] if data else None
    for _ in range(2):
        if isinstance(data, dict):
            yield data
            data = data.get("error")


def _list_details(data: Any, key: str) -> Iterator[dict[str, Any]]:
    """Yields the entries of `details` with the key; for `violations`, the entries of its lists."""
    for error in _list_errors(data):
        details = error.get("details")
        for detail in details if isinstance(details, list) else ():
            found = table(detail).get(key)
            if key == "violations" and isinstance(found, list):
                yield from map(table, found)
            elif key != "violations" and found is not None:
                yield detail


def _find(words: Mapping[str, str], message: str) -> re.Match[str] | None:
    # `re` keeps the pattern, which few processes need and which takes a while to be made
    return re.search("|".join(words), message[:MAX_SEARCHED], re.IGNORECASE)


def is_too_long(message: str) -> bool:
    """True if the message says that the conversation exceeds the model's context (D-45)."""
    return bool(_find(TOO_LONG, message))


def is_used_up(message: str) -> bool:
    """True if the message says that an account's quota or credit is used up."""
    return bool(_find(USED_UP, message))


def refuses_pictures(message: str) -> bool:
    """True if the message says that pictures or documents are not read."""
    return bool(_find(REFUSED_PICTURES, message))
