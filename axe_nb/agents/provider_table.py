"""The provider table: built-in providers, and providers that `config.toml` changes or adds.

A `[providers.NAME]` table changes a built-in provider or adds a named endpoint, which is a server
that speaks the protocol of a built-in provider. Source: B-2, B-3, D-27.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

from axe_nb.conversion.toml_tables import Source, WrongValue, build, check_choice, check_types
from axe_nb.messages.model_table import find_facts

NOT_PARAMS = frozenset({"model", "messages", "tools", "stream", "system", "input", "instructions"})
"""Keys of a request that axe_nb sets itself, overriding `[params]`."""

READ_SECONDS = 120.0

SERVER_TOOLS, SEARCH = "server_tools", "web_search"
"""Key of `[params]` for tools that the provider runs, and the name of the web search tool."""

BEARER = {"authorization": "Bearer {key}"}


@dataclass(frozen=True, kw_only=True)
class ProviderInfo:
    """Facts about a provider, needed to call the provider's models and to write messages."""

    name: str
    """Name of the provider: the part of a model string before the slash, in lower case."""
    module: str = ""
    """Module with the `PROVIDER` that sends requests; empty if the provider has no server."""
    base_url: str = ""
    needs_key: bool = False
    key_variable: str = ""
    key_command: tuple[str, ...] = field(default=(), repr=False)
    """Program and arguments that print the key, from `config.toml`; may contain secrets."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers sent with every request; `{key}` stands for the API key. A header is omitted if it is
    empty, or if it contains `{key}` and there is no key."""
    read_timeout: float | None = READ_SECONDS
    """Maximum seconds without data from the server; None if only the run's time limit applies."""
    certificates: tuple[str, str] = ("", "")
    """Paths of `ca_file` and `client_cert`. If the first is empty, the system's certificate
    authorities are trusted; if the second is empty, no client certificate is sent."""
    api_path: str = ""
    """Prefix of the API's paths, omitted if the base URL includes the API's root (D-33)."""
    chat_path: str = ""
    """Path of model requests; a base URL may already end with this path (D-33)."""
    api: str = ""
    """OpenAI API set in `config.toml`, `responses` or `chat`; empty if not set (D-73)."""
    has_whole_url: bool = False
    """True if the base URL is the full URL of the model endpoint; its path selects the API."""
    left_out: str = ""
    """The default `api_path` that the base URL includes or replaces; empty if it does neither."""
    prefix_is_root: bool = False
    """True if a path in a base URL is the API's root; otherwise `api_path` is added to the path."""
    query: str = field(default="", repr=False)
    """Query of the base URL, added to every request; may contain a key."""
    models_path: str = ""
    models_keys: tuple[str, str] = ("data", "id")
    """Keys of a response with models: the list's key, and the key of the name in each entry."""
    software: str = "the server"
    pull: str = ""
    """Shell command to suggest for a missing model; `{model}` stands for the model's name."""

    @property
    def has_server(self) -> bool:
        return bool(self.base_url)

    @property
    def url_variable(self) -> str:
        return f"AXE_{in_capitals(self.name)}_BASE_URL"

    @property
    def url_setting(self) -> str:
        if os.environ.get(self.url_variable, "").strip():
            return f"{self.url_variable} in the environment"
        return f"base_url under [providers.{self.name}] in config.toml"

    @property
    def key_place(self) -> str:
        return f"key_command under [providers.{self.name}] in config.toml"

    def choose_api(self, url: str, model: str) -> ProviderInfo:
        """Returns a copy of the provider, set up for the OpenAI API that `model` uses (D-73).

        If `url` is the full URL of the model endpoint, its path selects the API; otherwise the
        `api` setting does. Without that setting, OpenAI's own server uses the API listed for the
        model, and any other server uses Chat Completions. A provider with another protocol is
        returned unchanged.
        """
        chat = PROVIDERS["openai"]
        if self.module != chat.module:
            return self
        address = url.partition("?")[0].rstrip("/")
        whole = [info for info in (chat, RESPONSES) if address.endswith(info.chat_path)]
        api = self.api
        if not api and f".{urlsplit(address).hostname}".endswith(".api.openai.com"):
            api = find_facts("openai", model).api
        info = whole[0] if whole else RESPONSES if api == "responses" else chat
        return replace(
            self, module=info.module, chat_path=info.chat_path, has_whole_url=bool(whole)
        )

    @property
    def speaks_responses(self) -> bool:
        return self.module == RESPONSES.module

    @property
    def other_api(self) -> str:
        """Advice on how to switch to the other OpenAI API; empty if the provider has only one."""
        if not (self.speaks_responses or self.module == PROVIDERS["openai"].module):
            return ""
        if self.has_whole_url:
            return f"remove {self.chat_path} from {self.url_setting}"
        other = "chat" if self.speaks_responses else "responses"
        return f'set api = "{other}" under [providers.{self.name}] in config.toml'

    def locate(self, url: str) -> tuple[str, ProviderInfo]:
        """Removes known API paths from `url`; returns the base URL and a provider adapted to it.

        `url` is the root of the server, the root of the server's API, or the full URL of the
        model endpoint, and may end with a query.
        """
        address, _, query = url.partition("?")
        given = address.rstrip("/")
        base = given.removesuffix(self.chat_path)
        root = base.removesuffix("/v1")
        info = replace(self, query=quote(query, safe="%!$&'()*+,/:;=?@[]~"))
        has_prefix = base.count("/") > len("//")
        is_root = (self.prefix_is_root and has_prefix) or (base != given and bool(self.api_path))
        if is_root and root == base:
            return base, replace(info, api_path="", left_out=self.api_path)
        return root, info

    def path_of(self, path: str) -> str:
        """Returns an API path relative to the base URL, with the base URL's query added."""
        below = path.removeprefix(self.left_out)
        return f"{below}{'&' if '?' in below else '?'}{self.query}" if self.query else below

    def headers_with(self, key: str) -> dict[str, str]:
        return {
            name: value.replace("{key}", key)
            for name, value in self.headers.items()
            if value and (key or "{key}" not in value)
        }


