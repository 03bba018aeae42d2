"""Interpretation of a server's reply: its JSON object, or an error in one line.

Pure; also used for the failures that script models simulate.
Source: B-4, B-5, D-30, D-37, D-45.
"""

from __future__ import annotations

import email.utils
import http
import math
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from axe_nb.agents.provider_table import ProviderInfo
from axe_nb.errors import ProviderError
from axe_nb.messages import Request
from axe_nb.messages.answer_tool import has_answer_tool_alone
from axe_nb.pictures.picture import Picture
from axe_nb.providers.error_bodies import (
    FINAL_STATUSES,
    MAX_SEARCHED,
    classify,
    find_code,
    find_message,
    find_wait,
    find_written,
    is_failed_call,
    is_quota,
    is_too_long,
    refuses_pictures,
)
from axe_nb.providers.secrets import NO_SECRETS, Secrets
from axe_nb.providers.wire import loads, table
from axe_nb.secrets import MASK, redact
from axe_nb.text import one_line, quote

Headers: TypeAlias = Mapping[str, str]
"""Header names are in lower case, or matched in any case."""

MAX_MESSAGE = 300
"""Characters kept of a server's own message."""

MAX_RETRY_AFTER = 86_400.0
"""Seconds; larger values are reduced to this."""

_HALF_MASKED = re.compile(r"(?<!\S)[^\s*]*\*{3,}\S*")
"""A word with asterisks, as in keys that servers repeat."""

_PAGE = re.compile(r"\s*<(!--|(!doctype|html|head|body)\b)", re.IGNORECASE)

TOO_LONG = (
    "the conversation exceeds the model's context: start a new one, shorten it, or lower "
    "params.max_tokens of the agent"
)

_REPHRASE = "rephrase the prompt in a new conversation, or use another model"

_RETRIES = "allow more retries with --retries"

_BILLING = "check the plan and billing of your account, or use another provider"

_RESPONSES = re.compile(r"\bv1/responses\b|\bresponses (api|endpoint)\b", re.IGNORECASE)
_CHAT = re.compile(r"\bchat[/ ]completions?\b", re.IGNORECASE)
"""Names of OpenAI's two APIs in the refusals of the other one."""

_NAMED = re.compile(r"\b(models?|deployment|item|script)\b", re.IGNORECASE)
"""Words for something else than a path that a server has not found."""

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
    secrets: Secrets = NO_SECRETS,
    request: Request | None = None,
) -> dict[str, Any]:
    """Returns the JSON object of a reply.

    Raises ProviderError for an error status, a body that is not a JSON object, or a reported error.

    Args:
        secrets: removed wherever the server repeats them.
        request: the request, if it was for an answer; its model may be unable to use tools (D-30).
    """
    content = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        data = secrets.mask_json(loads(content))
    except ValueError:
        data = None
    if 200 <= status < 300 and isinstance(data, dict) and not data.get("error"):
        return data
    if not 200 <= status < 300:
        error = _make_status_error(provider, status, headers, data, content, secrets)
    elif isinstance(data, dict):
        error = error_in_reply(data, secrets)
    else:
        error = _make_non_json_error(provider, status, headers, content, secrets)
    if step := _find_other_api(provider, error, data):
        error.hint = step
    elif request and (key := _find_parameter(request, error)):
        error.hint = error.hint or f"change or remove params.{key} of the agent"
    elif request and request.tools and _refuses_tools(error, data):
        error = _without_tools(error, request)
    elif request and refuses_pictures(error.detail) and (pictures := request.pictures):
        error = _without_pictures(error, request.model, pictures)
    raise error


def _find_other_api(provider: ProviderInfo, error: ProviderError, data: Any) -> str:
    """Returns the next step after a refusal by one of OpenAI's two APIs that names the other."""
    step = provider.other_api
    message = find_message(data)[:MAX_SEARCHED]
    if not step or error.status not in (400, 404, 405, 422, 501):
        return ""
    if not provider.speaks_responses:
        return step if _RESPONSES.search(message) else ""
    has_no_path = error.status not in (400, 422) and not _NAMED.search(message)
    return step if has_no_path or _CHAT.search(message) else ""


