"""The secrets of a server, removed from all that it sends: whole replies, streams and errors.

Source: B-3; goals.md "Safety".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from axe_nb.messages import dump
from axe_nb.providers.protocol import Server
from axe_nb.redaction import MASK, is_secret_name, redact, remember

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


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """The secrets of one server: its key, those in its base URL, and those in its headers."""

    in_answers: tuple[str, ...] = field(default=(), repr=False)
    """The secrets that cannot be mistaken for words, longest first."""
    in_errors: tuple[str, ...] = field(default=(), repr=False)
    """All secrets, longest first."""
    in_json: tuple[str, ...] = field(default=(), repr=False)
    """The secrets looked for in answers, with the escapes that JSON requires."""

    @staticmethod
    def of(server: Server) -> Secrets:
        """Returns the secrets of a server."""
        info = server.info
        return _collect(server.base_url, server.key, tuple(info.headers.items()), info.query)

    def mask_error(self, words: str) -> str:
        """Returns the words of an error without secrets."""
        for secret in self.in_errors:
            words = words.replace(secret, MASK)
        return words

    def mask_text(self, text: str) -> str:
        """Returns a text of an answer without secrets."""
        for secret in self.in_answers:
            text = text.replace(secret, MASK)
        return text

    def mask_json(self, value: Any, written: str) -> Any:
        r"""Returns a decoded answer without secrets.

        Args:
            value: the answer.
            written: its JSON, where a secret may have more escapes than required, such as `\/`.
        """
        may_hide = self.in_json and ("\\u" in written or "\\/" in written)
        if may_hide or any(secret in written for secret in self.in_json):
            return self._mask_value(value)
        return value

    def _mask_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, list):
            return [self._mask_value(entry) for entry in value]
        if isinstance(value, dict):
            return {self.mask_text(key): self._mask_value(entry) for key, entry in value.items()}
        return value

    def find_beginning(self, piece: str) -> int:
        """Returns where a secret may begin near the end of a piece; the end if none does."""
        return min([len(piece), *(_find_beginning(piece, secret) for secret in self.in_answers)])


NO_SECRETS = Secrets()


@lru_cache(maxsize=64)
def _collect(base_url: str, key: str, headers: tuple[tuple[str, str], ...], query: str) -> Secrets:
    password, *others = _list_login(base_url)
    possible = {password, key, *others, *_list_in_headers(headers), *_list_in_query(query)}
    found = sorted((s for s in possible if len(s) >= SHORTEST), key=len, reverse=True)
    for secret in found:
        remember(secret)
    certain = [s for s in found if len(s) >= SURELY_SECRET or s == password]
    return Secrets(
        in_answers=tuple(certain),
        in_errors=tuple(found),
        in_json=tuple(dump(secret).decode()[1:-1] for secret in certain),
    )


def _list_login(base_url: str) -> tuple[str, ...]:
    """Returns the password in a base URL, a name that stands alone, and the header of both."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return ("",)
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not name and not password:
        return ("",)
    login = b64encode(f"{name}:{password}".encode()).decode()
    return (password, login) if password else ("", name, login)


def _list_in_headers(headers: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Yields the values of headers that may be secrets, with and without `Bearer` or the like."""
    for name, value in headers:
        if name.lower() not in PUBLIC_HEADERS and "{key}" not in value:
            yield value.strip()
            yield value.strip().partition(" ")[2]


def mask_query(query: str) -> str:
    """Returns the query of a URL without the values that may be keys."""
    return "&".join(
        f"{name}{mark}{MASK if _may_be_key(name, value) else value}"
        for name, mark, value in _split_query(query)
    )


def _list_in_query(query: str) -> Iterator[str]:
    """Yields the values of a query that may be keys, as they are and decoded."""
    for name, _, value in _split_query(query):
        if _may_be_key(name, value):
            yield value
            yield unquote_plus(value)


def _split_query(query: str) -> Iterator[tuple[str, str, str]]:
    return (parameter.partition("=") for parameter in query.split("&"))


def _may_be_key(name: str, value: str) -> bool:
    is_named = is_secret_name(unquote_plus(name)) or name.lower() in KEY_PARAMETERS
    return bool(value) and (is_named or len(value) >= LONG or redact(value) != value)


def _find_beginning(piece: str, secret: str) -> int:
    """Returns the position where a secret may begin at the end of the piece, or the end."""
    at = piece.find(secret[0], max(0, len(piece) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(piece[at:]):
            return at
        at = piece.find(secret[0], at + 1)
    return len(piece)
