"""The provider interface, and the address and secrets of a model server."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from urllib.parse import unquote, unquote_plus, urlsplit

from axe_nb.agents.provider_table import PROVIDERS, ProviderInfo
from axe_nb.messages import Delta, Request, Response
from axe_nb.secrets import is_secret_name, redact, remember

OnDelta: TypeAlias = Callable[[Delta], None]
"""Callback for each piece of a reply that arrives. The callback must neither block nor raise."""

PUBLIC_HEADERS = frozenset({
    "accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type",
    "http-referer", "openai-beta", "openai-organization", "openai-project", "referer",
    "user-agent", "x-title",
})  # fmt: skip
"""Headers whose values are known not to be secrets."""


@dataclass(frozen=True, repr=False)
class Server:
    """A model server: its base URL, without a trailing slash (D-33), and its API key, if any."""

    base_url: str
    key: str = ""
    info: ProviderInfo = PROVIDERS["openai"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={without_login(self.base_url)!r})"


class Provider(Protocol):
    """Interface to a model server. Cancelling the task that awaits `send` aborts the request."""

    name: str
    """Name of the protocol, which is also the prefix of generated call ids (D-28)."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Sends a request and returns the whole response; `on_delta` receives streamed pieces.

        Raises ProviderError if the server fails, refuses the request or sends an invalid reply.
        """
        ...


def find_secrets(server: Server) -> tuple[str, ...]:
    """Returns a server's secrets of at least 16 characters, longest first, to mask in its replies.

    All of the server's secrets, except very short ones and common words, are also masked in
    everything that axe_nb displays or saves from then on.
    """
    found = {server.key}
    if server.info.query:
        queried = list_keys(server.info.query)
        found |= {*queried, *map(unquote_plus, queried)}
    if "@" in server.base_url:
        with suppress(ValueError):
            parts = urlsplit(server.base_url)
            name, password = unquote(parts.username or ""), unquote(parts.password or "")
            found |= {password or name, b64encode(f"{name}:{password}".encode()).decode()}
    for name, value in server.info.headers.items():
        if name.lower() not in PUBLIC_HEADERS and "{key}" not in value:
            found |= {value.strip(), value.strip().partition(" ")[2]}  # also without `Bearer`
    for secret in found:
        remember(secret)
    # short secrets may be ordinary words (`lm-studio`)
    return tuple(sorted((s for s in found if len(s) >= 16), key=len, reverse=True))


def list_keys(query: str) -> list[str]:
    """Returns the values in a URL's query string that may be API keys."""
    keys = []
    for name, _, value in (one.partition("=") for one in query.split("&")):
        is_named = name.lower() in ("code", "sig", "signature")
        is_named = is_named or is_secret_name(unquote_plus(name))
        # versions and dates have fewer characters
        if value and (is_named or len(value) >= 24 or redact(value) != value):
            keys.append(value)
    return keys


def without_login(base_url: str) -> str:
    scheme, _, rest = base_url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
