"""Interpretation of a server's reply: its JSON object, or an error in one line.

Where codes and types of an error do not tell, words of its message do: each table of words maps
regular expressions, in any case, to the servers that use them.
Pure; also used for the failures that script models simulate.
"""

from __future__ import annotations

import email.utils
import http
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
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
"""Header names are in lower case, or matched in any case."""

MAX_SEARCHED = 2000
"""Maximum characters of a message that are searched for words."""

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
"""Words for a conversation that exceeds the model's context → the servers that use them."""

_USED_UP: Mapping[str, str] = {
    r"exceeded your (current|monthly|daily) quota": "OpenAI, Gemini",
    r"insufficient (quota|balance|credit|fund)": "DeepSeek, Moonshot, OpenRouter, Zhipu",
    r"credit balance is too low": "Anthropic",
    r"(requires|add) more credits": "OpenRouter",
    r"(not enough|no|no remaining|out of) credits?\b": "gateways",
    r"spend(ing)? limit": "xAI, Groq",
    r"billing (hard )?limit|account (is )?(not active|in arrears|overdue)": "OpenAI, Alibaba",
}
"""Words for an account that has used up its quota or credit → the servers that use them."""

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
"""Words for a picture or document sent to a model or server that reads text only → the servers
that use them."""

_CATEGORIES: Mapping[int, Category] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    429: "rate_limit",
    498: "rate_limit",  # no capacity left in Groq's flex tier
    529: "overloaded",
}
"""HTTP status → category, where the class of the status does not decide it (B-5, D-37)."""

_KINDS: Mapping[Category, tuple[str, ...]] = {
    "overloaded": ("overloaded_error",),
    "rate_limit": (
        "rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "insufficient_quota",
    ),
    "auth": (
        "authentication_error", "invalid_api_key", "permission_error", "permission_denied",
        "unauthenticated",
    ),
    "bad_request": (
        "billing_error", "invalid_request_error", "invalid_argument", "not_found_error",
        "request_too_large", "data_residency_mismatch",
    ),
    "timeout": ("timeout_error", "deadline_exceeded"),
}  # fmt: skip
"""Category → types, codes or statuses in an error body, if there is no HTTP status."""

_QUOTA_CODES = frozenset(
    {
        "insufficient_quota", "insufficient_user_quota", "exceeded_current_quota_error",
        "insufficient_balance", "billing_error", "billing_hard_limit_reached",
        "billing_not_active", "credit_balance_too_low", "spend_limit_reached",
    }
)  # fmt: skip
"""Codes of an account that has used up its quota or credit."""

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

FINAL_STATUSES = frozenset({501, 505, 510, 511})
"""Statuses of permanent server errors."""

TOO_LONG = (
    "the conversation exceeds the model's context: start a new one, shorten it, or lower "
    "params.max_tokens of the agent"
)

_REPHRASE = "rephrase the prompt in a new conversation, or use another model"

_RETRIES = "allow more retries with --retries"

_BILLING = "check the plan and billing of your account, or use another provider"

_TOOLS = r"\b(tool|function)s?(?!_choice)(\b|_|call)"

_NO_TOOLS = re.compile(
    rf"support\w*\W+((?!parallel)\w+\W+){{0,2}}{_TOOLS}|{_TOOLS}\w*\W+(\w+\W+){{0,3}}not\W+support"
    r"|enable-auto-tool-choice",
    re.IGNORECASE,
)
"""Words of a server about a model that cannot use tools."""


def read_reply(
    provider: ProviderInfo,
    status: int,
    headers: Headers,
    body: bytes,
    secrets: Sequence[str] = (),
    request: Request | None = None,
) -> dict[str, Any]:
    """Returns the JSON object of a reply.

    Raises ProviderError for an error status, a body that is not a JSON object, or a reported error.

    Args:
        secrets: removed wherever an answer repeats them.
        request: the request, if it was for an answer; its model may be unable to use tools (D-30).
    """
    content = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        data = loads(content)
    except ValueError:
        data = None
    if 200 <= status < 300 and isinstance(data, dict) and not data.get("error"):
        return _mask(data, secrets) if secrets else data
    if not 200 <= status < 300:
        error = _make_status_error(provider, status, headers, data, content)
    elif isinstance(data, dict):
        error = error_in_reply(data)
    else:
        error = _make_non_json_error(provider, status, headers, content)
    if step := _find_other_api(provider, error, data):
        error.hint = step
    elif request is not None:
        error = _explain(error, data, request)
    raise error