def error_in_reply(data: Mapping[str, Any], secrets: Secrets = NO_SECRETS) -> ProviderError:
    """Returns the error that a reply with a success status reports in its body."""
    category, is_retryable = classify(None, data)
    error = ProviderError(
        category,
        _describe(data, secrets) or "the reply reports an error",
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


def masked_line(message: str, secrets: Secrets = NO_SECRETS, limit: int = MAX_MESSAGE) -> str:
    """Returns a server's message as one line of at most `limit` characters, without secrets."""
    cleaned = redact(secrets.mask_error(message)[: 10 * limit])  # in forms such as `%2F` too
    return one_line(_HALF_MASKED.sub(MASK, cleaned), limit)


def _describe(data: Any, secrets: Secrets) -> str:
    """Returns the server's message and code, and what it could not parse; empty = no message."""
    message = masked_line(find_message(data), secrets)
    code = masked_line(find_code(data, message), secrets)
    written = masked_line(find_written(data), secrets)
    if not message:
        return ""
    told = f"{message} ({code})" if code else message
    return f"{told} The model wrote: {written}" if written else told


def _find_parameter(request: Request, error: ProviderError) -> str:
    """Returns the first parameter of the agent that a refusal names; empty if it names none."""
    if error.category != "bad_request":
        return ""
    return next((k for k in request.params if re.search(rf"\b{re.escape(k)}\b", error.detail)), "")


def _refuses_tools(error: ProviderError, data: Any) -> bool:
    """True if the server says that the model cannot use tools, rather than refuse a parameter."""
    is_refused = error.category == "bad_request" and not table(table(data).get("error")).get(
        "param"
    )
    return is_refused and bool(_NO_TOOLS.search(error.detail))


def _without_tools(error: ProviderError, request: Request) -> ProviderError:
    others = "remove `tools` and `sub_agents` from the agent"
    if has_answer_tool_alone(request):
        others = "ask for text: structured output from this model needs a tool"
    return ProviderError(
        "bad_request",
        f"model {quote(request.model)} cannot use tools: {error.detail}",
        hint=f"choose another model, or {others}",
        status=error.status,
    )


def _without_pictures(
    error: ProviderError, model: str, pictures: Sequence[Picture]
) -> ProviderError:
    what = "documents" if all(one.is_document for one in pictures) else "pictures"
    return ProviderError(
        "bad_request",
        f"model {quote(model)} cannot read {what}: {error.detail}",
        hint=f"choose another model, or leave out the {what}",
        status=error.status,
    )


def _make_status_error(
    provider: ProviderInfo,
    status: int,
    headers: Headers,
    data: Any,
    content: str,
    secrets: Secrets,
) -> ProviderError:
    try:
        phrase = f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    message = _describe(data, secrets)
    if 300 <= status < 400:
        where = masked_line(_format_location(headers.get("location", "")), secrets)
        message = f"the server redirects to {where}, but redirects are not followed ({phrase})"
    elif not message:
        plain = (
            data is None and "html" not in _find_content_type(headers) and "<" not in content[:200]
        )
        first = masked_line(content, secrets, 100) if plain else ""
        message = f"{phrase}: {first}" if first else phrase
    category, is_retryable = classify(status, data)
    verdict = headers.get("x-should-retry", "").strip().lower()
    wait = _parse_retry_after(headers.get("retry-after-ms", ""), unit=0.001)
    wait = _parse_retry_after(headers.get("retry-after", "")) if wait is None else wait
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
        return TOO_LONG
    if is_failed_call(data):
        return f"try again, {_RETRIES}, or use another model"
    if is_quota(data):
        return _BILLING
    return ""


def _find_hint(provider: ProviderInfo, error: ProviderError) -> str:
    """Returns the next step; empty if the message says it or there is none."""
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
    provider: ProviderInfo, status: int, headers: Headers, content: str, secrets: Secrets
) -> ProviderError:
    """Makes the error for a reply that is not a JSON object; a web page does not pass."""
    if not content.strip():
        return ProviderError("server", "the reply is empty", status=status)
    words = masked_line(re.sub(r"<[^<>]*>", " ", secrets.mask_error(content)[:2000]), limit=60)
    kind = masked_line(_find_content_type(headers), secrets) or "text"
    is_page = "html" in kind or bool(_PAGE.match(content))
    return ProviderError(
        "server",
        f"the reply is not a JSON object but {kind}" + (f": {words}" if words else ""),
        hint=f"check {provider.url_setting}" if is_page else "",
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


def _parse_retry_after(value: str, unit: float = 1.0) -> float | None:
    """Parses a number or an HTTP date into seconds to wait; None if it is neither.

    Dates of HTTP are in UTC, also those in the older form, which names no zone.
    """
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
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)
