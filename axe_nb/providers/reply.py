"""What a server's reply means: its JSON object, or the one line that says what went wrong.

Pure: also failures that a script model acts out are told in these words.
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

from axe_nb.agents.provider_table import ProviderInfo
from axe_nb.errors import Category, ProviderError
from axe_nb.providers.wire import loads
from axe_nb.text import one_line, quote

Headers: TypeAlias = Mapping[str, str]
"""Names in lower case, or found in any case."""

MAX_MESSAGE = 300
"""Characters of a server's own message that are passed on."""

MAX_RETRY_AFTER = 86_400.0
"""Seconds; a server that asks for more asks for this."""

SHORTEST_KEY = 6
"""Characters; shorter ones are stand-ins like `none`, and would be found in ordinary words."""

SURELY_A_KEY = 16
"""Characters; only these are taken out of answers too: shorter ones may be meant (`lm-studio`)."""

_KINDS: Mapping[object, Category] = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limit",
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_request_error": "bad_request",
    "not_found_error": "bad_request",
    "timeout_error": "timeout",
}
"""An error's own type → category, where no status says it."""

_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|prompt is too long|too many (input )?tokens", re.IGNORECASE
)
_HALF_MASKED = re.compile(r"(?<!\S)[^\s*]*\*{3,}\S*")
"""A word with stars in it, as servers repeat keys."""

_NO_TOOLS = re.compile(
    r"support\w*\W+(\w+\W+){0,2}(tool|function)|(tool|function)\w*\W+(\w+\W+){0,3}not\W+support"
    r"|enable-auto-tool-choice",
    re.IGNORECASE,
)


def category(status: int) -> Category:
    """What kind of failure an HTTP status stands for (B-5, D-37)."""
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
    """The JSON object of a reply.

    Args:
        key: taken out wherever the server repeats it.

    Raises:
        ProviderError: the status is no success, the body is no JSON object or reports an error.
    """
    content = body.decode("utf-8", "replace").removeprefix("\ufeff")
    if len(key) >= SURELY_A_KEY:
        content = _without(key, content)
    try:
        data = loads(content)
    except ValueError:
        data = None
    if not 200 <= status < 300:
        raise _refusal(provider, status, headers, data, content, key)
    if not isinstance(data, dict):
        raise ProviderError("server", _instead(headers, content, key), status=status)
    if data.get("error"):
        raise error_in_reply(data, key)
    return data


def error_in_reply(data: Mapping[str, Any], key: str = "") -> ProviderError:
    """The error that a reply reports in its body although its status is a success."""
    error = data.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        found = category(code)
    else:
        found = _KINDS.get(kind, "server") if isinstance(kind, str) else "server"
    return ProviderError(found, masked_line(_said(data), key) or "the reply reports an error")


def masked_line(message: str, key: str = "", limit: int = MAX_MESSAGE) -> str:
    """A server's words in one line of at most `limit` characters, without keys."""
    return one_line(_HALF_MASKED.sub("***", _without(key, message)[: 10 * limit]), limit)


def _without(key: str, message: str) -> str:
    return message.replace(key, "***") if len(key) >= SHORTEST_KEY else message


def refuses_tools(error: ProviderError) -> bool:
    """Whether the server says that the model cannot use tools (D-30)."""
    return error.category == "bad_request" and bool(_NO_TOOLS.search(error.detail))


def without_tools(error: ProviderError, model: str) -> ProviderError:
    """The refusal of tools as an error that names the model (D-30)."""
    return ProviderError(
        "bad_request",
        f"model {quote(model)} cannot use tools: {error.detail}",
        hint="choose another model, or take `tools` and `sub_agents` out of the agent",
        status=error.status,
    )


def _refusal(
    provider: ProviderInfo, status: int, headers: Headers, data: Any, content: str, key: str
) -> ProviderError:
    try:
        phrase = f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    message = masked_line(_said(data), key)
    if 300 <= status < 400:
        where = masked_line(_place(headers.get("location", "")), key)
        message = f"the server redirects to {where}, and redirects are not followed ({phrase})"
    elif not message:
        plain = data is None and "html" not in _kind(headers) and "<" not in content[:200]
        first = masked_line(content, key, 100) if plain else ""
        message = f"{phrase}: {first}" if first else phrase
    return ProviderError(
        category(status),
        message,
        hint=_hint(provider, status, message),
        status=status,
        retry_after=_retry_after(headers.get("retry-after", "")),
    )


def _hint(provider: ProviderInfo, status: int, message: str) -> str:
    """What to do next; empty where the message says it or nobody knows."""
    table = f"[providers.{provider.name}] in config.toml"
    match status:
        case 401 | 403 if provider.has_server:
            return f"check {provider.key_variable}, or api_key under {table}"
        case 404 if provider.has_server:
            return f"check the model's name, and base_url under {table}"
        case 429:
            return "wait a little, or set max_retries under [retry] of the agent"
        case _ if 300 <= status < 400:
            return f"set base_url under {table} to the final address"
        case _ if status >= 500:
            return "try again later, or set max_retries under [retry] of the agent"
        case _ if _TOO_LONG.search(message):
            return "the conversation is longer than the model can read: start anew, or with less"
        case _:
            return ""


def _said(data: Any) -> str:
    """The API's own message, in any of the shapes in use; empty where there is none."""
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, list):
        return next(filter(None, map(_said, data[:3])), "")
    if not isinstance(data, dict):
        return ""
    keys = ("error", "message", "detail", "msg")
    return next(filter(None, (_said(data.get(key)) for key in keys)), "")


def _instead(headers: Headers, content: str, key: str) -> str:
    """What came where a JSON object was due."""
    if not content.strip():
        return "the reply is empty"
    words = masked_line(re.sub(r"<[^<>]*>", " ", _without(key, content)[:2000]), limit=60)
    kind = masked_line(_kind(headers), key) or "text"
    return f"the reply is no JSON object but {kind}" + (f": {words}" if words else "")


def _kind(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _place(location: str) -> str:
    """Where a redirect leads, without what may be secret in it."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "another address"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path or "another address"


def _retry_after(value: str) -> float | None:
    """Seconds to wait, from seconds or an HTTP date; None where it is neither."""
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