def _mask(data: Any, secrets: Sequence[str]) -> Any:
    def mask(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, MASK)
        return text

    return change_texts(data, mask, also_keys=True)


def _find_other_api(provider: ProviderInfo, error: ProviderError, data: Any) -> str:
    """Returns the next step if one of OpenAI's two APIs refused, and referred to the other."""
    step, message = provider.other_api, find_message(data)
    if not step or error.status not in (400, 404, 405, 422, 501):
        return ""
    other = r"\bv1/responses\b|\bresponses (api|endpoint)\b"
    if provider.speaks_responses:
        other = r"\bchat[/ ]completions?\b"
    return step if re.search(other, message, re.IGNORECASE) else ""


def _explain(error: ProviderError, data: Any, request: Request) -> ProviderError:
    """Returns an error that names the part of its request that the model or the server refuses."""
    is_bad = error.category == "bad_request"
    for key in request.params if is_bad else ():
        if re.search(rf"\b{re.escape(key)}\b", error.detail):
            error.hint = error.hint or f"change or remove params.{key} of the agent"
            return error
    named = table(table(data).get("error")).get("param")
    if request.tools and is_bad and not named and _NO_TOOLS.search(error.detail):
        others = "remove `tools` and `sub_agents` from the agent"
        if has_answer_tool_alone(request):
            others = "ask for text: structured output from this model needs a tool"
        return _make_unable_error(error, request, "use tools", others)
    if (pictures := request.pictures) and _find(_REFUSED_PICTURES, error.detail):
        what = "documents" if all(one.is_document for one in pictures) else "pictures"
        return _make_unable_error(error, request, f"read {what}", f"leave out the {what}")
    return error


def _make_unable_error(
    error: ProviderError, request: Request, what: str, others: str
) -> ProviderError:
    return ProviderError(
        "bad_request",
        f"model {quote(request.model)} cannot {what}: {error.detail}",
        hint=f"choose another model, or {others}",
        status=error.status,
    )


def error_in_reply(data: Mapping[str, Any]) -> ProviderError:
    """Returns the error that a reply with a success status reports in its body."""
    category, is_retryable, hint = _classify(None, data)
    message = _describe(data) or "the reply reports an error"
    wait = _find_wait(data)
    return ProviderError(category, message, hint=hint, retry_after=wait, retryable=is_retryable)


def missing_part(what: str, data: Mapping[str, Any]) -> ProviderError:
    """Returns the error for a reply without its essential part, with the server's reason if any."""
    reason = masked_line(find_message(data))
    return ProviderError("server", f"response contains no {what}" + (reason and f": {reason}"))


def refusal(explanation: str) -> ProviderError:
    """Returns the error for an answer that the model or the provider withholds."""
    return ProviderError(
        "refusal", masked_line(explanation) or "the model gave no reason", hint=_REPHRASE
    )


def masked_line(message: str, limit: int = 300) -> str:
    """Returns a server's message as one line of at most `limit` characters, without secrets."""
    cleaned = redact(message[: 10 * limit])
    # servers repeat keys with asterisks in them
    return one_line(re.sub(r"(?<!\S)[^\s*]*\*{3,}\S*", MASK, cleaned), limit)


def _make_status_error(
    provider: ProviderInfo, status: int, headers: Headers, data: Any, content: str
) -> ProviderError:
    try:
        phrase = f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    message = _describe(data)
    if 300 <= status < 400:
        where = re.sub(r"//[^/@]*@", "//", re.split("[?#]", headers.get("location", ""))[0])
        where = masked_line(where) or "another URL"
        message = f"the server redirects to {where}, but redirects are not followed ({phrase})"
    elif not message:
        is_text = "html" not in _find_content_type(headers) and "<" not in content[:200]
        first = masked_line(content, 100) if is_text and data is None else ""
        message = f"{phrase}: {first}" if first else phrase
    category, is_retryable, hint = _classify(status, data)
    verdict = headers.get("x-should-retry", "").strip().lower()
    waits = (
        _parse_retry_after(headers.get("retry-after-ms", ""), unit=0.001),
        _parse_retry_after(headers.get("retry-after", "")),
        _find_wait(data),
    )
    error = ProviderError(
        category,
        message,
        status=status,
        retry_after=next((wait for wait in waits if wait is not None), None),
        retryable={"true": True, "false": False}.get(verdict, is_retryable),
    )
    error.hint = hint or _find_hint(provider, error)
    return error