_BUILT_IN = (
    ProviderInfo(
        name="anthropic",
        module="axe_nb.providers.anthropic",
        base_url="https://api.anthropic.com",
        needs_key=True,
        key_variable="ANTHROPIC_API_KEY",
        headers={"x-api-key": "{key}", "anthropic-version": "2023-06-01"},
        api_path="/v1",
        chat_path="/messages",
        models_path="/v1/models?limit=1000",
    ),
    ProviderInfo(
        name="openai",
        module="axe_nb.providers.openai",
        base_url="https://api.openai.com",
        needs_key=True,
        key_variable="OPENAI_API_KEY",
        headers=BEARER,
        api_path="/v1",
        chat_path="/chat/completions",
        prefix_is_root=True,
        models_path="/v1/models",
    ),
    ProviderInfo(
        name="ollama",
        module="axe_nb.providers.ollama",
        base_url="http://localhost:11434",
        key_variable="OLLAMA_API_KEY",
        headers=BEARER,
        chat_path="/api/chat",
        models_path="/api/tags",
        models_keys=("models", "name"),
        software="Ollama",
        pull="ollama pull {model}",
    ),
    ProviderInfo(name="script"),
)

PROVIDERS: Mapping[str, ProviderInfo] = {info.name: info for info in _BUILT_IN}
"""Built-in providers, keyed by name, in the order in which messages list them."""

RESPONSES = replace(
    PROVIDERS["openai"], module="axe_nb.providers.responses", chat_path="/responses"
)

