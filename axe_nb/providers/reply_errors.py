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

from axe_nb.errors import Category, ProviderError
from axe_nb.provider_table import ProviderInfo
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

_KINDS: Mapping[object, Category] = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limit",
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_request_error": "bad_request",
    "not_found_error": "bad_request",
    "timeout_error": "timeout",
}
"""Type of an error → category, if there is no status."""

_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|prompt is too long|too many (input )?tokens", re.IGNORECASE
)
_HALF_MASKED = re.compile(r"(?<!\S)[^\s*]*\*{3,}\S*")
"""A word with asterisks, as in keys that servers repeat."""

_NO_TOOLS = re.compile(
    r"support\w*\W+(\w+\W+){0,2}(tool|function)|(tool|function)\w*\W+(\w+\W+){0,3}not\W+support"
    r"|enable-auto-tool-choice",
    re.IGNORECASE,
)


def category(status: int) -> Category:
    """Returns the category of an HTTP error status (B-5, D-37)."""
    match status:
        case 401 | 403:
            return "auth"
        case 408:
            return "timeout"
        case 429:
            return "rate_limit"
        case 529:
            return "overloaded"
        case _ if 400 <= status < 500:
            return "bad_request"
        case _:
            return "server"


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
        raise ProviderError("server", _describe_non_json(headers, content, key), status=status)
    if data.get("error"):
        raise error_in_reply(data, key)
    return data


def error_in_reply(data: Mapping[str, Any], key: str = "") -> ProviderError:
    """Returns the error that a reply with a success status reports in its body."""
    error = data.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        found = category(code)
    else:
        found = _KINDS.get(kind, "server") if isinstance(kind, str) else "server"
    return ProviderError(
        found, masked_line(_find_message(data), key) or "the reply reports an error"
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
    message = masked_line(_find_message(data), key)
    if 300 <= status < 400:
        where = masked_line(_format_location(headers.get("location", "")), key)
        message = f"the server redirects to {where}, and redirects are not followed ({phrase})"
    elif not message:
        plain = (
            data is None and "html" not in _find_content_type(headers) and "<" not in content[:200]
        )
        first = masked_line(content, key, 100) if plain else ""
        message = f"{phrase}: {first}" if first else phrase
    return ProviderError(
        category(status),
        message,
        hint=_find_hint(provider, status, message),
        status=status,
        retry_after=_parse_retry_after(headers.get("retry-after", "")),
    )


def _find_hint(provider: ProviderInfo, status: int, message: str) -> str:
    """Returns the next step; empty if the message says it or there is none."""
    table = f"[providers.{provider.name}] in config.toml"
    match status:
        case 401 | 403 if provider.has_server:
            return f"check {provider.key_variable}, or api_key under {table}"
        case 404 if provider.has_server:
            return f"check the model name, and base_url under {table}"
        case 429:
            return "wait a moment, or set max_retries under [retry] of the agent"
        case _ if 300 <= status < 400:
            return f"set base_url under {table} to the final URL"
        case _ if status >= 500:
            return "try again later, or set max_retries under [retry] of the agent"
        case _ if _TOO_LONG.search(message):
            return "the conversation exceeds the model's context: start a new one, or shorten it"
        case _:
            return ""


def _find_message(data: Any) -> str:
    """Finds the API's own message, in any of the known formats; empty if there is none."""
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, list):
        return next(filter(None, map(_find_message, data[:3])), "")
    if not isinstance(data, dict):
        return ""
    keys = ("error", "message", "detail", "msg")
    return next(filter(None, (_find_message(data.get(key)) for key in keys)), "")


def _describe_non_json(headers: Headers, content: str, key: str) -> str:
    """Describes a reply that is not a JSON object."""
    if not content.strip():
        return "the reply is empty"
    words = masked_line(re.sub(r"<[^<>]*>", " ", _mask_key(key, content)[:2000]), limit=60)
    kind = masked_line(_find_content_type(headers), key) or "text"
    return f"the reply is not a JSON object but {kind}" + (f": {words}" if words else "")


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
