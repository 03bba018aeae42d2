"""Interpretation of a server's reply: its JSON object, or an error in one line.

Pure; also used for the failures that script models simulate.
Source: B-4, B-5, D-30, D-37, D-45; goals.md "Safety".
"""

from __future__ import annotations

import email.utils
import http
import math
import re
import time
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from axe_nb.errors import ProviderError
from axe_nb.provider_table import ProviderInfo
from axe_nb.providers.error_bodies import (
    FINAL_STATUSES,
    classify,
    find_message,
    find_parameter,
    find_wait,
    is_failed_call,
    is_quota,
)
from axe_nb.providers.error_words import counts_answer, is_too_long
from axe_nb.providers.wire import loads
from axe_nb.text import one_line, quote

Headers: TypeAlias = Mapping[str, str]
"""Header names are in lower case, or matched in any case."""

MAX_MESSAGE = 300
"""Characters kept of a server's own message."""

MAX_RETRY_AFTER = 86_400.0
"""Seconds; larger values are reduced to this."""

SHORTEST_KEY = 6
"""Characters; shorter keys are placeholders such as `none`, and would match ordinary words."""

SURELY_A_KEY = 16
"""Characters; shorter keys are not removed from answers, as they may be words (`lm-studio`)."""

_HALF_MASKED = re.compile(r"(?<!\S)[^\s*]*\*{3,}\S*")
"""A word with asterisks, as in keys that servers repeat."""

_PAGE = re.compile(r"\s*<(!--|(!doctype|html|head|body)\b)", re.IGNORECASE)

_REPHRASE = "rephrase the prompt in a new conversation, or use another model"

_SHORTEN = "the conversation exceeds the model's context: start a new one, or shorten it"

_SHORTEN_BOTH = (
    "the conversation plus params.max_tokens exceeds the model's context: set a lower "
    "params.max_tokens of the agent, or shorten the conversation"
)

_RETRIES = "set max_retries under [retry] of the agent"

_BILLING = "check plan and billing of the account, or use another provider"

_NO_TOOLS = re.compile(
    r"support\w*\W+(\w+\W+){0,2}(tool|function)|(tool|function)\w*\W+(\w+\W+){0,3}not\W+support"
    r"|enable-auto-tool-choice",
    re.IGNORECASE,
)


def read_reply(
    provider: ProviderInfo, status: int, headers: Headers, body: bytes, key: str = ""
) -> dict[str, Any]:
    """Returns the JSON object of a reply.

    Args:
        key: removed wherever the server repeats it.

    Raises:
        ProviderError: an error status, a body that is not a JSON object, or a reported error.
    """
    content = body.decode("utf-8", "replace").removeprefix("\ufeff")
    if len(key) >= SURELY_A_KEY:
        content = _mask_key(key, content)
    try:
        data = loads(content)
    except ValueError:
        data = None
    if not 200 <= status < 300:
        raise _make_status_error(provider, status, headers, data, content, key)
    if not isinstance(data, dict):
        raise _make_non_json_error(provider, status, headers, content, key)
    if data.get("error"):
        raise error_in_reply(data, key)
    return data


def error_in_reply(data: Mapping[str, Any], key: str = "") -> ProviderError:
    """Returns the error that a reply with a success status reports in its body."""
    category, is_retryable = classify(None, data)
    error = ProviderError(
        category,
        masked_line(find_message(data), key) or "the reply reports an error",
        retry_after=find_wait(data),
        retryable=is_retryable,
    )
    error.hint = _find_hint_in(error, data)
    return error


def missing_part(what: str, data: Mapping[str, Any]) -> ProviderError:
    """Returns the error for a reply that lacks what it is for, with the server's reason if any."""
    reason = masked_line(find_message(data))
    return ProviderError("server", f"response contains no {what}" + (reason and f": {reason}"))


def refusal(explanation: str) -> ProviderError:
    """Returns the error for an answer that the model or the provider withholds."""
    return ProviderError(
        "refusal", masked_line(explanation) or "the model gave no reason", hint=_REPHRASE
    )


def masked_line(message: str, key: str = "", limit: int = MAX_MESSAGE) -> str:
    """Returns a server's message as one line of at most `limit` characters, without keys."""
    return one_line(_HALF_MASKED.sub("***", _mask_key(key, message)[: 10 * limit]), limit)


def _mask_key(key: str, message: str) -> str:
    return message.replace(key, "***") if len(key) >= SHORTEST_KEY else message