PROTOCOLS: Mapping[str, ProviderInfo] = {
    "anthropic": PROVIDERS["anthropic"],
    "openai": PROVIDERS["openai"],
    "responses": RESPONSES,
    "ollama": PROVIDERS["ollama"],
}
"""Built-in provider for each wire protocol; `openai` is Chat Completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTable:
    """`[providers.NAME]`: a built-in provider, or a named endpoint, whose models are NAME/MODEL."""

    protocol: str = ""
    """`anthropic`, `openai` or `ollama`: the protocol that a named endpoint speaks."""
    api: str = ""
    """OpenAI API to use, `responses` or `chat` (Chat Completions). Defaults to the API that suits
    the model at OpenAI's own address, otherwise to `chat`."""
    base_url: str = ""
    """URL of the server, with or without `/v1`; defaults to the protocol's own server."""
    api_key: str = field(default="", repr=False)
    """API key; optional for a named endpoint."""
    api_key_env: str = ""
    """Environment variable that holds the key; by default `NAME_API_KEY`."""
    key_command: tuple[str, ...] = field(default=(), repr=False)
    """Program and arguments that print the key; run again after 10 minutes, and after HTTP 401."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers added to every request, with `{key}` for the key; an empty value removes a header."""
    read_timeout: float = READ_SECONDS
    """Maximum seconds without data from the server; 0 if only the run's time limit applies."""
    ca_file: str = ""
    """PEM file with the only certificates to trust for this server; relative paths start at the
    folder of `config.toml`."""
    client_cert: str = ""
    """PEM file with a client certificate and its unencrypted key, if required by the server."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.base_url.strip() and not is_http_url(self.base_url.strip()):
            raise WrongValue(("base_url",), NO_ADDRESS)
        if self.read_timeout < 0:
            raise WrongValue(("read_timeout",), "must be non-negative")
        check_headers(("headers",), self.headers)


NO_ADDRESS = "must be a valid URL that starts with http:// or https://"


def in_capitals(name: str) -> str:
    return re.sub(r"\W", "_", name.upper())


def describe_provider(name: str, table: Mapping[str, Any]) -> ProviderInfo | None:
    """Returns the provider for a valid table; None if a new provider has no protocol."""
    base = PROVIDERS.get(table.get("protocol", "") or name)
    if base is None:
        return None
    needs_key, variable = base.needs_key, base.key_variable
    if name not in PROVIDERS:
        needs_key = bool({"api_key", "api_key_env"} & set(table))
        variable = f"{in_capitals(name)}_API_KEY"
    headers = {header.lower(): value for header, value in table.get("headers", {}).items()}
    return replace(
        base,
        name=name,
        base_url=table.get("base_url", "").strip() or base.base_url,
        needs_key=needs_key,
        key_variable=table.get("api_key_env", "").strip() or variable,
        key_command=tuple(table.get("key_command", ())),
        headers={**base.headers, **headers},
        read_timeout=table.get("read_timeout", base.read_timeout) or None,
        api=table.get("api", ""),
        certificates=(table.get("ca_file", ""), table.get("client_cert", "")),
    )


def is_http_url(url: str) -> bool:
    """True for a valid HTTP or HTTPS URL without a fragment."""
    with suppress(ValueError):
        parts = urlsplit(url)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return has_host and not parts.fragment and url.isprintable() and " " not in url
    return False


def check_headers(at: tuple[str, ...], headers: Mapping[str, str]) -> None:
    """Raises WrongValue if a header is invalid or set by axe_nb; the message omits the value."""
    for header, value in headers.items():
        # with a wrong length, the server would take part of a request for the next request
        if header.lower() in ("content-length", "transfer-encoding"):
            raise WrongValue((*at, header), "is set by axe_nb: remove it")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", header):
            raise WrongValue(at, "must have names made of letters, digits, `-` and `_` only")
        if not (value.isascii() and value.isprintable()):
            raise WrongValue((*at, header), "contains characters that headers do not allow")


def check_table(name: str, table: Any, source: Source) -> None:
    """Raises ConfigError if a `[providers.NAME]` table is invalid; skips other programs' tables."""
    at = ("providers", name)
    if not isinstance(table, dict):
        raise WrongValue(at, "must be a table", hint=f"write [providers.{name}]")
    is_built_in = name in PROVIDERS
    if not is_built_in and "protocol" not in table:
        return  # belongs to another program that shares the file
    checked = build(ProviderTable, table, source, at)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
        raise WrongValue(at, "must be a lower-case name made of letters, digits, `-`, `_` and `.`")
    if "protocol" in table:
        protocols = [info.name for info in PROVIDERS.values() if info.has_server]
        check_choice((*at, "protocol"), checked.protocol, [name] if is_built_in else protocols)
    if "api" in table:
        if (checked.protocol or name) != "openai":
            raise WrongValue((*at, "api"), 'needs protocol = "openai"')
        check_choice((*at, "api"), checked.api, ("responses", "chat"))
    if "key_command" in table:
        if other := next((key for key in ("api_key", "api_key_env") if key in table), ""):
            problem = f"cannot be combined with {other}"
            raise WrongValue((*at, "key_command"), problem, hint="remove one of them")
        if not any(map(str.strip, checked.key_command[:1])):
            raise WrongValue((*at, "key_command"), "must begin with a program")
