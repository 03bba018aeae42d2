"""The secrets of a server, found in its settings and its base URL."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, unquote_plus, urlsplit

from axe_nb.providers.protocol import Server
from axe_nb.secrets import is_secret_name, redact, remember

PUBLIC_HEADERS = frozenset({
    "accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type",
    "http-referer", "openai-beta", "openai-organization", "openai-project", "referer",
    "user-agent", "x-title",
})  # fmt: skip
"""Headers whose values are known not to be secrets."""


def find_secrets(server: Server) -> tuple[str, ...]:
    """Returns the secrets of a server that an answer must not repeat, longest first.

    The filter of all that is shown or kept removes them and the shorter ones from now on.
    """
    info = server.info
    queried = list_keys(info.query)
    found = {server.key, *_list_login(server.base_url), *_list_in_headers(info.headers)}
    found |= {*queried, *map(unquote_plus, queried)}
    for secret in found:
        remember(secret)
    # shorter ones may be words (`lm-studio`)
    return tuple(sorted((s for s in found if len(s) >= 16), key=len, reverse=True))


def list_keys(query: str) -> list[str]:
    """Returns the values in the query of a URL that may be keys."""
    parameters = [one.partition("=") for one in query.split("&")]
    return [value for name, _, value in parameters if value and _may_be_key(name, value)]


def without_login(base_url: str) -> str:
    """Returns the base URL without user name and password."""
    scheme, _, rest = base_url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def show_server(server: Server) -> str:
    """Returns the `repr` of a server: its base URL, without a login."""
    return f"{type(server).__name__}(base_url={without_login(server.base_url)!r})"


def _may_be_key(name: str, value: str) -> bool:
    is_named = name.lower() in ("code", "sig", "signature") or is_secret_name(unquote_plus(name))
    # versions and dates are shorter
    return is_named or len(value) >= 24 or redact(value) != value


def _list_login(base_url: str) -> tuple[str, ...]:
    """Returns the name and password in a base URL, and the header of both."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return ()
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    login = b64encode(f"{name}:{password}".encode()).decode()
    return (password, login) if password else (name, login)


def _list_in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yields the values of headers that may be secrets, with and without `Bearer` or the like."""
    for name, value in headers.items():
        if name.lower() not in PUBLIC_HEADERS and "{key}" not in value:
            yield value.strip()
            yield value.strip().partition(" ")[2]