def refuses_tools(error: ProviderError) -> bool:
    """True if the server says that the model cannot use tools (D-30)."""
    return error.category == "bad_request" and bool(_NO_TOOLS.search(error.detail))


def without_tools(error: ProviderError, model: str) -> ProviderError:
    """Makes an error that names the model from its rejection of tools (D-30)."""
    return ProviderError(
        "bad_request",
        f"model {quote(model)} cannot use tools: {error.detail}",
        hint="choose another model, or remove `tools` and `sub_agents` from the agent",
        status=error.status,
    )


def _make_status_error(
    provider: ProviderInfo, status: int, headers: Headers, data: Any, content: str, key: str
) -> ProviderError:
    try:
        phrase = f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    message = masked_line(find_message(data), key)
    if 300 <= status < 400:
        where = masked_line(_format_location(headers.get("location", "")), key)
        message = f"the server redirects to {where}, and redirects are not followed ({phrase})"
    elif not message:
        plain = (
            data is None and "html" not in _find_content_type(headers) and "<" not in content[:200]
        )
        first = masked_line(content, key, 100) if plain else ""
        message = f"{phrase}: {first}" if first else phrase
    category, is_retryable = classify(status, data)
    verdict = headers.get("x-should-retry", "").strip().lower()
    wait = _parse_wait(headers)
    error = ProviderError(
        category,
        message,
        status=status,
        retry_after=find_wait(data) if wait is None else wait,
        retryable={"true": True, "false": False}.get(verdict, is_retryable),
    )
    error.hint = _find_hint_in(error, data) or _find_hint(provider, error)
    return error


def _find_hint_in(error: ProviderError, data: Any) -> str:
    """Returns the next step after a failure that the body alone tells; empty if it does not."""
    if error.category == "refusal":
        return _REPHRASE
    message = find_message(data)
    if error.category != "rate_limit" and is_too_long(message):
        return _SHORTEN_BOTH if counts_answer(message) else _SHORTEN
    if is_failed_call(data):
        return f"try again, {_RETRIES}, or use another model"
    parameter, instead = find_parameter(data)
    if error.category == "bad_request" and parameter:
        if instead:
            return f"set params.{instead} of the agent instead of params.{parameter}"
        return f"change or remove params.{parameter} of the agent"
    if is_quota(data):
        return _BILLING
    return ""


def _format_table(provider: ProviderInfo) -> str:
    return f"[providers.{provider.name}] in config.toml"


def _find_hint(provider: ProviderInfo, error: ProviderError) -> str:
    """Returns the next step; empty if the message says it or there is none."""
    table = _format_table(provider)
    status = error.status or 0
    or_retries = f", or {_RETRIES}" if error.retryable else ""
    match status:
        case 401 | 403 if provider.has_server:
            return f"check {provider.key_variable}, or api_key under {table}"
        case 402:
            return _BILLING
        case _ if provider.has_server and status in (404, *FINAL_STATUSES):
            return f"check the model name, and base_url under {table}"
        case 429:
            return f"wait a moment{or_retries}"
        case _ if 300 <= status < 400:
            return f"set base_url under {table} to the final URL"
        case _ if status >= 500:
            return f"try again later{or_retries}"
        case _:
            return ""


def _make_non_json_error(
    provider: ProviderInfo, status: int, headers: Headers, content: str, key: str
) -> ProviderError:
    """Makes the error for a reply that is not a JSON object; a web page does not pass."""
    if not content.strip():
        return ProviderError("server", "the reply is empty", status=status)
    words = masked_line(re.sub(r"<[^<>]*>", " ", _mask_key(key, content)[:2000]), limit=60)
    kind = masked_line(_find_content_type(headers), key) or "text"
    is_page = "html" in kind or bool(_PAGE.match(content))
    return ProviderError(
        "server",
        f"the reply is not a JSON object but {kind}" + (f": {words}" if words else ""),
        hint=f"check base_url under {_format_table(provider)}" if is_page else "",
        status=status,
        retryable=False if is_page else None,
    )


def _find_content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _format_location(location: str) -> str:
    """Formats the target of a redirect, without parts that may be secret."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "another URL"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path or "another URL"


def _parse_wait(headers: Headers) -> float | None:
    """Parses the seconds to wait that the headers give; None if they give none."""
    if milliseconds := headers.get("retry-after-ms", ""):
        wait = _parse_retry_after(milliseconds)
        return wait if wait is None else wait / 1000
    return _parse_retry_after(headers.get("retry-after", ""))


def _parse_retry_after(value: str) -> float | None:
    """Parses seconds or an HTTP date into seconds to wait; None if it is neither."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError, OSError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)
