"""Parses a model server's reply into a JSON object or a one-line error.

If an error's codes and types are not specific, its message is matched against patterns, listed here
with the servers that send such messages. Simulated HTTP errors of script models are parsed, too.
"""

from __future__ import annotations

import email.utils
import http.client
import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any, TypeAlias

from axe_nb.agents.provider_table import ProviderInfo
from axe_nb.conversion.jsonable import change_texts
from axe_nb.errors import Category, ProviderError
from axe_nb.messages import Request
from axe_nb.messages.answer_tool import has_answer_tool_alone
from axe_nb.providers.wire import loads, table
from axe_nb.secrets import MASK, redact
from axe_nb.text import one_line, quote

Headers: TypeAlias = Mapping[str, str]

_TOO_LONG: Mapping[str, str] = {
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
"""Pattern for error messages about a conversation that is too long → servers that send them."""

_USED_UP: Mapping[str, str] = {
    r"exceeded your (current|monthly|daily) quota": "OpenAI, Gemini",
    r"insufficient (quota|balance|credit|fund)": "DeepSeek, Moonshot, OpenRouter, Zhipu",
    r"credit balance is too low": "Anthropic",
    r"(requires|add) more credits": "OpenRouter",
    r"(not enough|no|no remaining|out of) credits?\b": "gateways",
    r"spend(ing)? limit": "xAI, Groq",
    r"billing (hard )?limit|account (is )?(not active|in arrears|overdue)": "OpenAI, Alibaba",
}
"""Pattern for error messages about exhausted quota or credit → servers that send them."""

_REFUSED_PICTURES: Mapping[str, str] = {
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
"""Pattern for error messages about pictures that a model cannot read → servers that send them."""

_CATEGORIES: Mapping[int, Category] = {
    401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit",
    498: "rate_limit",  # no capacity left in Groq's flex tier
    529: "overloaded",
}  # fmt: skip
"""HTTP status → category; other 4xx are `bad_request`, all the rest `server` (B-5, D-37)."""

_KINDS: Mapping[str, Category] = {
    "overloaded_error": "overloaded", "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit", "resource_exhausted": "rate_limit",
    "insufficient_quota": "rate_limit", "authentication_error": "auth", "invalid_api_key": "auth",
    "permission_error": "auth", "permission_denied": "auth", "unauthenticated": "auth",
    "timeout_error": "timeout", "deadline_exceeded": "timeout", "billing_error": "bad_request",
    "invalid_request_error": "bad_request", "invalid_argument": "bad_request",
    "not_found_error": "bad_request", "request_too_large": "bad_request",
    "data_residency_mismatch": "bad_request",
}  # fmt: skip
"""Error type, code or status in a body → category, for replies without an HTTP error status."""

_QUOTA_CODES = {
    "insufficient_quota", "insufficient_user_quota", "exceeded_current_quota_error",
    "insufficient_balance", "billing_error", "billing_hard_limit_reached", "billing_not_active",
    "credit_balance_too_low", "spend_limit_reached",
}  # fmt: skip

_REFUSAL_CODES = {
    "content_filter", "content_policy_violation", "responsibleaipolicyviolation",
    "data_inspection_failed", "moderation_blocked", "invalid_prompt", "bio_policy",
    "misalignment_policy_violation", "image_content_policy_violation",
}  # fmt: skip
"""Error codes for requests whose content the provider rejects."""

_FINAL_STATUSES = (501, 505, 510, 511)
"""HTTP statuses of server errors that a retry does not fix."""

TOO_LONG = (
    "the conversation exceeds the model's context: start a new one, shorten it, or lower "
    "params.max_tokens of the agent"
)

_REPHRASE = "rephrase the prompt in a new conversation, or use another model"

_RETRIES = "allow more retries with --retries (retries=)"

_BILLING = "check the plan and billing of your account, or use another provider"

_TOOLS = r"\b(tool|function)s?(?!_choice)(\b|_|call)"

_NO_TOOLS = re.compile(
    rf"support\w*\W+((?!parallel)\w+\W+){{0,2}}{_TOOLS}|{_TOOLS}\w*\W+(\w+\W+){{0,3}}not\W+support"
    r"|enable-auto-tool-choice",
    re.IGNORECASE,
)
"""Matches error messages that say that a model does not support tools."""


def read_reply(
    provider: ProviderInfo,
    status: int,
    headers: Headers,
    body: bytes,
    secrets: Sequence[str] = (),
    request: Request | None = None,
) -> dict[str, Any]:
    """Returns the JSON object of a reply, with all `secrets` masked.

    Raises ProviderError if the status is an error, or the body reports an error or is not a JSON
    object. If `request` is given and the server's message shows which part of the request was
    refused, the error says so.
    """
    content = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        data = loads(content)
    except ValueError:
        data = None
    error: ProviderError | None = None
    if not 200 <= status < 300:
        error = _make_status_error(provider, status, headers, data, content)
    elif isinstance(data, dict) and data.get("error"):
        error = error_in_reply(data)
    if error:
        raise _explain(error, provider, data, request)
    if not content.strip():
        raise ProviderError("server", "the reply is empty", status=status)
    if not isinstance(data, dict):
        words = masked_line(re.sub(r"<[^<>]*>", " ", redact(content[:2000])), 60)
        kind = masked_line(headers.get("content-type", "").partition(";")[0].lower()) or "text"
        is_page = "html" in kind or content.lstrip().startswith("<")
        raise ProviderError(
            "server",
            f"the reply is not a JSON object but {kind}" + (f": {words}" if words else ""),
            hint=f"check {provider.url_setting}" if is_page else "",
            status=status,
            retryable=False if is_page else None,  # a retry would fetch the same page
        )

    def mask(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, MASK)
        return text

    return change_texts(data, mask, also_keys=True) if secrets else data


def _explain(
    error: ProviderError, provider: ProviderInfo, data: Any, request: Request | None
) -> ProviderError:
    """Adds advice to an error whose message shows what the server refused."""
    other = r"\bv1/responses\b|\bresponses (api|endpoint)\b"
    if provider.speaks_responses:
        other = r"\bchat[/ ]completions?\b"
    names_other = re.search(other, find_message(data), re.IGNORECASE)
    if provider.other_api and error.status in (400, 404, 405, 422, 501) and names_other:
        error.hint = provider.other_api
        return error
    if request is None:
        return error
    is_bad = error.category == "bad_request"
    for key in request.params if is_bad else ():
        if re.search(rf"\b{re.escape(key)}\b", error.detail):
            error.hint = error.hint or f"change or remove params.{key} of the agent"
            return error
    named = table(table(data).get("error")).get("param")
    if request.tools and is_bad and not named and _NO_TOOLS.search(error.detail):
        what, others = "use tools", "remove `tools` and `sub_agents` from the agent"
        if has_answer_tool_alone(request):
            others = "ask for text: structured output from this model needs a tool"
    elif (pictures := request.pictures) and _find(_REFUSED_PICTURES, error.detail):
        kind = "documents" if all(one.is_document for one in pictures) else "pictures"
        what, others = f"read {kind}", f"leave out the {kind}"
    else:
        return error
    return ProviderError(
        "bad_request",
        f"model {quote(request.model)} cannot {what}: {error.detail}",
        hint=f"choose another model, or {others}",
        status=error.status,
    )


def error_in_reply(data: Mapping[str, Any]) -> ProviderError:
    """Returns the error that a reply with a success status reports in its body."""
    category, is_retryable, hint = _classify(None, data)
    return ProviderError(
        category,
        _describe(data) or "the reply reports an error",
        hint=hint, retry_after=_find_wait(data), retryable=is_retryable,
    )  # fmt: skip


def missing_part(what: str, data: Mapping[str, Any]) -> ProviderError:
    """Returns the error for a reply that lacks the part `what`, with any reason the server gave."""
    reason = masked_line(find_message(data))
    return ProviderError("server", f"response contains no {what}" + (reason and f": {reason}"))


def refusal(explanation: str) -> ProviderError:
    """Returns the error for an answer that the model or the provider withholds."""
    message = masked_line(explanation) or "the model gave no reason"
    return ProviderError("refusal", message, hint=_REPHRASE)


def masked_line(message: str, limit: int = 300) -> str:
    """Returns a server's message as one line of at most `limit` characters, without secrets."""
    cleaned = redact(message[: 10 * limit])
    # servers repeat keys with asterisks in place of some characters
    return one_line(re.sub(r"(?<!\S)[^\s*]*\*{3,}\S*", MASK, cleaned), limit)


def _make_status_error(
    provider: ProviderInfo, status: int, headers: Headers, data: Any, content: str
) -> ProviderError:
    phrase = f"{status} {http.client.responses.get(status, '')}".strip()
    message = _describe(data)
    if 300 <= status < 400:
        where = re.sub(r"//[^/@]*@", "//", re.split("[?#]", headers.get("location", ""))[0])
        where = masked_line(where) or "another URL"
        message = f"the server redirects to {where}, but redirects are not followed ({phrase})"
    elif not message:
        is_page = "html" in headers.get("content-type", "").lower() or "<" in content[:200]
        first = "" if is_page or data is not None else masked_line(content, 100)
        message = f"{phrase}: {first}" if first else phrase
    category, is_retryable, hint = _classify(status, data)
    verdict = headers.get("x-should-retry", "").strip().lower()
    wait = _parse_retry_after(headers.get("retry-after-ms", ""), unit=0.001)
    if wait is None:
        wait = _parse_retry_after(headers.get("retry-after", ""))
    error = ProviderError(
        category,
        message,
        status=status,
        retry_after=_find_wait(data) if wait is None else wait,
        retryable={"true": True, "false": False}.get(verdict, is_retryable),
    )
    error.hint = hint or _find_hint(provider, error)
    return error


def _find_hint(provider: ProviderInfo, error: ProviderError) -> str:
    status, has_server = error.status or 0, provider.has_server
    or_retries = f", or {_RETRIES}" if error.retryable else ""
    if has_server and (status in (401, 403) or error.category == "auth"):
        if provider.key_command:
            return f"check {provider.key_place}"
        own = f"[providers.{provider.name}] in config.toml"
        return f"check {provider.key_variable}, or api_key under {own}"
    if status == 402:
        return _BILLING
    if status == 405 and has_server:
        return f"the path may be wrong: check {provider.url_setting}"
    if status == 413:
        return "the request is too large: shorten the prompt, files and tool results"
    if status in (404, *_FINAL_STATUSES) and has_server:
        return f"check the model name, and {provider.url_setting}"
    if status == 429:
        return f"wait a moment{or_retries}"
    if status < 400:
        return f"set {provider.url_setting} to the final URL"
    return f"try again later{or_retries}" if status >= 500 else ""


def _parse_retry_after(value: str, unit: float = 1.0) -> float | None:
    """Returns the seconds to wait, at most a day; None if the value is invalid.

    A value is a number, counted in units of `unit` seconds, or an HTTP date.
    """
    try:
        seconds = float(value) * unit
    except ValueError:
        try:
            date = email.utils.parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time()
    return None if math.isnan(seconds) else min(max(seconds, 0.0), 86_400.0)


def _classify(status: int | None, data: Any) -> tuple[Category, bool | None, str]:
    """Returns an error's category, whether a retry may help, and a hint, which may be empty.

    `status` is None if the HTTP status reports success. The second value is None if the category
    alone determines whether a retry may help.
    """
    errors, message = _list_errors(data), find_message(data)
    values = (error.get(key) for error in errors for key in ("type", "code", "status"))
    codes = {str(value).lower(): None for value in values if isinstance(value, (str, int))}
    status = status or next((int(c) for c in codes if re.fullmatch("[45][0-9]{2}", c)), None)
    found: Category = "server"
    if status:
        found = _CATEGORIES.get(status) or ("bad_request" if 400 <= status < 500 else "server")
    elif kinds := [_KINDS[code] for code in codes if code in _KINDS]:
        found = kinds[-1]
    elif any("image" in code for code in codes):
        found = "bad_request"
    wrong_key = r"invalid api key|api key (is )?(not valid|not found|invalid|expired)"
    if found == "bad_request" and re.match(wrong_key, message, re.IGNORECASE):  # Gemini
        return "auth", False, ""
    is_flagged = any("flagged_input" in table(one.get("metadata")) for one in errors)  # OpenRouter
    if codes.keys() & _REFUSAL_CODES or is_flagged:
        return "refusal", False, _REPHRASE
    if codes.keys() & {"tool_use_failed", "json_validate_failed"}:  # Groq: the model's mistake
        return found, True, f"try again, {_RETRIES}, or use another model"
    if found in ("server", "bad_request") and _find(_TOO_LONG, message):
        return found if status else "bad_request", False, TOO_LONG
    is_retryable: bool | None = None
    if status in (409, 425):  # a conflict, or sent too early
        is_retryable = True
    elif status in _FINAL_STATUSES or (status and 300 <= status < 400):
        is_retryable = False
    if codes.keys() & _QUOTA_CODES or (_find_wait(data) is None and is_used_up(message)):
        return found, False if found in ("rate_limit", "bad_request") else is_retryable, _BILLING
    return found, is_retryable, ""


def find_message(data: Any) -> str:
    """Returns the message in an error body of any known format; empty if there is none."""
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, list):
        return "; ".join(filter(None, map(find_message, data[:3])))
    if not isinstance(data, dict):
        return ""
    keys = ("error", "message", "Message", "detail", "msg")
    message = next(filter(None, (find_message(data.get(key)) for key in keys)), "")
    if isinstance(place := data.get("loc"), list):  # FastAPI: body.messages.0.role
        message = f"{'.'.join(map(str, place[:10]))}: {message}"
    metadata = table(data.get("metadata"))  # OpenRouter: the error of the upstream server
    inner = raw = find_message(metadata.get("raw"))
    with suppress(ValueError):
        inner = find_message(loads(raw)) or raw
    if not inner:
        return message
    name = metadata.get("provider_name")
    inner = f"{name}: {inner}" if isinstance(name, str) and name else inner
    return f"{message}: {inner}" if message else inner


def _describe(data: Any) -> str:
    """Returns the message in an error body, followed by the error code if it adds information."""
    message = masked_line(find_message(data))
    values = (error.get(key) for key in ("code", "type") for error in _list_errors(data))
    named = (str(value) for value in values if type(value) in (str, int))
    # a code that can be looked up; an HTTP status is shorter
    code = next(filter(re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{3,59}").fullmatch, named), "")
    kind = code.lower()
    is_category = _KINDS.get(kind, "bad_request") != "bad_request" and kind not in _QUOTA_CODES
    said, name = (re.sub(r"[^a-z0-9]+", " ", text.lower()).strip() for text in (message, code))
    is_said = f" {name} " in f" {said} " or kind.endswith(("not_found", "error"))
    code = "" if is_said or is_category else masked_line(code)
    return f"{message} ({code})" if message and code else message


def _find_wait(data: Any) -> float | None:
    """Returns the retry delay in seconds from a Google server's error body; None if absent."""
    for error in _list_errors(data):
        details = error.get("details")
        for detail in details if isinstance(details, list) else ():
            asked = str(table(detail).get("retryDelay"))
            if found := re.fullmatch(r"(\d{1,9}(\.\d+)?)s", asked):
                return float(found[1])
    return None


def _list_errors(data: Any) -> list[dict[str, Any]]:
    if isinstance(data, list):
        data = data[0] if data else None
    outer = table(data)
    errors = [table(outer.get("error")), outer]
    return [*errors, *(table(error.get("innererror")) for error in errors)]  # innererror: Azure


def is_used_up(message: str) -> bool:
    """True if the message says that an account's quota or credit is used up."""
    return _find(_USED_UP, message)


def _find(words: Mapping[str, str], message: str) -> bool:
    # compiled on first use and cached by `re`: compiling is slow, and few processes need it
    return bool(re.search("|".join(words), message[:2000], re.IGNORECASE))