def _find_hint(provider: ProviderInfo, error: ProviderError) -> str:
    """Returns the next step; empty if the message has it, or there is none."""
    status = error.status or 0
    or_retries = f", or {_RETRIES}" if error.retryable else ""
    match status:
        case _ if provider.has_server and (status in (401, 403) or error.category == "auth"):
            if provider.key_command:
                return f"check {provider.key_command.place}"
            table = f"[providers.{provider.name}] in config.toml"
            return f"check {provider.key_variable}, or api_key under {table}"
        case 402:
            return _BILLING
        case 405 if provider.has_server:
            return f"the path may be wrong: check {provider.url_setting}"
        case 413:
            return "the request is too large: shorten the prompt, files and tool results"
        case _ if provider.has_server and status in (404, *FINAL_STATUSES):
            return f"check the model name, and {provider.url_setting}"
        case 429:
            return f"wait a moment{or_retries}"
        case _ if 300 <= status < 400:
            return f"set {provider.url_setting} to the final URL"
        case _ if status >= 500:
            return f"try again later{or_retries}"
        case _:
            return ""


def _make_non_json_error(
    provider: ProviderInfo, status: int, headers: Headers, content: str
) -> ProviderError:
    """Makes the error for a reply that is not a JSON object; a web page does not pass."""
    if not content.strip():
        return ProviderError("server", "the reply is empty", status=status)
    words = masked_line(re.sub(r"<[^<>]*>", " ", redact(content[:2000])), 60)
    kind = masked_line(_find_content_type(headers)) or "text"
    page = r"\s*<(!--|(!doctype|html|head|body)\b)"
    is_page = "html" in kind or bool(re.match(page, content, re.IGNORECASE))
    return ProviderError(
        "server",
        f"the reply is not a JSON object but {kind}" + (f": {words}" if words else ""),
        hint=f"check {provider.url_setting}" if is_page else "",
        status=status,
        retryable=False if is_page else None,
    )


def _find_content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _parse_retry_after(value: str, unit: float = 1.0) -> float | None:
    """Parses a number or an HTTP date, which is in UTC, into seconds; None if it is neither."""
    try:
        seconds = float(value) * unit
    except ValueError:
        try:
            date = email.utils.parsedate_to_datetime(value)
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError, OSError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), 86_400.0)


def _classify(status: int | None, data: Any) -> tuple[Category, bool | None, str]:
    """Returns the category of an error, whether a retry may help, and the next step.

    The second is None where the category says it, the third empty where the body does not tell. The
    status is None if the reply reports success.
    """
    codes, message = set(_list_codes(data)), find_message(data)
    status = status or next((int(c) for c in codes if re.fullmatch("[45][0-9]{2}", c)), None)
    found: Category = "server"
    if status:
        found = _CATEGORIES.get(status) or ("bad_request" if 400 <= status < 500 else "server")
    elif kinds := [kind for kind, known in _KINDS.items() if codes.intersection(known)]:
        found = kinds[0]
    elif any("image" in code for code in codes):
        found = "bad_request"
    wrong_key = r"invalid api key|api key (is )?(not valid|not found|invalid|expired)"
    if found == "bad_request" and re.match(wrong_key, message, re.IGNORECASE):  # Gemini's
        return "auth", False, ""
    moderated = (table(error.get("metadata")) for error in _list_errors(data))  # by OpenRouter
    if codes & _REFUSAL_CODES or any("flagged_input" in entry for entry in moderated):
        return "refusal", False, _REPHRASE
    if codes & _FAILED_CALLS:
        return found, True, f"try again, {_RETRIES}, or use another model"
    if found in ("server", "bad_request") and _find(_TOO_LONG, message):
        return found if status else "bad_request", False, TOO_LONG
    is_final: bool | None = None
    if status in (409, 425):  # a lock, a repeated early request
        is_final = False
    elif status in FINAL_STATUSES or (status and 300 <= status < 400):
        is_final = True
    hint = ""
    if codes & _QUOTA_CODES or (_find_wait(data) is None and is_used_up(message)):
        hint, is_final = _BILLING, found in ("rate_limit", "bad_request") or is_final
    return found, None if is_final is None else not is_final, hint


