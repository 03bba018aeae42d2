"""The secrets of a server, removed from all that it sends: whole replies, streams and errors.

Source: B-3.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from axe_nb.conversion.jsonable import change_texts
from axe_nb.providers.protocol import Server
from axe_nb.secrets import MASK, is_secret_name, redact, remember

SHORTEST = 6
"""Characters; shorter keys are placeholders such as `none`, and would match ordinary words."""

SURELY_SECRET = 16
"""Characters; shorter keys are not removed from answers, as they may be words (`lm-studio`)."""

PUBLIC_HEADERS = frozenset(
    {
        "accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type",
        "http-referer", "openai-beta", "openai-organization", "openai-project", "referer",
        "user-agent", "x-title",
    }
)  # fmt: skip
"""Headers whose values are known not to be secrets."""

KEY_PARAMETERS = frozenset({"code", "sig", "signature"})
"""Parameters of a URL, in lower case, whose values are keys though their names do not say so."""

LONG = 24
"""Characters from which the value of a parameter may be a key; versions and dates are shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The secrets of one server: its key, those in its base URL, and those in its headers."""

    in_answers: tuple[str, ...] = field(default=(), repr=False)
    """The secrets that cannot be mistaken for words, longest first."""
    in_errors: tuple[str, ...] = field(default=(), repr=False)
    """All secrets, longest first."""

    @staticmethod
    def of(server: Server) -> Secrets:
        """Returns the secrets of a server."""
        info = server.info
        password, *others = _list_login(server.base_url)
        parameters = [one.partition("=") for one in info.query.split("&")]
        queried = [value for name, _, value in parameters if _may_be_key(name, value)]
        headers = _list_in_headers(info.headers)
        possible = {password, server.key, *others, *headers, *queried, *map(unquote_plus, queried)}
        found = sorted((s for s in possible if len(s) >= SHORTEST), key=len, reverse=True)
        for secret in found:
            remember(secret)
        certain = (s for s in found if len(s) >= SURELY_SECRET or s == password)
        return Secrets(in_answers=tuple(certain), in_errors=tuple(found))

    def mask_error(self, words: str) -> str:
        """Returns the words of an error without secrets."""
        return _mask(words, self.in_errors)

    def mask_text(self, text: str) -> str:
        """Returns a text of an answer without secrets."""
        return _mask(text, self.in_answers)

    def mask_json(self, value: Any) -> Any:
        """Returns a decoded answer without secrets."""
        return change_texts(value, self.mask_text, also_keys=True)

    def find_beginning(self, piece: str) -> int:
        """Returns where a secret may begin near the end of a piece; the end if none does."""
        begun = (
            size
            for secret in self.in_answers
            for size in range(1, len(secret))
            if piece.endswith(secret[:size])
        )
        return len(piece) - max(begun, default=0)


NO_SECRETS = Secrets()


def _mask(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _list_login(base_url: str) -> tuple[str, ...]:
    """Returns the password in a base URL, a name that stands alone, and the header of both."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return ("",)
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    login = b64encode(f"{name}:{password}".encode()).decode()
    return (password, login) if password else ("", name, login)


def _list_in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yields the values of headers that may be secrets, with and without `Bearer` or the like."""
    for name, value in headers.items():
        if name.lower() not in PUBLIC_HEADERS and "{key}" not in value:
            yield value.strip()
            yield value.strip().partition(" ")[2]


def mask_query(query: str) -> str:
    """Returns the query of a URL without the values that may be keys."""
    return "&".join(
        f"{name}{mark}{MASK if _may_be_key(name, value) else value}"
        for name, mark, value in (parameter.partition("=") for parameter in query.split("&"))
    )


def _may_be_key(name: str, value: str) -> bool:
    is_named = is_secret_name(unquote_plus(name)) or name.lower() in KEY_PARAMETERS
    return bool(value) and (is_named or len(value) >= LONG or redact(value) != value)