def find_message(data: Any) -> str:
    """Finds the API's own message, in any of the known formats; empty if there is none."""
    return _find_message(data)[:MAX_SEARCHED]


def _find_message(data: Any) -> str:
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, list):
        return "; ".join(filter(None, map(_find_message, data[:3])))
    if not isinstance(data, dict):
        return ""
    keys = ("error", "message", "Message", "detail", "msg")
    message = next(filter(None, (_find_message(data.get(key)) for key in keys)), "")
    if isinstance(place := data.get("loc"), list):  # FastAPI: body.messages.0.role
        message = f"{'.'.join(map(str, place[:10]))}: {message}"
    metadata = table(data.get("metadata"))  # OpenRouter, of the server behind it
    raw = metadata.get("raw")
    if isinstance(raw, str):
        with suppress(ValueError):
            raw = _find_message(loads(raw)) or raw
    if inner := _find_message(raw):
        name = metadata.get("provider_name")
        inner = f"{name}: {inner}" if isinstance(name, str) and name else inner
        return f"{message}: {inner}" if message else inner
    return message


def _describe(data: Any) -> str:
    """Returns the server's message, and its code if that adds something; empty = no message."""
    message = masked_line(find_message(data))
    code = masked_line(_find_code(data, message)) if message else ""
    return f"{message} ({code})" if code else message


def _find_code(data: Any, message: str) -> str:
    """Finds the server's error code; empty if the message or the category says the same."""
    errors = [*_list_errors(data)][::-1]
    parts = [*errors, *(table(error.get("innererror")) for error in errors)]
    values = (part.get(key) for key in ("code", "type") for part in parts)
    named = (str(value) for value in values if type(value) in (str, int))
    # one that can be looked up; an HTTP status is shorter
    code = next((one for one in named if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{3,59}", one)), "")
    kind = code.lower()
    known = {one for name, all in _KINDS.items() if name != "bad_request" for one in all}
    is_category = kind in known - _QUOTA_CODES
    is_said = f" {_split(code)} " in f" {_split(message)} " or kind.endswith("not_found")
    return "" if is_said or is_category or kind.endswith("error") else code


def _split(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def _list_codes(data: Any) -> Iterator[str]:
    """Yields the types and codes of an error body, in lower case, outermost first."""
    for error in _list_errors(data):
        for part in (error, table(error.get("innererror"))):
            values = (part.get(key) for key in ("type", "code", "status"))
            yield from (str(v).lower() for v in values if isinstance(v, (str, int)))


def _find_wait(data: Any) -> float | None:
    """Returns the seconds to wait that Google's servers write into the body; None if absent."""
    for error in _list_errors(data):
        details = error.get("details")
        for detail in details if isinstance(details, list) else ():
            asked = str(table(detail).get("retryDelay"))
            if found := re.fullmatch(r"(\d{1,9}(\.\d+)?)s", asked):
                return float(found[1])
    return None


def _list_errors(data: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects of an error body that may have a type or code, outermost first."""
    if isinstance(data, list):
        data = data[0] if data else None
    for _ in range(2):
        if isinstance(data, dict):
            yield data
            data = data.get("error")


def is_used_up(message: str) -> bool:
    """True if the message says that an account's quota or credit is used up."""
    return _find(_USED_UP, message)


def _find(words: Mapping[str, str], message: str) -> bool:
    # `re` keeps the pattern, which few processes need and which takes a while to be made
    return bool(re.search("|".join(words), message[:MAX_SEARCHED], re.IGNORECASE))
